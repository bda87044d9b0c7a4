"""Atari games with the preprocessing of DQN: the only module that imports the emulator."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eva.errors import UserError
from eva.types import EnvironmentSpec, Ints, Observations, Pictures, State, StepOutcome

try:
    import cv2
    from ale_py import Action, ALEInterface, ALEState, LoggerMode, roms
except ImportError as error:
    raise UserError(
        f'Atari games need a package that is missing ({error}): run pip install "ephemeral-value-adjustments[atari]".'
    ) from None

FRAME_SIZE = (84, 84)

ALEInterface.setLoggerMode(LoggerMode.Error)
cv2.setNumThreads(1)  # more threads do not speed up such small images, and they compete with torch


@dataclass(eq=False)
class AtariGame:
    """One emulator with the preprocessing of DQN. Losing a life does not end an episode.

    A step repeats an action for `frame_skip` emulator frames. A frame is the maximum of the last two screens, in grey,
    scaled to 84 x 84 (P61). An observation stacks the last frames; frames before the episode's start are black (P60).
    For the same seed and actions, frames equal those of Gymnasium's wrappers byte for byte.
    """

    game: str  # as in `eva.games`
    seed: int  # of the no-ops and of repeated actions
    _: KW_ONLY
    frame_skip: int = 4
    num_stacked: int = 4
    max_noop_frames: int = 30  # an episode begins with 1 to this many no-op frames (P62); 0 disables them
    max_episode_frames: int = 108_000  # the step that reaches this many frames truncates the episode (P63)
    repeat_action_probability: float = 0.0  # for each frame, of repeating the previous frame's action (P64)

    def __post_init__(self) -> None:
        generator_seed, emulator_seed = np.random.SeedSequence(self.seed).generate_state(2)  # as Gymnasium does
        self._generator = np.random.default_rng(int(generator_seed))
        self._ale = ALEInterface()
        self._ale.setInt("random_seed", int(emulator_seed.astype(np.int32)) or 1)  # 0 would seed from the clock
        self._ale.setFloat("repeat_action_probability", 0.0)  # done in `_act`: the emulator cannot save its state of it
        self._ale.loadROM(str(roms.get_rom_path(self.game)))
        self._action_set = self._ale.getMinimalActionSet()
        self._screens = np.zeros((2, *self._ale.getScreenDims()), np.uint8)
        self.stack: NDArray[np.uint8] = np.zeros((self.num_stacked, *FRAME_SIZE), np.uint8)
        self._actions = np.zeros(self.max_episode_frames // self.frame_skip + 1, np.uint8)  # of this episode
        self._record_origin()

    def _record_origin(self) -> None:
        """Record emulator and generator before an episode: with its actions, they reproduce it."""
        self._origin = self._ale.cloneState(include_rng=True)
        self._origin_generator = self._generator.bit_generator.state
        self._num_steps = 0
        self._executed = Action.NOOP

    @property
    def action_names(self) -> tuple[str, ...]:
        """The emulator's names of the actions in the minimal action set, as words: "noop", "up right", "left fire"."""
        return tuple(re.sub("(?<=.)(right|left|fire)", r" \1", action.name.lower()) for action in self._action_set)

    def begin(self) -> None:
        """Start an episode; `stack` is its first observation."""
        self._record_origin()
        self._ale.reset_game()
        for _ in range(self._generator.integers(1, self.max_noop_frames + 1) if self.max_noop_frames else 0):
            self._ale.act(Action.NOOP)
            if self._ale.game_over():
                self._ale.reset_game()
        self.stack[:] = 0
        self._ale.getScreenGrayscale(self._screens[0])
        self._screens[1] = 0
        self._draw()

    def step(self, action: int) -> tuple[float, bool, bool]:
        """Take an action and return (reward, terminated, truncated); the reward is the change of the score.

        If the game ends within the skipped frames, the last frame mixes screens; no value depends on it.
        """
        self._actions[self._num_steps] = action
        self._num_steps += 1
        reward, is_over = 0.0, False
        for frames_left in reversed(range(self.frame_skip)):
            reward += self._act(self._action_set[action])
            is_over = self._ale.game_over()
            if frames_left < 2 or is_over:
                self._ale.getScreenGrayscale(self._screens[frames_left % 2])
            if is_over:
                break
        for age in range(len(self.stack) - 1):
            self.stack[age] = self.stack[age + 1]
        self._draw()
        return reward, is_over, not is_over and self._ale.getEpisodeFrameNumber() >= self.max_episode_frames

    def screen(self) -> Pictures:
        """Return the newest screen in colour, (210, 160, 3)."""
        screen: Pictures = self._ale.getScreenRGB()
        return screen

    def get_state(self) -> State:
        """Return how the episode began and the actions since.

        The emulator's state is not enough: it lacks the screen, which games like Qbert redraw only in part.
        """
        return {
            "origin": np.frombuffer(self._origin.serialize(), np.uint8),
            "generator": self._origin_generator,
            "actions": self._actions[: self._num_steps].copy(),
        }

    def set_state(self, state: State) -> None:
        """Replay the episode that `get_state` recorded."""
        self._ale.restoreState(ALEState(np.asarray(state["origin"], np.uint8).tobytes()))
        self._generator.bit_generator.state = state["generator"]
        self.begin()
        for action in state["actions"]:
            self.step(int(action))

    def _act(self, action: Action) -> int:
        """Play one frame."""
        repeats = self.repeat_action_probability
        if repeats == 0 or self._generator.random() >= repeats:
            self._executed = action
        return self._ale.act(self._executed)

    def _draw(self) -> None:
        """Draw the newest frame of the stack from the last two screens."""
        newest, before = self._screens
        np.maximum(newest, before, out=newest)
        cv2.resize(newest, FRAME_SIZE, dst=self.stack[-1], interpolation=cv2.INTER_AREA)


