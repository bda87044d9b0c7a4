"""Let torch's threads wait as the command line has them wait: that is decided before torch is loaded."""

from __future__ import annotations

import os
import sys

from eva.cli.main import WAITING


def as_in_the_command_line(module: str) -> None:
    """Begin this program anew with the settings of the command line, unless it has them."""
    if any(os.environ.get(name) != value for name, value in WAITING.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **WAITING})
