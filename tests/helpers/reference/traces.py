"""Algorithms 2 and 3 for one trajectory."""

from __future__ import annotations

from dataclasses import dataclass

QValues = list[float]  # one value for each action


@dataclass(frozen=True)
class Trajectory:
    """T transitions in order; a discount is gamma, or 0.0 where the transition terminated the episode."""

    actions: list[int]
    rewards: list[float]
    discounts: list[float]


def n_step(trajectory: Trajectory, q_theta: list[QValues]) -> list[QValues]:
    """Compute N-step Q-values (Algorithm 2).

    Args:
        trajectory: T transitions.
        q_theta: Q_theta(s_t, .) for t = 0..T; the last row is arbitrary if the last transition terminated.

    Returns:
        Q_NP(s_t, .) for t = 0..T-1.
    """
    a, r, discount = trajectory.actions, trajectory.rewards, trajectory.discounts
    q_np = [[0.0 for _ in row] for row in q_theta[:-1]]
    v = max(q_theta[len(a)])  # P5
    for t in range(len(a) - 1, -1, -1):  # P5
        for action in range(len(q_theta[t])):
            if a[t] == action:
                q_np[t][action] = r[t] + discount[t] * v  # P5
            else:
                q_np[t][action] = q_theta[t][action]
        v = q_np[t][a[t]]
    return q_np


def trajectory_centric_planning(trajectory: Trajectory, q_theta: list[QValues]) -> list[QValues]:
    """Compute trajectory-centric Q-values (Algorithm 3, Eq. 4 and 5); arguments and result as in `n_step`."""
    a, r, discount = trajectory.actions, trajectory.rewards, trajectory.discounts
    q_np = [[0.0 for _ in row] for row in q_theta[:-1]]
    v = max(q_theta[len(a)])  # P5
    for t in range(len(a) - 1, -1, -1):  # P5
        for action in range(len(q_theta[t])):
            if a[t] == action:
                q_np[t][action] = r[t] + discount[t] * v  # P5
            else:
                q_np[t][action] = q_theta[t][action]
        v = max(q_np[t])
    return q_np
