"""Write scalars for TensorBoard synchronously: SummaryWriter's thread would lose errors."""

import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


class ScalarWriter:
    """One event file of a run, from `step` on; TensorBoard hides later steps of earlier files."""

    def __init__(self, directory: Path, step: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        now = time.time()
        self._file = (directory / f"events.out.tfevents.{now:.6f}").open("wb")
        self._records = RecordWriter(self._file)
        self._write(Event(wall_time=now, file_version="brain.Event:2"))
        if step > 0:
            self._write(Event(wall_time=now, step=step, session_log=SessionLog(status=SessionLog.START)))

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Write the scalars of a step."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: Event) -> None:
        self._records.write(event.SerializeToString())
        self._file.flush()
