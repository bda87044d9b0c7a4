"""eva train."""

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from eva.cli.parsing import parse
from eva.config import Config, Device, Tools, read_config
from eva.errors import UserError, printable
from eva.games import game_name, minatar_game, minatar_game_name
from eva.ids import ATARI_ID, MAZE_ID, MINATAR_PREFIX
from eva.presets import for_environment, for_game, preset, preset_of
from eva.schema import Count, Share, changed

_NEXT = ("evaluate", "inspect", "report")  # commands for a finished run


@dataclass(frozen=True)
class Train(Config):
    """Train an agent and record the run in its own directory."""

    preset: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[PRESET]")] = None
    """Named configuration to start from (see: eva presets). Without one: --config, --env, --game, or maze-1-coin."""
    config: Path | None = None
    """A config.json to start from."""
    env: str | None = None
    """Gymnasium id of the environment (environment.id)."""
    game: str | None = None
    """Game of Atari or MinAtar, for the presets atari, atari-small and minatar."""
    weight: Share | None = None
    """Weight of Q_NP; 0 is DQN (eva.nonparametric_weight)."""
    device: Device | None = None
    """Device of the network, the learner and the search (run.device)."""
    evaluate_every: Count | None = None
    """Transitions between evaluations during training (evaluation.period_transitions)."""
    track: Tools = ()
    """Tools that also get the numbers of the run: TensorBoard, Weights & Biases, trackio (run.track)."""
    out: Path | None = None
    """Run directory; by default runs/NAME[-HASH]/weight-W/seed-S. An unfinished run in it is continued."""
    restart: tyro.conf.FlagCreatePairsOff[bool] = False
    """Delete the run in this directory and start from scratch."""

    def __post_init__(self) -> None:
        """Check nothing: `Config` checks the fields once the start configuration is known."""


def main(arguments: list[str]) -> None:
    """Train an agent."""
    # The first pass finds the start configuration; the second takes its fields as defaults, also in --help.
    start = _start(parse(Train, [word for word in arguments if word not in ("-h", "--help")]))
    asked = parse(Train, arguments, Train(**vars(start)))
    config, named_after = _apply_game(asked, _apply_flags(asked), start)

    from eva.build import resolve  # imports torch: not for --help
    from eva.runs.loop import train
    from eva.runs.record.directory import default_directory

    config = resolve(config)
    if asked.config is not None:  # the settings of a file may differ from those of the preset in its name
        named_after = preset_of(config) or named_after
    path = asked.out or default_directory(config, named_after)
    train(config, path, restart=asked.restart)
    print(ending(path))


def ending(path: Path) -> str:
    """Return what a run achieved, and what to type next."""
    from eva.report.curves import FINAL_SHARE, late_returns  # imports SciPy: not for --help
    from eva.report.reading import read_run

    achieved = f"no episode ended in the last {FINAL_SHARE:.0%} of the run"
    try:
        if (late := late_returns(read_run(path))).size:
            achieved = f"mean return {late.mean():.2f} ({late.size} episodes in the last {FINAL_SHARE:.0%} of the run)"
    except UserError as error:  # an earlier, finished run, damaged since
        achieved = printable(f"{error}")
    return "\n".join([achieved, "next:", *(f"  eva {name} {shlex.quote(str(path))}" for name in _NEXT)])


def _apply_flags(asked: Train) -> Config:
    """Return the configuration with the fields that have a short flag."""
    flags = {
        "environment.id": asked.env,
        "eva.nonparametric_weight": asked.weight,
        "evaluation.period_transitions": asked.evaluate_every,
        "run.device": asked.device,
        "run.track": asked.track or None,
    }
    config = Config(**{f.name: getattr(asked, f.name) for f in fields(Config)})
    return changed(config, {path: value for path, value in flags.items() if value is not None})


def _apply_game(asked: Train, config: Config, start: Config) -> tuple[Config, Config]:
    """Return the configuration with the game, and the configuration that the run is named after."""
    game = _game(config, asked.game)
    if game is None and asked.game is not None:
        raise UserError(
            f"--game is for Atari and MinAtar, but {config.name} plays {config.environment.id}: start from atari, "
            "atari-small or minatar."
        )
    if game is None or (asked.game is None and asked.config is not None):  # the game of a file, which keeps its name
        return config, start
    return for_game(config, game), for_game(start, game)


def _game(config: Config, word: str | None) -> str | None:
    """Return the canonical name of a game, by default the configuration's, or None if its environment has no games."""
    if config.environment.id == ATARI_ID:
        return game_name(config.atari.game if word is None else word)
    if config.environment.id.startswith(MINATAR_PREFIX):
        return minatar_game(config.environment.id)[0] if word is None else minatar_game_name(word)
    return None


def _start(asked: Train) -> Config:
    """Return the configuration that the flags change: of a file, an environment or a preset."""
    if asked.preset is not None and asked.config is not None:
        raise UserError("a preset and --config both give a start configuration: give one of them.")
    if asked.env is not None and asked.environment.id != MAZE_ID:
        raise UserError("--env and --environment.id are the same: give one of them.")
    if asked.config is not None:
        try:
            return read_config(asked.config)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {asked.config} ({error}): give a config.json that eva wrote.") from None
    environment_id = asked.environment.id if asked.env is None else asked.env
    if asked.preset is None and (asked.env is not None or environment_id != MAZE_ID):
        return for_environment(environment_id)
    default = "maze-1-coin" if asked.game is None else "atari"
    return preset(default if asked.preset is None else asked.preset)
