"""The training loop of a step function in a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, one_of
from workbench.experiments.records import recorder
from workbench.experiments.run import Run
from workbench.experiments.training.loops.batches import is_one_shot, require_batches
from workbench.experiments.training.loops.pipelined import PipelinedLoop
from workbench.experiments.training.loops.progress import bar_of
from workbench.experiments.training.loops.settings import file_of, own_settings, settings_of
from workbench.experiments.training.loops.validation import PREFIX, Validation
from workbench.parallel.cluster.cluster import Cluster
from workbench.parallel.cluster.rank_steps import LOSS
from workbench.parallel.cluster.trained_steps import StepsExecutor
from workbench.runtime.storage.scope import Scope


class StepsLoop(PipelinedLoop):
    """A PipelinedLoop whose batches are fields by their numbers, or, of dicts, by their names."""

    def feed(self, batch: Any) -> Mapping[str, Any]:
        """What a batch is called in the ranks."""
        return _fields(batch)


class StepsValidation(Validation):
    """Has the ranks evaluate validation data, each its part of every batch.

    Args:
        data: see `Validation`. labels: what is fetched of every step. executor: of the training.

    Raises:
        InvalidType: `data` cannot be gone through again. InvalidArgument: a label is that of a validation value.
    """

    def __init__(self, data: Iterable[Any], labels: Sequence[str], executor: StepsExecutor) -> None:
        super().__init__(data, (), {PREFIX + label: label for label in labels})
        if taken := self.labels.keys() & set(labels):
            raise InvalidArgument(f"values of the validation data are called {one_of(taken)}; fetch yours otherwise")
        self._executor = executor

    def _feed(self, batch: Any) -> Mapping[str, Any]:
        return _fields(batch)

    def _means(self, feed: Mapping[str, Any]) -> np.ndarray:
        return self._executor.evaluate(feed, list(self.labels.values()))


def _fields(batch: Any) -> Mapping[str, Any]:
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
    valid: Iterable[Any] | None = None,
    valid_every: int | None = None,
) -> Run:
    """See `TrainingCluster.train`."""
    for what, value, least in (("steps", steps, 0), ("epochs", epochs, 0), ("valid_every", valid_every, 1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InvalidArgument(f"train takes a number >= {least} as {what}, got {value!r}")
    if valid_every is not None and valid is None:
        raise InvalidArgument("valid_every needs validation data: valid=")
    if isinstance(fetch, str) or not all(isinstance(label, str) for label in fetch):
        raise InvalidType(f"fetch names what a step function returns, got {fetch!r}")
    own, file = own_settings({} if settings is None else settings), file_of(record)
    require_batches(data, "train")
    asked = {"steps": steps, "epochs": epochs, "fetch": list(fetch)}
    if steps is None and epochs is None:
        epochs = 1 if is_one_shot(data) else 10
    executor = StepsExecutor(cluster, function)
    labels = {label: label for label in fetch}
    validation = None if valid is None else StepsValidation(valid, fetch, executor)
    loop = StepsLoop(executor.program, data, labels, executor, Scope(), "never", epochs, validation, valid_every)
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
