"""Atari games as DQN sees them: the only place where the emulator is used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eva.errors import UserError
from eva.types import EnvironmentSpec, Ints, Observations, State, StepOutcome

try:
    import cv2
    from ale_py import Action, ALEInterface, ALEState, LoggerMode, roms
except ImportError as error:
    raise UserError(
        f'Atari games need a package that is missing ({error}): run pip install "ephemeral-value-adjustments[atari]".'
    ) from None

FRAME_SIZE = (84, 84)

ALEInterface.setLoggerMode(LoggerMode.Error)
cv2.setNumThreads(1)  # images this small gain nothing from more, which would only be in torch's way


class AtariGame:
    """One emulator, with the preprocessing of DQN but for the end of an episode at the loss of a life.

    An agent step repeats an action for `frame_skip` emulator frames and shows the maximum over the last two screens,
    grey and scaled to 84 x 84 (P61), stacked on the frames before it; those before an episode's first are black (P60).
    For the same seed and actions, frames are those of Gymnasium's wrappers to the byte.

    Args:
        game: Its name, as in `eva.games`.
        seed: Of the no-ops and of repeated actions.
        frame_skip: Emulator frames for each step.
        num_stacked: Frames in an observation.
        max_noop_frames: An episode begins with 1 to so many frames without an action (P62); 0 for none.
        max_episode_frames: An episode is truncated with the step that reaches so many (P63).
        repeat_action_probability: Of each frame to repeat the action of the frame before it instead (P64).
    """

    def __init__(
        self,
        game: str,
        seed: int,
        *,
        frame_skip: int = 4,
        num_stacked: int = 4,
        max_noop_frames: int = 30,
        max_episode_frames: int = 108_000,
        repeat_action_probability: float = 0.0,
    ) -> None:
        generator_seed, emulator_seed = np.random.SeedSequence(seed).generate_state(2)  # as Gymnasium does
        self._generator = np.random.default_rng(int(generator_seed))
        self._ale = ALEInterface()
        self._ale.setInt("random_seed", int(emulator_seed.astype(np.int32)) or 1)  # 0 would be the time of day
        self._ale.setFloat("repeat_action_probability", 0.0)  # ours instead: the emulator's cannot be saved
        self._ale.loadROM(str(roms.get_rom_path(game)))
        self._action_set = self._ale.getMinimalActionSet()
        self._frame_skip = frame_skip
        self._max_noop_frames = max_noop_frames
        self._max_episode_frames = max_episode_frames
        self._repeat_action_probability = repeat_action_probability
        self._executed = Action.NOOP
        self._screens = np.zeros((2, *self._ale.getScreenDims()), np.uint8)
        self.stack: NDArray[np.uint8] = np.zeros((num_stacked, *FRAME_SIZE), np.uint8)
        # What this episode has come from: the emulator and the generator before it, and the actions since.
        self._origin = self._ale.cloneState(include_rng=True)
        self._origin_generator = self._generator.bit_generator.state
        self._actions = np.zeros(max_episode_frames // frame_skip + 1, np.uint8)
        self._num_steps = 0

    @property
    def num_actions(self) -> int:
        """How many actions make a difference in this game."""
        return len(self._action_set)

    @property
    def action_names(self) -> tuple[str, ...]:
        """What the emulator calls them, in words: "noop", "up right", "left fire"."""
        return tuple(re.sub("(?<=.)(right|left|fire)", r" \1", action.name.lower()) for action in self._action_set)

    def begin(self) -> None:
        """Start an episode; `stack` shows its first observation."""
        self._origin = self._ale.cloneState(include_rng=True)
        self._origin_generator = self._generator.bit_generator.state
        self._num_steps = 0
        self._executed = Action.NOOP
        self._ale.reset_game()
        for _ in range(self._generator.integers(1, self._max_noop_frames + 1) if self._max_noop_frames else 0):
            self._ale.act(Action.NOOP)
            if self._ale.game_over():
                self._ale.reset_game()
        self.stack[:] = 0
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        self._draw()

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Take an action; returns the change of score, and whether the episode terminated or was truncated.

        A game that is over within the skipped frames shows its last screen over an earlier one: nothing follows.
        """
        self._actions[self._num_steps] = action
        self._num_steps += 1
        reward, is_over = 0.0, False
        for frames_left in reversed(range(self._frame_skip)):
            reward += self._act(self._action_set[action])
            is_over = self._ale.game_over()
            if frames_left < 2 or is_over:
                self._ale.getScreenGrayscale(self._screens[frames_left % 2])
            if is_over:
                break
        for age in range(len(self.stack) - 1):
            self.stack[age] = self.stack[age + 1]
        self._draw()
        return reward, is_over, not is_over and self._ale.getEpisodeFrameNumber() >= self._max_episode_frames

    def get_state(self) -> State:
        """Return what this episode has come from: how it began, and the actions since.

        The emulator's state alone would not do: it lacks the screen, and games like Qbert do not redraw all of it.
        """
        return {
            "origin": np.frombuffer(self._origin.serialize(), np.uint8),
            "generator": self._origin_generator,
            "actions": self._actions[: self._num_steps].copy(),
        }

    def set_state(self, state: State) -> None:
        """Play the episode again that `get_state` told of."""
        self._ale.restoreState(ALEState(np.asarray(state["origin"], np.uint8).tobytes()))
        self._generator.bit_generator.state = state["generator"]
        self.begin()
        for action in state["actions"]:
            self.step(int(action))

    def _act(self, action: Action) -> int:
        """Play one frame."""
        repeats = self._repeat_action_probability
        if repeats == 0 or self._generator.random() >= repeats:
            self._executed = action
        return self._ale.act(self._executed)

    def _draw(self) -> None:
        """Draw the newest frame of the stack from the last two screens."""
        newest, before = self._screens
        np.maximum(newest, before, out=newest)
        cv2.resize(newest, FRAME_SIZE, dst=self.stack[-1], interpolation=cv2.INTER_AREA)


