"""Which code, command, versions and machine produced a run. Environment variables are never recorded."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import eva

_REQUIRED = ("torch", "numpy", "gymnasium", "safetensors", "zstandard")
_PACKAGES = (*_REQUIRED, "ale-py", "minatar", "opencv-python-headless", "stable-baselines3")


def provenance(argv: Sequence[str], threads: int, device: str) -> dict[str, Any]:
    """Return the content of provenance.json."""
    is_tracked = _git("ls-files", "__init__.py")  # false in a virtual environment inside another repository
    commit = _git("rev-parse", "HEAD") if is_tracked else None
    dirty = bool(_git("status", "--porcelain", ".")) if commit else None  # of the package: new results do not count
    versions = {"eva": eva.__version__, "python": platform.python_version()}
    return {
        "commit": commit,
        "dirty": dirty,
        "argv": list(argv),
        "versions": versions | {package: _version(package) for package in _PACKAGES},
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


def _version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


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
