"""The command line that all benchmarks share. It imports nothing heavy, so that every peer's environment can use it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose `--help` shows a module's docstring."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{Path(sys.argv[0]).stem}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def use_cli_thread_settings(module: str) -> None:
    """Restart this process with the thread settings of `eva` unless it has them; torch reads them on import."""
    from eva.cli.main import THREAD_ENVIRONMENT

    if any(os.environ.get(name) != value for name, value in THREAD_ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **THREAD_ENVIRONMENT})
