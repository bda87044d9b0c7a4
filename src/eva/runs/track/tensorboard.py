"""Write scalars for TensorBoard synchronously: SummaryWriter's thread would lose errors."""

import time
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from eva.files import Folder, as_user_errors
from eva.runs.callbacks import Run


class TensorBoardWriter:
    """One event file in the folder tensorboard of the run; TensorBoard hides later steps of earlier files."""

    def __init__(self, run: Run) -> None:
        self._path, now = run.path, time.time()
        with as_user_errors(run.path), Folder(run.path) as outer, outer.folder("tensorboard", create=True) as folder:
            self._file = folder.open(f"events.out.tfevents.{now:.6f}", "wb")
        self._records = RecordWriter(self._file)
        try:
            self._write(Event(wall_time=now, file_version="brain.Event:2"))
            if run.step > 0:
                start = SessionLog(status=SessionLog.START)
                self._write(Event(wall_time=now, step=run.step + 1, session_log=start))
        except BaseException:
            self._file.close()
            raise

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Write the scalars of a point."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def close(self, step: int, *, failed: bool) -> None:
        """Close the file."""
        with as_user_errors(self._path):
            self._file.close()

    def _write(self, event: Event) -> None:
        with as_user_errors(self._path):
            self._records.write(event.SerializeToString())
            self._file.flush()


def open_writer(run: Run) -> TensorBoardWriter:
    """Open TensorBoard's file of a run."""
    return TensorBoardWriter(run)