class VectorAtari:
    """E games that are stepped one after the other in this process and reset when an episode ends."""

    def __init__(self, games: Sequence[AtariGame], *, draws: bool = False) -> None:
        """Use games that differ only in their seeds; `draws` keeps the screen of the first one (see `Pictured`)."""
        self._games = games
        self._draws = draws
        self.picture: Pictures | None = None
        self.no_picture = "it was not built to draw"
        self.frames_per_second = 60 / games[0].frame_skip
        stack, names = games[0].stack, games[0].action_names
        self.spec = EnvironmentSpec(
            len(games), len(names), stack.shape, stack.dtype, action_names=names, num_stacked=len(stack)
        )

    def reset(self) -> Observations:
        """Start an episode in every game and return the first observations."""
        for game in self._games:
            game.begin()
        self._draw()
        return self._stacks()

    def step(self, actions: Ints) -> StepOutcome:
        """Take one action in every game; rewards are the change of the score."""
        outcomes = [game.step(int(action)) for game, action in zip(self._games, actions, strict=True)]
        rewards, terminated, truncated = map(np.array, zip(*outcomes, strict=True))
        last_observations = self._stacks()
        self._draw()  # before the next episode begins
        ended = np.flatnonzero(terminated | truncated).tolist()
        observations = last_observations.copy() if ended else last_observations
        for e in ended:
            self._games[e].begin()
            observations[e] = self._games[e].stack
        return StepOutcome(observations, rewards, terminated, truncated, last_observations)

    def get_state(self) -> State:
        """Return a small state: each episode's start and the actions since."""
        return {"stacks": self._stacks(), **{str(e): game.get_state() for e, game in enumerate(self._games)}}

    def set_state(self, state: State) -> None:
        """Continue from a state that `get_state` returned, by replaying the current episodes."""
        for e, game in enumerate(self._games):
            game.set_state(state[str(e)])
        if not np.array_equal(self._stacks(), state["stacks"]):
            raise UserError(
                "replaying the episodes gave other frames than before: install the versions of ale-py and opencv that "
                "the run started with (provenance.json)."
            )

    def close(self) -> None:
        """Do nothing: emulators hold only memory."""

    def _draw(self) -> None:
        if self._draws:
            self.picture = self._games[0].screen()

    def _stacks(self) -> NDArray[Any]:
        return np.stack([game.stack for game in self._games])
