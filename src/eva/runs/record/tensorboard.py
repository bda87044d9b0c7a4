"""Write scalars for TensorBoard synchronously: SummaryWriter's thread would lose errors."""

import time
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from eva.files import Folder


class ScalarWriter:
    """One event file in the folder tensorboard of `run`, from `step` on; TensorBoard hides later steps of others."""

    def __init__(self, run: Folder, step: int) -> None:
        now = time.time()
        with run.folder("tensorboard", create=True) as folder:
            self._file = folder.open(f"events.out.tfevents.{now:.6f}", "wb")
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