class VectorAtari:
    """E games that step together, one after the other in this process, and start anew when an episode ends."""

    def __init__(self, games: Sequence[AtariGame]) -> None:
        """Take equal games with seeds of their own."""
        self._games = games
        self._spec = EnvironmentSpec(
            len(games),
            games[0].num_actions,
            games[0].stack.shape,
            games[0].stack.dtype,
            action_names=games[0].action_names,
            num_stacked=len(games[0].stack),
        )

    @property
    def spec(self) -> EnvironmentSpec:
        """What an agent must know about these games."""
        return self._spec

    def reset(self) -> Observations:
        """Start an episode in every game and return the first observations."""
        for game in self._games:
            game.begin()
        return self._stacks()

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every game; rewards are the change of the score."""
        num = len(self._games)
        rewards = np.empty(num)
        terminated, truncated = np.empty(num, np.bool_), np.empty(num, np.bool_)
        for e, game in enumerate(self._games):
            rewards[e], terminated[e], truncated[e] = game.step(int(actions[e]))
        last_observations = observations = self._stacks()
        ended = np.flatnonzero(terminated | truncated).tolist()
        if ended:
            observations = last_observations.copy()
        for e in ended:
            self._games[e].begin()
            observations[e] = self._games[e].stack
        return StepOutcome(observations, rewards, terminated, truncated, last_observations)

    def get_state(self) -> State:
        """Return all that decides the future; small, since it is the way there from each episode's start."""
        return {"stacks": self._stacks(), **{str(e): game.get_state() for e, game in enumerate(self._games)}}

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned, by playing the running episodes again."""
        for e, game in enumerate(self._games):
            game.set_state(state[str(e)])
        if not np.array_equal(self._stacks(), state["stacks"]):
            raise UserError(
                "the emulators do not come to where they were: install the versions of ale-py and opencv that the run "
                "began with (provenance.json)."
            )

    def close(self) -> None:
        """Nothing is held: emulators go with their memory."""

    def _stacks(self) -> NDArray[Any]:
        return np.stack([game.stack for game in self._games])
