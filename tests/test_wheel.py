"""The wheel installs into an empty environment, where `eva --help` runs without torch."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_wheel_runs_without_torch(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"eva/py.typed", "eva/agent/adjuster.py", "eva/envs/maze.py", "eva/data/atari57_human_random.csv"} <= names
    assert {f"eva/inspect/{name}" for name in ("page.html", "page.css", "page.js", "values.js")} <= names
    assert not any(name.startswith("tests") for name in names)

    venv.create(tmp_path / "empty", with_pip=False)
    python = tmp_path / "empty" / "bin" / "python"
    target = ["--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    subprocess.run([sys.executable, "-m", "pip", *target, "--no-deps", str(wheel)], check=True)
    subprocess.run([sys.executable, "-m", "pip", *target, *constraints, "tyro"], check=True)
    done = subprocess.run([tmp_path / "empty" / "bin" / "eva", "--help"], capture_output=True, text=True, check=True)
    assert "eva COMMAND" in done.stdout
    missing = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True, check=False)
    assert "No module named 'torch'" in missing.stderr
