"""Where a run's numbers come from: commit, command, versions, machine. Never environment variables."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import eva

_PACKAGES = (
    "torch",
    "numpy",
    "gymnasium",
    "safetensors",
    "zstandard",
    "ale-py",
    "opencv-python-headless",
    "stable-baselines3",
)


def provenance(argv: Sequence[str], threads: int, device: str) -> dict[str, Any]:
    """Return what provenance.json says."""
    commit = _git("rev-parse", "HEAD") if _is_tracked() else None
    dirty = bool(_git("status", "--porcelain", ".")) if commit else None  # of the package: results may come and go
    return {
        "commit": commit,
        "dirty": dirty,
        "argv": list(argv),
        "versions": {"eva": eva.__version__, "python": platform.python_version()}
        | {package: _version(package) for package in _PACKAGES},
        "threads": threads,
        "device": device,
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def command() -> list[str]:
    """Return the command line of this process, its program by name."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def _version(package: str) -> str | None:
    """Return a package's version, or None where it is an extra that is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _is_tracked() -> bool:
    """Whether this package lies in its own repository, and not just in somebody's virtual environment."""
    return bool(_git("ls-files", "__init__.py"))


def _git(*arguments: str) -> str | None:
    here = Path(eva.__file__).parent
    try:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
