"""Log a run to Weights & Biases. WANDB_MODE, WANDB_PROJECT, WANDB_ENTITY and its other variables apply."""

import os
from collections.abc import Mapping

import wandb

from eva import schema
from eva.errors import UserError, reason_of
from eva.runs.callbacks import Run
from eva.runs.track.tracker import Tracked, run_name


class WandbWriter:
    """One run of W&B, which a resumed run continues: its history only grows, so known points are not sent again."""

    def __init__(self, run: Run) -> None:
        self._tracked = Tracked(run, "wandb")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "eva"),
                id=self._tracked.id,
                resume="allow",
                name=run_name(run.config),
                group=run.config.name,
                config=schema.to_dict(run.config),
                dir=self._tracked.folder.absolute(),  # its process may have another working directory
                settings=wandb.Settings(console="off", save_code=False),
            )
        except wandb.Error as error:
            raise UserError(
                f"Weights & Biases cannot start ({reason_of(error)}): run 'wandb login', or set WANDB_MODE=offline."
            ) from error
        self._run.define_metric("global_step")
        self._run.define_metric("*", step_metric="global_step")

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Log a point, unless an earlier part of the run has."""
        if step > self._tracked.step:
            self._run.log({"global_step": step, **scalars})

    def close(self, step: int, *, failed: bool) -> None:
        """Finish the upload."""
        self._run.finish(exit_code=int(failed))
        self._tracked.save(step)


def open_writer(run: Run) -> WandbWriter:
    """Start or continue the run in W&B."""
    return WandbWriter(run)
