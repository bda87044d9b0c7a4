"""Log a run to trackio: a local database, or a Space if TRACKIO_SPACE_ID is set. Its other variables apply, too."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout

import trackio

from eva import schema
from eva.runs.callbacks import Run
from eva.runs.track.tracker import Tracked, run_name


class TrackioWriter:
    """One run of trackio, which a resumed run continues: its log only grows, so known points are not sent again."""

    def __init__(self, run: Run) -> None:
        self._tracked = Tracked(run, "trackio")
        with _quiet_output():
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", "eva"),
                name=f"{run_name(run.config)}-{self._tracked.id}",  # trackio knows runs by name
                resume="allow",
                config=schema.to_dict(run.config),
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Log a point, unless an earlier part of the run has."""
        if step > self._tracked.step:
            self._run.log(dict(scalars), step=step)

    def close(self, step: int, *, failed: bool) -> None:
        """Write what is queued."""
        with _quiet_output():
            trackio.finish()  # not of the run: trackio would finish it a second time when the process exits
        self._tracked.save(step)


@contextmanager
def _quiet_output() -> Iterator[None]:
    """Send what trackio prints to standard error: standard output is for results."""
    with redirect_stdout(sys.stderr):
        yield


def open_writer(run: Run) -> TrackioWriter:
    """Start or continue the run in trackio."""
    return TrackioWriter(run)
