"""Value estimates along single remembered trajectories: Eqs. 2 to 5, Algorithms 2 and 3.

Both algorithms are one backward pass. They differ in one argument: the value V_NP of a state.
"""

import numpy as np

from eva.types import Floats, Trajectories


def n_step(trajectories: Trajectories, q_theta: Floats) -> Floats:
    """Evaluate the actions taken: V_NP(s_t) = r_t + gamma V_NP(s_{t+1}) (Eq. 2, Algorithm 2).

    Takes B trajectories of T transitions and the network's values of their states, (B, T + 1, A). Returns Q_NP of all
    states but the last, (B, T, A). Actions that were not taken keep Q_theta (P128).
    """
    return _backward_pass(trajectories, q_theta, maximise=False)


def trajectory_centric_planning(trajectories: Trajectories, q_theta: Floats) -> Floats:
    """Improve on the actions taken: V_NP(s_t) = max_a Q_NP(s_t, a) (Eq. 4, Eq. 5, Algorithm 3).

    Arguments and result are those of `n_step`.
    """
    return _backward_pass(trajectories, q_theta, maximise=True)


def _backward_pass(trajectories: Trajectories, q_theta: Floats, maximise: bool) -> Floats:
    """Propagate values from the last state to the first.

    V_NP(s_T) = max_a Q_theta(s_T, a)                                                (first case of Eqs. 2 and 5)
    Q_NP(s_t, a) = r_t + gamma V_NP(s_{t+1}) if a = a_t, else Q_theta(s_t, a)        (Eq. 4)
    V_NP(s_t) = max_a Q_NP(s_t, a) if `maximise` (Eq. 5), else Q_NP(s_t, a_t)        (Eq. 2)
    """
    actions, rewards, discounts = trajectories.actions, trajectories.rewards, trajectories.discounts
    num_trajectories, length = actions.shape
    rows = np.arange(num_trajectories)
    q_np: Floats = q_theta[:, :-1].copy()
    v_np = q_theta[:, -1].max(axis=1)  # bootstrap from the state after the last transition (P5)
    for t in reversed(range(length)):
        q_np[rows, t, actions[:, t]] = rewards[:, t] + discounts[:, t] * v_np  # a termination has discount 0 (P5)
        v_np = q_np[:, t].max(axis=1) if maximise else q_np[rows, t, actions[:, t]]
    return q_np
