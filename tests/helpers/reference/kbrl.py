"""Algorithm 4 with the parametric pseudo-state of Section 3.3."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.helpers.reference.neighbours import Embedding, squared_distance
from tests.helpers.reference.traces import QValues, Trajectory


def distribution(state: Embedding, origins: list[Embedding], bandwidth: float, similarity: float) -> list[float]:
    """Map a state to its distribution over the origin states and, last, the pseudo-state.

    The weights are kappa(s, s_i) = exp(-||s - s_i||^2 / 2b^2) and C, divided by their sum. They are formed relative to
    the largest in log space: with a bandwidth of 1e-4, exp alone underflows.
    """
    log_weights = [-squared_distance(state, origin) / (2 * bandwidth**2) for origin in origins]
    log_weights.append(math.log(similarity))
    largest = max(log_weights)
    weights = [math.exp(log_weight - largest) for log_weight in log_weights]
    return [weight / math.fsum(weights) for weight in weights]


def kernel_based_rl(
    trajectories: Sequence[Trajectory],
    embeddings: list[list[Embedding]],
    q_theta: list[list[QValues]],
    bandwidth: float,
    parametric_similarity: float,
    num_sweeps: int,
) -> list[list[QValues]]:
    """Plan over the transitions of one plan's trajectories together (Algorithm 4).

    Q(s, a) = [sum_{i in S_a} kappa(s, s_i) (r_i + d_i V(s'_i)) + C Q_theta(s, a)] / [sum_{i in S_a} kappa(s, s_i) + C]

    Args:
        trajectories: M trajectories, of T_m transitions each.
        embeddings: For each trajectory its T_m + 1 states; a terminal state's row is arbitrary.
        q_theta: Q_theta(s, .) of the same states.
        bandwidth: b, the length scale of the Gaussian kernel.
        parametric_similarity: C, the pseudo-state's similarity to every state.
        num_sweeps: Value iteration steps, `limit` in the paper: T + 1 for a trajectory length of T (P7).

    Returns:
        For each trajectory Q_NP(s_t, .) for t = 0..T_m-1.
    """
    actions = range(len(q_theta[0][0]))
    transitions = [(m, t) for m, trajectory in enumerate(trajectories) for t in range(len(trajectory.actions))]  # P20
    data = {a: [(m, t) for m, t in transitions if trajectories[m].actions[t] == a] for a in actions}

    p = {}
    for m, states in enumerate(embeddings):
        for t, state in enumerate(states):
            for a in actions:
                origins = [embeddings[m_k][t_k] for m_k, t_k in data[a]]
                p[m, t, a] = distribution(state, origins, bandwidth, parametric_similarity)  # P7

    def q(m: int, t: int, a: int, v: dict[tuple[int, int], float]) -> float:
        terms = [p[m, t, a][-1] * q_theta[m][t][a]]  # P7
        for k, (m_k, t_k) in enumerate(data[a]):
            r, discount = trajectories[m_k].rewards[t_k], trajectories[m_k].discounts[t_k]
            terms.append(p[m, t, a][k] * (r + discount * v[m_k, t_k + 1]))  # P5
        return math.fsum(terms)

    v = {(m, t + 1): 0.0 for m, t in transitions}
    for _ in range(num_sweeps):
        v = {(m, t): max(q(m, t, a, v) for a in actions) for m, t in v}
    return [[[q(m, t, a, v) for a in actions] for t in range(len(x.actions))] for m, x in enumerate(trajectories)]
