"""Value estimates along single remembered trajectories: Eqs. 2 to 5, Algorithms 2 and 3.

Both algorithms are one backward pass. They differ in one argument: what a state is worth once its action-values are
known.
"""

from collections.abc import Callable

import numpy as np

from eva.types import Floats, Ints, Trajectories


def n_step(trajectories: Trajectories, q_theta: Floats) -> Floats:
    """Evaluate what was done: V_NP(s_t) = Q_NP(s_t, a_t) = r_t + gamma V_NP(s_{t+1}) (Eq. 2, Algorithm 2).

    Takes B trajectories of T transitions and the network's values of their states, (B, T + 1, A). Returns Q_NP of all
    states but the last, (B, T, A).
    """
    return _backward_pass(trajectories, q_theta, lambda q_np, actions: q_np[np.arange(len(actions)), actions])


def trajectory_centric_planning(trajectories: Trajectories, q_theta: Floats) -> Floats:
    """Improve on what was done: V_NP(s_t) = max_a Q_NP(s_t, a) (Eq. 5, Algorithm 3).

    Q_NP is Eq. 4, in `_backward_pass`. Arguments and result are those of `n_step`.
    """
    return _backward_pass(trajectories, q_theta, lambda q_np, _: q_np.max(axis=1))


def _backward_pass(trajectories: Trajectories, q_theta: Floats, value_of: Callable[[Floats, Ints], Floats]) -> Floats:
    """Propagate values from the last state to the first (Eq. 4).

    Q_NP(s_t, a) = r_t + gamma V_NP(s_{t+1}) if a = a_t, else Q_theta(s_t, a);  V_NP(s_T) = max_a Q_theta(s_T, a).
    """
    actions, rewards, discounts = trajectories.actions, trajectories.rewards, trajectories.discounts
    num_trajectories, length = actions.shape
    rows = np.arange(num_trajectories)
    v_np = q_theta[:, -1].max(axis=1)  # bootstrap from the state after the last transition (P5)
    q_np: Floats = q_theta[:, :-1].copy()
    for t in reversed(range(length)):
        q_np[rows, t, actions[:, t]] = rewards[:, t] + discounts[:, t] * v_np  # Eq. 4; 0 v_np at a termination (P5)
        v_np = value_of(q_np[:, t], actions[:, t])
    return q_np
