"""The training loop of a step function in a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.experiments.records import recorder
from workbench.experiments.run import Run
from workbench.experiments.training.loops.ahead import LoopAhead
from workbench.experiments.training.loops.batches import is_one_shot, require_batches
from workbench.experiments.training.loops.progress import bar_of
from workbench.experiments.training.loops.settings import file_of, own_settings, settings_of
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.rank_steps import LOSS
from workbench.parallel.cluster.trained_steps import StepsExecutor
from workbench.runtime.storage.scope import Scope


class StepsLoop(LoopAhead):
    """A LoopAhead whose batches are fields by their numbers, or, of dicts, by their names."""

    def feed(self, batch: Any) -> Mapping[str, Any]:
        """What a batch is called in the ranks."""
        if isinstance(batch, Mapping):
            return batch
        fields = batch if isinstance(batch, list | tuple) else [batch]
        return {str(number): field for number, field in enumerate(fields)}


def train_steps(
    cluster: Cluster,
    function: Any,
    data: Iterable[Any],
    steps: int | None = None,
    epochs: int | None = None,
    fetch: Sequence[str] = (LOSS,),
    progress: bool | None = None,
    name: str | None = None,
    record: bool | str | os.PathLike[str] = True,
    settings: Mapping[str, Any] | None = None,
    paused: bool = False,
) -> Run:
    """See `TrainingCluster.train`."""
    for what, value in (("steps", steps), ("epochs", epochs)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise InvalidArgument(f"train takes a number >= 0 as {what}, got {value!r}")
    if isinstance(fetch, str) or not all(isinstance(label, str) for label in fetch):
        raise InvalidType(f"fetch names what a step function returns, got {fetch!r}")
    own, file = own_settings({} if settings is None else settings), file_of(record)
    require_batches(data, "train")
    asked = {"steps": steps, "epochs": epochs, "fetch": list(fetch)}
    if steps is None and epochs is None:
        epochs = 1 if is_one_shot(data) else 10
    executor = StepsExecutor(cluster, function)
    labels = {label: label for label in fetch}
    loop = StepsLoop(executor.program, data, labels, executor, Scope(), "never", epochs, None, None)
    by_epochs = None if loop.length is None or epochs is None else loop.length * epochs
    total = min((count for count in (steps, by_epochs) if count is not None), default=None)
    run = Run(name or executor.title, loop.work, total, epochs)
    run.trains(executor.program, data, labels, executor, function)
    bar = bar_of(run, progress)
    if bar is not None:
        run.subscribe(bar, at_rest=False)
    if file is not None:
        values = settings_of(executor.program, data, executor, lambda variable: None, asked, own)
        recorder.record(run, {**values, "program": executor.title, "program_hash": None}, file)
    if paused:
        run.pause()
    return run.start()
