"""Dependencies point one way, heavy imports live in one file each, and `import eva` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from eva.cli.main import COMMANDS

SOURCE = Path(__file__).parents[1] / "src" / "eva"

# Each package or module, and those that it may import from.
BASE = {"errors", "types"}
ALLOWED = {
    "errors": set[str](),
    "ids": set[str](),
    "types": set[str](),
    "schema": {"errors"},
    "files": {"errors"},
    "user_code": {"errors"},
    "digests": {"files"},
    "config": {"errors", "files", "ids", "schema"},
    "games": {"errors", "ids"},
    "machine": {"errors"},
    "registration": {"ids"},
    "presets": {"config", "errors", "games", "ids", "files", "schema"},
    "agent": BASE,
    "envs": BASE | {"user_code"},
    "wiring": BASE | {"ids", "agent", "config", "envs", "games", "machine", "user_code"},
    "build": BASE | {"agent", "config", "wiring"},
    "runs": BASE
    | {"ids", "agent", "build", "config", "digests", "files", "games", "machine", "presets", "schema"}
    | {"wiring", "envs.maze_layout", "envs.maze_values"},
    "report": {
        "errors",
        "ids",
        "config",
        "digests",
        "files",
        "games",
        "envs.maze_layout",
        "envs.maze_dynamics",
        "runs.record.columns",
    },
    "experiments": BASE | {"agent", "config", "digests", "files", "games", "presets", "report", "runs", "schema"},
    "integrations": BASE | {"agent", "build", "config", "envs", "runs", "schema"},
    "inspect": BASE | {"agent", "build", "config", "files", "report", "runs", "schema"},
    "sharing": {"build", "config", "digests", "errors", "files", "ids", "inspect", "runs"},
    "cli": {
        "errors",
        "ids",
        "build",
        "config",
        "experiments",
        "games",
        "inspect",
        "machine",
        "presets",
        "report",
        "runs",
        "sharing",
    }
    | {"schema"},
    "__main__": {"cli"},
    "__init__": {"agent", "build", "config", "errors", "presets", "registration", "report", "runs", "sharing", "types"},
}
HEAVY = {
    "ale_py": {"envs/atari.py"},
    "imageio_ffmpeg": {"runs/video.py"},
    "cv2": {"agent/memory/observations.py", "envs/atari.py"},
    "matplotlib": {"report/plots.py"},
    "pyarrow": {"report/export.py"},
    "ray": {"runs/sweep/ray_executor.py"},
    "stable_baselines3": {"integrations/sb3.py"},
    "tensorboard": {"runs/track/tensorboard.py"},
    "trackio": {"runs/track/trackio.py"},
    "tyro": {f"cli/{name}.py" for name in (*COMMANDS, "parsing")},
    "wandb": {"runs/track/wandb.py"},
    "zstandard": {"agent/memory/frames.py", "runs/checkpoint/format.py"},
}
AGENT_PACKAGES = {"cv2", "numpy", "torch", "zstandard"}


def _imports(path: Path) -> list[str]:
    """Return the modules that a file imports anywhere, type-checking blocks included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
    return found


def _is_of(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    relative = path.relative_to(SOURCE)
    package = relative.parts[0].removesuffix(".py")
    for module in _imports(path):
        top, _, inner = module.partition(".")
        if top == "eva" and inner and inner.split(".")[0] != package:
            assert any(_is_of(inner, name) for name in ALLOWED[package]), f"{relative} must not import {module}"
        for heavy, homes in HEAVY.items():
            if heavy in module.split("."):
                assert str(relative) in homes, f"{relative} must not import {module}"
        if package == "agent" and top not in {"eva", "__future__", *sys.stdlib_module_names}:
            assert top in AGENT_PACKAGES, f"{relative} must not import {module}"


@pytest.mark.parametrize("package", ALLOWED)
def test_every_allowed_import_is_used(package: str) -> None:
    files = [path for path in FILES if path.relative_to(SOURCE).parts[0].removesuffix(".py") == package]
    imported = {module.removeprefix("eva.") for path in files for module in _imports(path)}
    assert [name for name in sorted(ALLOWED[package]) if not any(_is_of(module, name) for module in imported)] == []


MOST_MODULES = 14


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in FILES}), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_packages_have_at_most_14_modules(package: Path) -> None:
    assert len([path for path in package.glob("*.py") if path.name != "__init__.py"]) <= MOST_MODULES


def test_every_package_has_import_rules() -> None:
    assert {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in FILES} == set(ALLOWED)


@pytest.mark.parametrize("module", ["eva", "eva.cli.main", "eva.report.pages", "eva.experiments.framework.command"])
def test_light_imports_stay_light(module: str) -> None:
    code = f"import sys, {module}; print({{'torch', 'gymnasium'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_neither_torch_nor_matplotlib(command: str) -> None:
    code = (
        "import sys; from eva.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'gymnasium', 'matplotlib', *([] if sys.argv[2:] else ['tyro'])} & set(sys.modules))"
    )
    words = [*command.split(), "--help"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nset()\n")


def test_public_names_exist() -> None:
    import eva

    for name in eva.__all__:
        assert getattr(eva, name) is not None
        assert not (SOURCE / f"{name}.py").exists(), "importing that module would replace the name"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = eva.nothing
