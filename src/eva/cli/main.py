"""The command line: eva train | evaluate | inspect | experiment | sweep | report | presets."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from eva import __version__
from eva.cli.experiment import Experiment, run
from eva.cli.inspect import Inspect, inspect
from eva.cli.parsing import parse, value_of
from eva.cli.sweep import Sweep, sweep
from eva.config import Config, Device, read_config
from eva.errors import UserError, nearest_name
from eva.games import game_name
from eva.ids import ATARI_ID
from eva.presets import DESCRIPTIONS, for_environment, for_game, namesake, preset
from eva.runs.record.safe_stream import let_go, unfailing
from eva.runs.stopping import StoppedError
from eva.runs.sweep.jobs import EPSILON

USAGE = """\
usage: eva COMMAND [-h] ...

Ephemeral Value Adjustments: a DQN that plans over its own replay memory before it acts.

commands:
  train       train an agent and record the run
  evaluate    play single episodes with a finished run, with and without EVA
  inspect     play an episode and show what the agent remembered at every decision
  experiment  run an experiment, the paper's or ours, and judge its claims
  sweep       carry out many runs, on this machine or on a cluster
  report      compare runs: learning curves, table and verdict on one page
  presets     list the named configurations

Each command explains itself: eva train --help
"""


@dataclass(frozen=True)
class Train:
    """Train an agent and record the run in a directory of its own."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    preset: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="[PRESET]")] = None
    """Named configuration to start from (see: eva presets). Without one: --config, --env, --game, or maze-1-coin."""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config")] = None
    """A config.json to start from."""
    env: str | None = None
    """Gymnasium id of the environment (environment.id)."""
    game: str | None = None
    """Atari game, for the presets atari and atari-small (atari.game)."""
    weight: float | None = None
    """Weight of Q_NP; 0 is DQN (eva.nonparametric_weight)."""
    device: Device | None = None
    """Where the network, the learner and the search run (run.device)."""
    out: Path | None = None
    """The run directory; by default runs/NAME[-HASH]/weight-W/seed-S. An unfinished run there goes on."""
    restart: tyro.conf.FlagCreatePairsOff[bool] = False
    """Discard what is there of this run, and begin anew."""


@dataclass(frozen=True)
class _Draft(Config):
    """A configuration that only tells what to start from; flags are checked when that is known."""

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Evaluate:
    """Play single episodes with a finished run: the same network and memory, with and without EVA."""

    run: tyro.conf.Positional[Path]
    """A finished run directory."""
    weights: tuple[float, ...] = (0.0, 0.2, 0.4)
    """Weights of Q_NP; 0 is the network alone."""
    episodes: int = 100
    """Episodes for each weight; the n-th starts in the same state for every weight."""
    seed: int = 0
    """Of start states and exploration."""
    epsilon: float = EPSILON
    """Probability of a random action."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON, with every episode's return."""


@dataclass(frozen=True)
class Report:
    """Compare runs on one self-contained page, report.html, with its figure as report.png."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or folders that contain some."""
    out: Path | None = None
    """Folder for the report; by default the one given, or that the runs have in common if several are."""


WAITING = {"GOMP_SPINCOUNT": "5000"}
"""How torch's threads wait for work: awake for microseconds instead of milliseconds, since whoever is awake slows the
one at work on the same core. It is read when torch is loaded; what the user says comes first."""


REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.ELOOP)
"""What the system says no with where nobody has asked before: the user's to mend, and no bug."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the user's, beside which the command is run
    try:
        _carry_out((sys.argv[1:] if argv is None else list(argv)) or ["--help"])
        print(end="", flush=True)  # what cannot be written is told here
        return 0
    except UserError as error:
        return _refused(f"{error}")
    except StoppedError as stopped:
        _tell(f"{stopped}; the same command goes on from here.")
        return stopped.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone: say no more
        return 141
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        where = error.filename or "the output"
        return _refused(f"cannot use {where} ({error.strerror}): choose another place or make room.")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not re.search("can't allocate memory|out of memory", str(error)):
            raise
        return _refused("there is not enough memory: lower the sizes in the configuration.")
    finally:
        let_go(sys.stdout)
        let_go(sys.stderr)


def _carry_out(words: Sequence[str]) -> None:
    command, *arguments = words
    if command in ("-h", "--help"):
        print(USAGE, end="")
    elif command == "--version":
        print(f"eva {__version__}")
    elif command not in _COMMANDS:
        raise UserError(f"there is no command '{command}': {nearest_name(command, _COMMANDS)}")
    else:
        _COMMANDS[command](arguments)


def _refused(sentence: str) -> int:
    _tell(sentence)
    return 2


def _tell(sentence: str) -> None:
    print(f"eva: {sentence}", file=unfailing(sys.stderr))


def _train(arguments: list[str]) -> None:
    file = value_of("--config", arguments)
    # Without a file, a first pass tells which preset or environment to start from.
    base = _read_config(Path(file)) if file is not None else _base(parse(Train, arguments, Train(_Draft())))
    asked = parse(Train, arguments, Train(base))
    if asked.preset is not None and asked.config_file is not None:
        raise UserError("a preset and --config are two places to start from: give one of them.")
    if asked.env is not None and value_of("--environment.id", arguments) is not None:
        raise UserError("--env and --environment.id are the same: give one of them.")
    config = asked.config
    if asked.env is not None:
        config = replace(config, environment=replace(config.environment, id=asked.env))
    if asked.weight is not None:
        config = replace(config, eva=replace(config.eva, nonparametric_weight=asked.weight))
    if asked.device is not None:
        config = replace(config, run=replace(config.run, device=asked.device))
    if asked.game is not None and config.environment.id != ATARI_ID:
        raise UserError(
            f"--game is for Atari, but {config.name} plays {config.environment.id}: start from atari or atari-small."
        )
    if config.environment.id == ATARI_ID and (asked.game is not None or file is None):  # a file's name is its own
        game = game_name(config.atari.game if asked.game is None else asked.game)
        base, config = for_game(base, game), for_game(config, game)

    from eva.build import resolve  # imports torch: not for --help
    from eva.runs.loop import train
    from eva.runs.record.directory import default_directory

    config = resolve(config)
    origin = base if file is None else namesake(config) or base  # a file may hold a variant of what it is called
    train(config, asked.out or default_directory(config, origin), restart=asked.restart)


def _base(asked: Train) -> Config:
    """Return the configuration that the flags change."""
    environment_id = asked.config.environment.id if asked.env is None else asked.env
    if asked.preset is None and (asked.env is not None or environment_id != Config().environment.id):
        return for_environment(environment_id)
    default = "maze-1-coin" if asked.game is None else "atari"
    return preset(default if asked.preset is None else asked.preset)


def _read_config(path: Path) -> Config:
    try:
        return read_config(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path} ({error}): give a config.json that eva wrote.") from None


def _evaluate(arguments: list[str]) -> None:
    asked = parse(Evaluate, arguments)

    from eva.report.evaluation import evaluation_table, summarise_evaluation
    from eva.runs.evaluate import evaluate  # imports torch: not for --help

    played = evaluate(asked.run, asked.weights, asked.episodes, seed=asked.seed, epsilon=asked.epsilon)
    rows = summarise_evaluation([(x.nonparametric_weight, x.episode_returns, x.changed_share) for x in played])
    if asked.json:
        results = [{**row, "returns": x.episode_returns.tolist()} for row, x in zip(rows, played, strict=True)]
        settings = {"run": str(asked.run), "seed": asked.seed, "epsilon": asked.epsilon}
        print(json.dumps({**settings, "results": results}, indent=2))
    else:
        print(evaluation_table(rows))


def _inspect(arguments: list[str]) -> None:
    inspect(parse(Inspect, arguments))


def _experiment(arguments: list[str]) -> None:
    run(parse(Experiment, arguments))


def _sweep(arguments: list[str]) -> None:
    sweep(parse(Sweep, arguments))


def _report(arguments: list[str]) -> None:
    asked = parse(Report, arguments)

    from eva.report.pages import write_report  # imports matplotlib: not for --help

    result = write_report(asked.runs, asked.out)
    print(result.verdict)
    print(result.html)


def _presets(arguments: list[str]) -> None:
    if arguments in (["-h"], ["--help"]):
        print("usage: eva presets\n\nList the named configurations.")
        return
    if arguments:
        raise UserError("eva presets takes no arguments.")
    for name, (config, description) in DESCRIPTIONS.items():
        print(f"{name:14} {description}; {config.steps:,} transitions")


_COMMANDS = {
    "train": _train,
    "evaluate": _evaluate,
    "inspect": _inspect,
    "experiment": _experiment,
    "sweep": _sweep,
    "report": _report,
    "presets": _presets,
}
