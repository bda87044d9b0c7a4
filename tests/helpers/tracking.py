"""Read back what trackers have stored: points as {name: [(step, value)]}."""

from __future__ import annotations

import importlib
import json
import sqlite3
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

Points = dict[str, list[tuple[int, float]]]


def tensorboard_points(run: Path) -> Points:
    """Return what TensorBoard shows."""
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def wandb_records(run: Path) -> list[Any]:
    """Return the records of all offline files of a run in the order of their time; `wandb sync` would upload them."""
    found: list[Any] = []
    for file in sorted(run.glob("tracking/wandb/offline-run-*/*.wandb")):
        end = time.monotonic() + 60
        while not any(record.HasField("exit") for record in _wandb_records(file)):
            assert time.monotonic() < end, "another process writes the file; it may take a moment after `finish`"
            time.sleep(0.05)
        found += _wandb_records(file)
    return found


def _wandb_records(file: Path) -> Iterator[Any]:
    """Yield the records of a file in the format of LevelDB's log: blocks of 32 KiB, parts with a header."""
    messages: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")  # made at run time, for mypy too
    content, position, parts = file.read_bytes(), 7, b""
    while position + 7 <= len(content):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, position)
        parts += content[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = messages.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def wandb_points(run: Path) -> Points:
    """Return the history of a run in W&B."""
    points: Points = defaultdict(list)
    for record in wandb_records(run):
        items = {"/".join(each.nested_key) or each.key: json.loads(each.value_json) for each in record.history.item}
        for name in [name for name in items if name != "global_step" and not name.startswith("_")]:
            points[name].append((items["global_step"], items[name]))
    return points


def trackio_points(folder: Path, project: str = "eva") -> dict[str, Points]:
    """Return the log of every run in trackio's database."""
    found: dict[str, Points] = defaultdict(lambda: defaultdict(list))
    with sqlite3.connect(folder / f"{project}.db") as database:
        rows = database.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
    database.close()
    for name, step, metrics in rows:
        for key, value in json.loads(metrics).items():
            found[name][key].append((step, value))
    return found
