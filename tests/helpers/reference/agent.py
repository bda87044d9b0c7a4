"""Algorithm 1: the decision, the learner's target and loss, and one round of planning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.helpers.reference.neighbours import Embedding, nearest
from tests.helpers.reference.traces import QValues, Trajectory
from tests.helpers.reference.trajectories import ReferenceMemory, RememberedTrajectory
from tests.helpers.reference.value_buffer import ReferenceValueBuffer

Trace = Callable[[Sequence[Trajectory], list[list[Embedding]], list[list[QValues]]], list[list[QValues]]]


def mix(q_theta: QValues, q_np: QValues | None, weight: float) -> QValues:
    """Return Q_EVA (Eq. 1); without a Q_NP it is Q_theta."""
    if q_np is None:
        return q_theta  # P24
    return [
        (1 - weight) * parametric + weight * planned for parametric, planned in zip(q_theta, q_np, strict=True)
    ]  # P1


def epsilon_greedy(q: QValues, epsilon: float, uniform_draw: float, random_action: int) -> int:
    """Return the random action with probability epsilon, else the best one, ties lowest first."""
    if uniform_draw < epsilon:
        return random_action
    return q.index(max(q))


def q_learning_target(reward: float, discount: float, next_q: QValues) -> float:
    """Return y = r + d max_a Q~(s', a); `next_q` is arbitrary after a termination."""
    return reward + discount * max(next_q)  # P5


def double_q_learning_target(reward: float, discount: float, online_q: QValues, target_q: QValues) -> float:
    """Return y = r + d Q~(s', argmax_a Q_theta(s', a)) (van Hasselt et al., 2016, Eq. 4)."""
    return reward + discount * target_q[online_q.index(max(online_q))]  # P75


def squared_error(error: float) -> float:
    """Return the squared error."""
    return error**2


def huber(error: float, delta: float = 1.0) -> float:
    """Return the loss whose gradient is the error clipped to [-delta, delta]."""
    if abs(error) <= delta:
        return 0.5 * error**2
    return delta * (abs(error) - 0.5 * delta)  # P15


def mean_loss(
    loss: Callable[[float], float],
    predictions: list[float],
    targets: list[float],
    importance_weights: list[float] | None = None,
) -> float:
    """Return the loss of a batch."""
    losses = [loss(prediction - target) for prediction, target in zip(predictions, targets, strict=True)]
    weights = importance_weights if importance_weights is not None else [1.0] * len(losses)
    return sum(weight * each for weight, each in zip(weights, losses, strict=True)) / len(losses)  # P78


def each(trace: Callable[[Trajectory, list[QValues]], list[QValues]]) -> Trace:
    """Return the outer loop of Algorithms 2 and 3, `for m := 1, M`, around a trace of one trajectory."""

    def trace_each(
        trajectories: Sequence[Trajectory], embeddings: list[list[Embedding]], q_theta: list[list[QValues]]
    ) -> list[list[QValues]]:
        return [trace(trajectories[m], q_theta[m]) for m in range(len(trajectories))]

    return trace_each


def state_embeddings(
    trajectory: RememberedTrajectory, dimension: int, recompute: Callable[[int], Embedding] | None
) -> list[Embedding]:
    """Return a trajectory's T + 1 embeddings, stored or recomputed; zeros stand in for a terminal state."""
    embeddings = []
    for observation_id, stored in zip(trajectory.observation_ids, trajectory.embeddings, strict=True):
        if observation_id is None or stored is None:
            embeddings.append([0.0] * dimension)  # P5
        elif recompute is None:
            embeddings.append(stored)  # P6
        else:
            embeddings.append(recompute(observation_id))  # P6
    return embeddings


def plan(
    query: Embedding,
    memory: ReferenceMemory,
    value_buffer: ReferenceValueBuffer,
    q_theta: Callable[[Embedding], QValues],
    trace: Trace,
    num_trajectories: int,
    trajectory_length: int,
    start_only: bool = False,
    recompute: Callable[[int], Embedding] | None = None,
) -> None:
    """Run one round of planning for one state (the last three lines of Algorithm 1).

    Args:
        query: h_t, whose own moment is not in the memory yet (P22).
        memory: D.
        value_buffer: L.
        q_theta: The final layer: from an embedding to Q_theta.
        trace: All trajectories, embeddings and Q_theta to Q_NP: `each(n_step)`, `each(trajectory_centric_planning)`, or
            `kernel_based_rl` with its last three arguments bound.
        num_trajectories: M.
        trajectory_length: T.
        start_only: Append only each trajectory's first state (the other reading of P2).
        recompute: From an observation id to its new embedding (the other reading of P6).
    """
    starts = memory.starts()
    keys = [memory.embedding(*start) for start in starts]  # P6
    born = [memory.born(*start) for start in starts]
    found = [starts[i] for i, _ in nearest(keys, born, query, num_trajectories)]  # P3
    trajectories = [memory.trajectory(*start, trajectory_length) for start in found]

    embeddings = [state_embeddings(trajectory, len(query), recompute) for trajectory in trajectories]
    q_thetas = [[q_theta(embedding) for embedding in states] for states in embeddings]  # P6

    q_np = trace(trajectories, embeddings, q_thetas) if trajectories else []
    for m in range(len(trajectories)):
        for t in range(1 if start_only else len(trajectories[m].actions)):  # P2
            value_buffer.append(embeddings[m][t], q_np[m][t])
