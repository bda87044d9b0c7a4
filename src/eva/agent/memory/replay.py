"""The replay buffer: one lane for each environment, and the trajectories that follow the lanes."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from eva.agent.memory.neighbours import NeighbourIndex
from eva.agent.memory.observations import ObservationStore
from eva.agent.memory.priorities import Priorities
from eva.agent.memory.staging import Reader
from eva.agent.tensors import restore, to_device
from eva.types import Batch, Bools, Floats, Ints, Observations, State, Trajectories

EMPTY, STEP, TERMINATION, CLOSING = range(4)
"""What a slot holds. STEP: a transition whose successor is the lane's next slot. TERMINATION: one without successor.
CLOSING: the last state of a truncated episode, without an action; only used to bootstrap from."""

_ARRAYS = ("actions", "rewards", "discounts", "kinds", "lane_counts")

LastStates = Callable[[Ints], tuple[Observations | None, Tensor]]
"""Environments with a truncated episode, (n,) -> its last observations, (n, ...), if kept, and embeddings, (n, D)."""


class ReplayBuffer:
    """A preallocated ring of transitions for each environment, its lane, with the embedding of each state.

    Slot `e * lane_capacity + i` is place i of environment e's lane. Slots are written in order of time, and each
    observation is stored once: the successor of a state is in the next slot of its lane. A lane's newest slot has no
    successor until the next append. Until then it can only be bootstrapped from, unless it ended its episode.

    Each environment gets an equal share of `replay_capacity`. Embeddings and batches are on the `device`. Without
    `priorities`, transitions are drawn uniformly. `reads_ahead` enables `read_ahead`, which saves time where reading
    takes longer than waking a thread.
    """

    def __init__(
        self,
        replay_capacity: int,
        num_environments: int,
        store: ObservationStore,
        embedding_size: int,
        discount: float,
        device: torch.device,
        priorities: Priorities | None = None,
        index: Callable[[int, int, torch.device], NeighbourIndex] = NeighbourIndex,
        *,
        reads_ahead: bool = False,
    ) -> None:
        self.lane_capacity = replay_capacity // num_environments
        num_slots = self.lane_capacity * num_environments
        self.store = store
        self.actions = np.zeros(num_slots, np.int64)
        self.rewards = np.zeros(num_slots, np.float32)
        self.discounts = np.zeros(num_slots, np.float32)
        self.kinds = np.full(num_slots, EMPTY, np.int8)
        self.index = index(num_slots, embedding_size, device)  # embeddings; those of complete transitions are admitted
        self.lane_counts = np.zeros(num_environments, np.int64)  # slots ever written in each lane
        self.num_complete = 0
        self.priorities = priorities
        self._discount = discount
        self._lanes = np.arange(num_environments)
        self._device = device
        self._reader = Reader(store, device)
        self._reads_ahead = reads_ahead and priorities is None  # priorities change with each append

    @staticmethod
    def bytes_per_slot(embedding_size: int, num_environments: int) -> int:
        """Return the bytes of a state without its observation: its embedding, scores of two searches, and the rest."""
        return 4 * embedding_size + 2 * 4 * num_environments + 31

    @property
    def complete(self) -> Bools:
        """Which slots hold transitions that can be sampled and planned from, (N,)."""
        return self.index.admitted

    @property
    def embeddings(self) -> Tensor:
        """The embedding of each slot's state, computed when the state was seen or last refreshed, (N, D)."""
        return self.index.keys

    @property
    def is_full(self) -> bool:
        """Whether every lane has been filled once."""
        return bool((self.lane_counts >= self.lane_capacity).all())

    @property
    def episode_starts(self) -> Bools:
        """Whether the state that each environment appends next is the first of an episode, (E,)."""
        starts: Bools = self.kinds[self._newest(self._lanes)] != STEP
        return starts

    def append(
        self,
        observations: Observations | None,
        actions: Ints,
        rewards: Floats,
        terminated: Bools,
        embeddings: Tensor,
        truncated: Bools | None = None,
        last_states: LastStates | None = None,
    ) -> None:
        """Store one transition of every environment, (E, ...) each, and the last states of truncated episodes.

        `observations` can be None: search and planning need only `embeddings`. Where an episode is `terminated`,
        `truncated` is ignored: nothing is bootstrapped (P50). `last_states` is required where one is truncated.
        """
        slots = self._advance(self._lanes, observations, embeddings)
        self.actions[slots] = actions
        self.rewards[slots] = rewards
        self.discounts[slots] = np.where(terminated, 0.0, self._discount)
        self.kinds[slots] = np.where(terminated, TERMINATION, STEP)
        self._set_complete(slots[terminated])
        if truncated is not None and last_states is not None:
            (lanes,) = (truncated & ~terminated).nonzero()
            if len(lanes) > 0:
                self.close(lanes, *last_states(lanes))

    def close(self, lanes: Ints, observations: Observations | None, embeddings: Tensor) -> None:
        """Store the last states, (n, ...), of truncated episodes in `lanes`, (n,), to bootstrap from."""
        self.kinds[self._advance(lanes, observations, embeddings)] = CLOSING

    def cut(self) -> None:
        """Truncate the running episodes in their newest states; the actions taken there are dropped."""
        self.kinds[self._newest(self._lanes)[~self.episode_starts]] = CLOSING

    def _advance(self, lanes: Ints, observations: Observations | None, embeddings: Tensor) -> Ints:
        """Store states in the next slot of each lane, which completes the slot before; returns the slots written."""
        self._reader.settle()
        counts = self.lane_counts[lanes]
        newest, slots = self._newest(lanes), self._slots(lanes, counts)
        continues = self.kinds[newest] == STEP
        self._set_complete(newest[continues])
        self.num_complete -= int(self.complete[slots].sum())
        if observations is not None:
            self.store.write(slots, observations, starts=~continues)
        self.index.write(slots, embeddings)
        if self.priorities is not None:
            self.priorities.remove(slots)
        self.lane_counts[lanes] = counts + 1
        return slots

    def _newest(self, lanes: Ints) -> Ints:
        return self._slots(lanes, self.lane_counts[lanes] - 1)

    def _slots(self, lanes: Ints, counts: Ints) -> Ints:
        return lanes * self.lane_capacity + counts % self.lane_capacity

    def _set_complete(self, slots: Ints) -> None:
        if len(slots) == 0:
            return
        self.num_complete += len(slots)
        self.index.admit(slots)
        if self.priorities is not None:
            self.priorities.add(slots)

    def _with_successors(self, slots: Ints) -> Ints:
        """Return the slots of complete transitions, then those of their successors; a termination is its own."""
        lanes, places = np.divmod(slots, self.lane_capacity)
        following = self._slots(lanes, places + 1)
        return np.concatenate([slots, np.where(self.kinds[slots] == TERMINATION, slots, following)])

    def gather(self, slots: Ints) -> Tensor:
        """Return the observations of `slots`, (n,), on the device; valid until the next call of the same size."""
        return self._reader.load(slots, self.index.born[slots])

    def observations_at(self, slots: Ints) -> Observations:
        """Return a copy of the observations of `slots`, (n,), on the host, (n, ...)."""
        observations = np.empty((len(slots), *self.store.shape), self.store.dtype)
        self._reader.settle()
        self.store.find(slots)(observations)
        return observations

    def search(self, queries: Tensor, k: int) -> tuple[Ints, Floats]:
        """Return slots and squared distances of the k complete transitions whose states are nearest to each query.

        Both are (Q, min(k, number of complete transitions)) for queries (Q, D). States are compared by their stored
        embeddings (P6).
        """
        return self.index.search(queries, min(k, self.num_complete))

    def trajectories(self, starts: Ints, length: int) -> Trajectories:
        """Follow what happened after each start for up to T = `length` transitions.

        `starts`, (Q, M), are complete transitions: row q belongs to plan q. A trajectory stays in its lane. It ends
        with its episode, or at the lane's newest slot, which has no successor yet.
        """
        plans = np.repeat(np.arange(len(starts)), starts.shape[1])
        lanes, places = np.divmod(starts.reshape(-1, 1), self.lane_capacity)
        offsets = np.arange(length + 1)  # of states, counted from the start
        kinds = self.kinds[self._slots(lanes, places + offsets)]  # (B, T + 1)
        steps_to_newest = (self.lane_counts[lanes] - 1 - places) % self.lane_capacity
        ends = (kinds == TERMINATION) | (kinds == CLOSING) | (offsets == steps_to_newest)
        ends[:, -1] = True
        last_offsets = ends.argmax(axis=1)[:, None]  # of the last state that is stored
        is_terminated = np.take_along_axis(kinds, last_offsets, axis=1) == TERMINATION
        num_transitions = np.where(is_terminated, last_offsets + 1, last_offsets)  # a termination needs no successor
        num_transitions = np.minimum(num_transitions, length)

        # Align to the right. Example with T = 4: three transitions, the last one a termination, have the offsets
        # -1 0 1 2 3. Offset -1 is padding and the terminal state 3 is not stored: clipping replaces them by 0 and 2.
        aligned = offsets - (length - num_transitions)
        slots = self._slots(lanes, places + np.clip(aligned, 0, last_offsets))
        acted_in = slots[:, :-1]
        return Trajectories(
            plans=plans,
            slots=slots,
            actions=self.actions[acted_in],
            rewards=self.rewards[acted_in],
            discounts=self.discounts[acted_in],
            valid=aligned[:, :-1] >= 0,
        )

    def sample(self, generator: np.random.Generator, batch_size: int) -> Ints:
        """Draw complete transitions, uniformly with replacement or by their priorities; returns their slots, (B,)."""
        if self.num_complete == 0:
            raise ValueError("nothing can be sampled yet: no transition is complete")
        if self.priorities is not None:
            return self.priorities.sample(generator, batch_size)
        slots = np.empty(0, np.int64)
        while len(slots) < batch_size:  # redraw the few that are not complete: lanes' newest and closing slots
            drawn = self._draw(generator, batch_size - len(slots), self.lane_counts)
            slots = np.concatenate([slots, drawn[self.complete[drawn]]])
        return slots

    def _draw(self, generator: np.random.Generator, num_slots: int, lane_counts: Ints) -> Ints:
        """Draw from the slots in use after `lane_counts` writes, complete or not; returns (num_slots,)."""
        fill = np.minimum(lane_counts, self.lane_capacity)
        ends = fill.cumsum()
        drawn = generator.integers(ends[-1], size=num_slots)
        lanes = ends.searchsorted(drawn, side="right")
        drawn += lanes * self.lane_capacity - (ends - fill)[lanes]
        return drawn

    def read_ahead(self, generator: np.random.Generator, batch_size: int) -> None:
        """Start to read the batch that `sample` will draw after the next append, if it draws uniformly."""
        if not self._reads_ahead:
            return
        state = generator.bit_generator.state
        slots = self._draw(generator, batch_size, self.lane_counts + 1)
        generator.bit_generator.state = state  # `sample` must draw the same slots
        if self.complete[slots].all():  # otherwise `sample` will redraw some of them
            both = self._with_successors(slots)
            self._reader.begin(both, self.index.born[both])

    def batch(self, slots: Ints) -> Batch:
        """Gather transitions for the learner; valid until the next call, which reuses the memory."""
        size = len(slots)
        both = self.gather(self._with_successors(slots))
        weights = None if self.priorities is None else self.priorities.importance_weights(slots).astype(np.float32)
        return Batch(
            observations=both[:size],
            actions=to_device(self.actions[slots], self._device),
            rewards=to_device(self.rewards[slots], self._device),
            discounts=to_device(self.discounts[slots], self._device),
            next_observations=both[size:],
            importance_weights=None if weights is None else to_device(weights, self._device),
        )

    def refresh(self, slots: Ints, embeddings: Tensor) -> None:
        """Replace the embeddings of a batch, (B, D), by newer ones of the same states; ages stay as they are."""
        self.index.replace(slots, embeddings)

    def prioritise(self, slots: Ints, errors: Tensor) -> None:
        """Set the priorities of a batch, if they are used, by its errors, (B,); call it before the next append."""
        if self.priorities is not None:
            self.priorities.update(slots, errors.abs().cpu().numpy())

    def state_dict(self) -> State:
        """Return the whole memory by name; everything else is derived from it."""
        index = self.index.state_dict()
        return {
            **self.store.state_dict(),
            **{name: getattr(self, name) for name in _ARRAYS},
            "embeddings": index["keys"],
            "born": index["born"],
            **({} if self.priorities is None else self.priorities.state_dict()),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a memory that `state_dict` returned."""
        self._reader.forget()
        self.store.load_state_dict(state)
        for name in _ARRAYS:
            restore(getattr(self, name), state[name])
        if not (self.kinds.min() >= EMPTY and self.kinds.max() <= CLOSING and self.lane_counts.min() >= 0):
            raise ValueError("a memory with slots of an unknown kind")
        newest = self._newest(self._lanes)
        complete = (self.kinds == STEP) | (self.kinds == TERMINATION)
        complete[newest] = self.kinds[newest] == TERMINATION
        self.num_complete = int(complete.sum())
        self.index.load_state_dict({"keys": state["embeddings"], "born": state["born"]})
        self.index.admit(complete.nonzero()[0])
        if self.priorities is not None:
            self.priorities.load_state_dict(state)
