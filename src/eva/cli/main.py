"""The command line: find the command, run it, turn errors into exit codes."""

import errno
import importlib
import os
import re
import sys
from collections.abc import Sequence

from eva import __version__
from eva.errors import UserError, nearest_name, printable
from eva.runs.record.safe_stream import flush_or_discard, unfailing
from eva.runs.stopping import StoppedError

COMMANDS = {
    "train": "train an agent and record the run",
    "evaluate": "play single episodes with a trained agent, with and without EVA",
    "inspect": "play an episode and show what the agent remembered at every decision",
    "card": "write a folder for the Hugging Face Hub: model card, agent, video",
    "experiment": "run an experiment, the paper's or ours, and judge its claims",
    "sweep": "run many training runs, on this machine or on a cluster",
    "report": "compare runs: learning curves, table and verdict on one page",
    "runs": "list runs: what differs between them, their state and return",
    "export": "write the records of runs for pandas, rliable and Stable-Baselines3",
    "presets": "list the named configurations, or print one in full",
}
"""Each command is a module of this package; only the one that is called is imported."""

USAGE = f"""\
usage: eva COMMAND [-h] ...

Ephemeral Value Adjustments: a DQN that plans over its own replay memory before it acts.

commands:
{"".join(f"  {name:11} {summary}{chr(10)}" for name, summary in COMMANDS.items())}
The options of a command: eva train --help
"""

THREAD_ENVIRONMENT = {"GOMP_SPINCOUNT": "5000"}
"""Environment variables of OpenMP, which torch reads when it is imported; those that the user has set are kept. Idle
threads spin for microseconds instead of milliseconds: spinning threads slow down the thread that shares their core."""

USER_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.ELOOP)
"""errnos reported as user errors instead of tracebacks."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        return _main(argv)
    except KeyboardInterrupt:  # also while an error is being reported
        return 130


def _main(argv: Sequence[str] | None) -> int:
    for name, value in THREAD_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        _dispatch((sys.argv[1:] if argv is None else list(argv)) or ["--help"])
        print(end="", flush=True)  # raises here if the output cannot be written
        return 0
    except UserError as error:
        return _report(f"{error}")
    except StoppedError as stopped:
        return _report(f"{stopped}; the same command goes on from here.", stopped.exit_code)
    except BrokenPipeError:  # the reader of our output has closed it
        return 141
    except OSError as error:
        if error.errno not in USER_ERRNOS:
            raise
        path = error.filename or "the output"
        return _report(f"cannot use {path} ({error.strerror}): choose another path or free disk space.")
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not re.search("can't allocate memory|out of memory", str(error)):
            raise
        return _report("there is not enough memory: lower the sizes in the configuration.")
    finally:
        flush_or_discard(sys.stdout)
        flush_or_discard(sys.stderr)


def _dispatch(words: Sequence[str]) -> None:
    command, *arguments = words
    if command in ("-h", "--help"):
        print(USAGE, end="")
    elif command == "--version":
        print(f"eva {__version__}")
    elif command not in COMMANDS:
        raise UserError(f"there is no command '{command}': {nearest_name(command, COMMANDS)}")
    else:
        importlib.import_module(f"eva.cli.{command}").main(arguments)


def _report(sentence: str, exit_code: int = 2) -> int:
    print(f"eva: {printable(sentence)}", file=unfailing(sys.stderr))
    return exit_code
