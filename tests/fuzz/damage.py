"""The kinds of damage, each a function of a folder and a random generator."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from eva.config import Config
from eva.digests import sealed
from eva.runs.checkpoint.store import CheckpointStore

ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 0.5, 2**31, 2**63, 10**400, -(10**400), 1e300, math.inf, -math.inf, math.nan),
    *("", "nan", "1e400", "\x1b[2J", "../../outside", "a" * 10_000, [], {}, [[]] * 1000, {"a": {"a": {}}}, ["x", 1]),
)
Damage = Callable[[Path, random.Random], str]
"""Damages a copy of a subject; returns what was done."""


def files_of(folder: Path) -> list[Path]:
    """Return all regular files, in the order of their names."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]


def flip(folder: Path, generator: random.Random) -> str:
    """Flip one bit of a file."""
    path = generator.choice([path for path in files_of(folder) if path.stat().st_size])
    content = bytearray(path.read_bytes())
    place, bit = generator.randrange(len(content)), generator.randrange(8)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place} of {path.relative_to(folder)}"


def truncate(folder: Path, generator: random.Random) -> str:
    """Cut a file short, or append to it, or remove it."""
    path = generator.choice(files_of(folder))
    size, kind = path.stat().st_size, generator.random()
    if kind < 0.15:
        path.unlink()
        return f"{path.relative_to(folder)} removed"
    new = size + generator.randint(1, 50) if kind < 0.3 else generator.choice([0, max(0, size - 1), size // 2])
    os.truncate(path, generator.randrange(max(1, size)) if kind > 0.8 else new)
    return f"{path.relative_to(folder)} from {size} to {path.stat().st_size} bytes"


def forge(folder: Path, generator: random.Random) -> str:
    """Change the structure of a JSON or CSV file, with valid checksums, or in a run without any."""
    path = generator.choice([path for path in files_of(folder) if {".json", ".jsonl", ".csv"} & {*path.suffixes}])
    is_packed = path.suffix == ".gz"
    text = (gzip.decompress(path.read_bytes()) if is_packed else path.read_bytes()).decode()
    if path.suffix == ".json":
        tree = json.loads(text)
        is_sealed = tree.pop("sha256", None) is not None and generator.random() < 0.7
        tree, done = _changed(tree, generator)
        body = json.dumps(tree).encode()
        path.write_bytes(sealed(body) if is_sealed and body.endswith(b"}") else body)
    else:
        lines = text.splitlines(keepends=True)
        number = generator.randrange(len(lines))
        lines[number], done = _changed_line(lines[number], path.suffixes[0], generator)
        content = "".join(lines).encode()
        path.write_bytes(gzip.compress(content) if is_packed else content)
    if path.name != "manifest.json" and path.parent.name != "checkpoints":
        (path.parent / "manifest.json").unlink(missing_ok=True)
    return f"{path.relative_to(folder)}: {done}"


def _changed(tree: Any, generator: random.Random) -> tuple[Any, str]:
    """Replace, remove or add a random part of a JSON value."""
    if not isinstance(tree, dict | list) or not tree or generator.random() < 0.1:
        odd = generator.choice(ODD)
        return odd, f"replaced by {odd!s:.30}"
    key = generator.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    kind = generator.random()
    if kind < 0.1:
        del tree[key]
        return tree, f"{key!s:.30} removed"
    if kind < 0.15 and isinstance(tree, dict):
        tree[generator.choice(["", "x", "\x1b[2J", "../x"])] = generator.choice(ODD)
        return tree, "field added"
    tree[key], done = _changed(tree[key], generator)
    return tree, f"{key!s:.30}: {done}"


def _changed_line(line: str, suffix: str, generator: random.Random) -> tuple[str, str]:
    """Change a cell of a CSV file or a line of JSON, or repeat or remove the line."""
    kind = generator.random()
    if kind < 0.2:
        return generator.choice(["", line * 2, line[: len(line) // 2], "\n", "\0"]), "a line"
    if suffix == ".jsonl":
        content, done = _changed(json.loads(line), generator)
        return json.dumps(content) + "\n", done
    cells = line.rstrip("\n").split(",")
    cells[generator.randrange(len(cells))] = odd = str(generator.choice(ODD))[:10_000]
    return ",".join(cells) + "\n", f"cell {odd:.30}"


def forge_arrays(folder: Path, generator: random.Random) -> str:
    """Change arrays or plain data of the policy, the memory or the newest checkpoint, with valid checksums."""
    learned = [path for path in files_of(folder) if path.suffix == ".safetensors" and path.parent.name != "checkpoints"]
    learned = [path for path in learned if (path.parent / "config.json").exists()]
    stores = sorted(path for path in folder.rglob("checkpoints") if path.is_dir())
    if not stores and not learned:
        return forge(folder, generator)
    if not learned or (stores and generator.random() < 0.5):
        return _forge_checkpoint(generator.choice(stores), generator)
    path = generator.choice(learned)
    arrays = load_file(path)
    done = _changed_arrays(arrays, generator)
    save_file(arrays, path)
    (path.parent / "manifest.json").unlink(missing_ok=True)
    return f"{path.relative_to(folder)}: {done}"


def _forge_checkpoint(folder: Path, generator: random.Random) -> str:
    store = CheckpointStore(folder)
    config = Config.from_json((folder.parent / "config.json").read_text())
    checkpoint, _ = store.load_newest(config.identity)
    assert checkpoint is not None
    store.clear()
    if generator.random() < 0.5:
        done = _changed_arrays(checkpoint.arrays, generator)
    else:
        plain, done = _changed(checkpoint.plain, generator)
        checkpoint = replace(checkpoint, plain=plain)
    store.save(checkpoint)
    return f"{folder.parent.name}, checkpoint: {done}"


def _changed_arrays(arrays: dict[str, Any], generator: random.Random) -> str:
    """Change one array: its values, its type or its shape; or remove it or add one."""
    name = generator.choice(sorted(arrays))
    array, kind = arrays[name], generator.choice(["values", "one value", "type", "shape", "removed", "added"])
    odd = generator.choice([0, -1, 1, 2**31 - 1, -(2**31), 1e30, math.nan, math.inf])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "values":
            arrays[name] = np.full_like(array, np.array(odd).astype(array.dtype))
        elif kind == "one value" and array.size:
            arrays[name] = array.copy()
            arrays[name].flat[generator.randrange(array.size)] = np.array(odd).astype(array.dtype)
        elif kind == "type":
            arrays[name] = array.astype(generator.choice(["?", "u1", "i2", "i8", "u8", "f2", "f4", "f8"]))
        elif kind == "shape":
            longer = np.concatenate([array.ravel(), array.ravel()[:1]])
            arrays[name] = generator.choice([array[None], array.ravel(), array.ravel()[1:], longer, array.ravel()[:0]])
        elif kind == "removed":
            del arrays[name]
        else:
            arrays[generator.choice(["x", f"{name}x"])] = array
    return f"{name}: {kind} {odd if 'value' in kind else ''}"


def link(folder: Path, generator: random.Random) -> str:
    """Replace a file or folder of a run by a link to a copy outside, or by a second name or a pipe."""
    outside = folder.parent / "outside"
    runs = {path.parent for path in folder.rglob("config.json")}  # these themselves may be links
    inside = [path for run in runs for path in run.rglob("*")]
    path = generator.choice(sorted({*inside, *(path for path in folder.iterdir() if path.is_file())}))
    target = outside / path.name
    kind = generator.choice(["link", "link", "hard link", "pipe", "dangling link", "folder"])
    shutil.move(path, target)
    if kind == "hard link" and target.is_file():
        os.link(target, path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(outside / "nothing" if kind == "dangling link" else target)
    return f"{path.relative_to(folder)}: {kind}"


DAMAGES: dict[str, tuple[Damage, float]] = {  # with their shares of the cases
    "bit flip": (flip, 0.34),
    "truncation": (truncate, 0.12),
    "structure": (forge, 0.18),
    "arrays": (forge_arrays, 0.12),
    "link or pipe": (link, 0.14),
}
"""The rest of the cases are kills."""
