"""How a run is saved: by this process alone, as a cluster, or by processes that train together."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from workbench.executors.running.trainers import group_of
from workbench.experiments.run import Run
from workbench.experiments.runners import executor_of
from workbench.experiments.training.layers.layer_parts import require_recorded
from workbench.experiments.training.loops.loop import TrainingLoop
from workbench.experiments.training.saving.checkpoints import write_checkpoint
from workbench.experiments.training.saving.model_checkpoint import ModelCheckpoint, keeper_of
from workbench.experiments.training.saving.together import TrainerWriters
from workbench.framework.paths import path_text
from workbench.parallel.cluster.trained import ClusterExecutor


def keep_checkpoints(
    run: Run, loop: TrainingLoop, runner: Any, checkpoints: str | os.PathLike[str] | ModelCheckpoint | None
) -> Any:
    """Give a run its way to save itself, and have checkpoints kept on the way.

    Args:
        runner: what makes the steps. checkpoints: see `train`.

    Returns:
        the keeper, None if none are kept.
    """
    writers = _trainers(runner)
    write = partial(_save, loop, run, runner) if writers is None else partial(_save_together, loop, run, writers)
    run.saves_by(write, is_of_several=writers is not None)
    keeper = None
    if checkpoints is not None:
        keeper = keeper_of(checkpoints, run, loop, writers, write)
        run.subscribe(keeper, at_rest=False)
    if writers is not None:
        run.subscribe(partial(_end_of_saves, writers), at_rest=False)  # behind the keeper's last save
    return keeper


def _trainers(runner: Any) -> TrainerWriters | None:
    """The processes that train together, as writers of checkpoints; None if this one trains alone."""
    executor = executor_of(runner)
    if executor is None:
        return None
    group = group_of(executor.inspection.build, executor.inspection.execution.timeout)
    return None if group is None else TrainerWriters(group, executor.inspection.execution.timeout)


def _save(loop: TrainingLoop, run: Run, runner: Any, path: str | os.PathLike[str]) -> None:
    require_recorded(loop.executor)
    write_checkpoint(loop, loop.position(run), path, runner if isinstance(runner, ClusterExecutor) else None)


def _save_together(loop: TrainingLoop, run: Run, writers: TrainerWriters, path: str | os.PathLike[str]) -> None:
    require_recorded(loop.executor)
    try:
        with writers.saving(f"step {run.step} in {path_text(path, 'checkpoint')}"):
            write_checkpoint(loop, loop.position(run), path, writers)
    finally:
        if run.finished:
            writers.end()


def _end_of_saves(writers: TrainerWriters, run: Run) -> None:
    if run.finished or run.error is not None:
        writers.end()
