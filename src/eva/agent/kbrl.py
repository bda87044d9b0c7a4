"""Kernel-based reinforcement learning with the parametric pseudo-state: Eq. 6 and Algorithm 4, normalised (P7)."""

import numpy as np
import torch

from eva.types import Floats, Ints, Trajectories


def kernel_based_rl(
    trajectories: Trajectories, q_theta: Floats, embeddings: Floats, *, bandwidth: float, parametric_similarity: float
) -> Floats:
    """Plan over the transitions (s_i, a_i, r_i, s'_i) of a plan's trajectories together (P20).

    Q(s, a) = [sum_{i in S_a} k(s, s_i) (r_i + gamma V(s'_i)) + C Q_theta(s, a)] / [sum_{i in S_a} k(s, s_i) + C]  (P7)
    V(s) = max_a Q(s, a),   k(s, s_i) = exp(-||h(s) - h(s_i)||^2 / 2 b^2)

    `bandwidth` is b, the length scale of the Gaussian kernel; `parametric_similarity` is C, every state's similarity to
    the pseudo-state that is worth Q_theta. Takes B trajectories of T transitions, and their states' values,
    (B, T + 1, A), and embeddings, (B, T + 1, D). Returns Q_NP of all states but the last, (B, T, A).
    """
    q_np: Floats = q_theta[:, :-1].copy()
    for plan in np.unique(trajectories.plans):  # trajectories of different plans do not meet
        rows = trajectories.plans == plan
        one = Trajectories(**{name: array[rows] for name, array in vars(trajectories).items()})
        q_np[rows] = _value_iteration(one, q_theta[rows], embeddings[rows], bandwidth, parametric_similarity)
    return q_np


def _value_iteration(
    trajectories: Trajectories, q_theta: Floats, embeddings: Floats, bandwidth: float, parametric_similarity: float
) -> Floats:
    """Iterate values over the N transitions of one plan; S = M (T + 1) states, padding included."""
    valid, actions = trajectories.valid, trajectories.actions[trajectories.valid]
    rewards, discounts = trajectories.rewards[valid], trajectories.discounts[valid]
    num_trajectories, num_states, num_actions = q_theta.shape
    states = np.arange(num_trajectories * num_states).reshape(num_trajectories, num_states)
    origin, resultant = states[:, :-1][valid], states[:, 1:][valid]  # (N,) of s_i and s'_i
    parametric_values = q_theta.reshape(-1, num_actions).astype(np.float64)
    in_s_a = np.eye(num_actions)[actions]  # (N, A)
    similarity, parametric = _similarities(
        embeddings.reshape(-1, embeddings.shape[-1]), origin, actions, in_s_a, bandwidth, parametric_similarity
    )

    def q(v: Floats) -> Floats:
        backups = in_s_a * (rewards + discounts * v[resultant])[:, None]
        result: Floats = similarity @ backups + parametric * parametric_values
        return result

    v = np.zeros(states.size)
    for _ in range(num_states):  # T + 1 sweeps carry the last state's value to the first (P7)
        v = q(v).max(axis=1)
    return q(v).reshape(q_theta.shape)[:, :-1]


def _similarities(
    keys: Floats, origin: Ints, actions: Ints, in_s_a: Floats, bandwidth: float, parametric_similarity: float
) -> tuple[Floats, Floats]:
    """Normalise the kernel over S_a and the pseudo-state; returns their shares, (S, N) and (S, A).

    In log space, by the largest term of each sum: k underflows at a few bandwidths' distance.
    """
    log_c = np.log(parametric_similarity)
    log_kernel = squared_distances(keys, keys[origin]) / (-2 * bandwidth**2)  # (S, N)
    largest = np.full((len(keys), in_s_a.shape[1]), log_c)  # (S, A)
    for action in np.unique(actions):
        largest[:, action] = log_kernel[:, actions == action].max(axis=1).clip(min=log_c)
    kernel = np.exp(log_kernel - largest[:, actions])
    pseudo_state = np.exp(log_c - largest)
    total = kernel @ in_s_a + pseudo_state
    return kernel / total[:, actions], pseudo_state / total


def squared_distances(x: Floats, y: Floats) -> Floats:
    """Subtract directly (P7): with b^2 = 1e-8, the digits lost by |x|^2 - 2 x.y + |y|^2 are the ones that matter."""
    distances = torch.cdist(
        torch.as_tensor(x, dtype=torch.float64),
        torch.as_tensor(y, dtype=torch.float64),
        compute_mode="donot_use_mm_for_euclid_dist",
    )
    return distances.square().numpy()
