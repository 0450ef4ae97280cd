"""Validation: what is recorded of a run, computed on data that it is not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.data.split import batch_rows
from workbench.errors import InvalidArgument, InvalidType, one_of
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.experiments.training.loops.batches import close, feed_names, feed_of, from_the_start, is_one_shot
from workbench.framework.program.program import Program
from workbench.graph.loss import labelled_loss
from workbench.runtime.storage.scope import Scope

PREFIX = "val_"


class Validation:
    """Values over validation data.

    Args:
        data: batches, from the beginning every time: of a DataLoader without moving it. names: of their arrays.
        labels: {"val_" and a label: variable} of what is found.

    Raises:
        InvalidType: `data` cannot be gone through again.
    """

    def __init__(self, data: Iterable[Any], names: Sequence[str], labels: Mapping[str, str]) -> None:
        if not hasattr(data, "__iter__") or is_one_shot(data):
            raise InvalidType(f"valid takes batches that can be iterated over again (DataLoader, list), got {data!r}")
        self._data, self._names, self.labels = data, names, dict(labels)

    def evaluate(self, is_stopping: Callable[[], bool]) -> dict[str, float] | None:
        """Means over the rows of all batches; None if the run is to stop before the end.

        Raises:
            InvalidArgument: there is no batch. EnforceNotMet: a batch does not fit the program.
        """
        self._begin()
        totals, rows = np.zeros(len(self.labels)), 0
        batches = from_the_start(self._data)
        try:
            for batch in batches:
                if is_stopping():
                    return None
                feed = self._feed(batch)
                count = batch_rows(feed) or 1
                totals += count * self._means(feed)
                rows += count
        except Exception as error:
            error.add_note("while the validation data (valid=) were evaluated")
            raise
        finally:
            close(batches)
        if not rows:
            raise InvalidArgument("valid gave no batch to evaluate")
        return dict(zip(self.labels, (totals / rows).tolist(), strict=True))

    def _begin(self) -> None:
        """The training stands still."""

    def _feed(self, batch: Any) -> Mapping[str, Any]:
        """A batch as {name: array}."""
        return feed_of(batch, self._names)

    def _means(self, feed: Mapping[str, Any]) -> np.ndarray:
        """Of one batch, in the order of the labels."""
        raise NotImplementedError


class ProgramValidation(Validation):
    """The copy of a program for testing, run over validation data with the parameters of device 0.

    It changes nothing of the training: what the copy writes, counters of random ops too, goes to a scope of its own.

    Args:
        data: see `Validation`. labels: what is recorded of every step, {label: variable}; the loss if empty.
        scope: where the parameters are. is_compiled: run it like the training, on compiled kernels.

    Raises:
        InvalidType: `data` cannot be gone through again. InvalidArgument: the copy computes nothing of `labels`.
    """

    def __init__(
        self, program: Program, data: Iterable[Any], labels: Mapping[str, str], scope: Scope, is_compiled: bool
    ) -> None:
        test = program.clone(for_test=True)
        super().__init__(data, feed_names(program), _computed(test, labels or _loss(program)))
        self._scope, self._written = scope, _written(test)
        self._own = Scope(scope)
        self._program = CompiledProgram(test) if is_compiled else test
        self._executor = Executor()

    def _begin(self) -> None:
        """Take over from the training what the copy changes."""
        for name in self._written:
            variable = self._scope.find_var(name)
            if variable is not None and variable.tensor.initialized:
                self._own.var(name).tensor.set(variable.tensor.numpy())

    def _means(self, feed: Mapping[str, Any]) -> np.ndarray:
        names = list(self.labels.values())
        values = self._executor.run(self._program, feed=feed, fetch_list=names, scope=self._own)
        return np.array([float(np.mean(value)) for value in values])


def _loss(program: Program) -> dict[str, str]:
    labels = labelled_loss(program)
    if not labels:
        raise InvalidArgument("valid needs something to evaluate: name it in fetch, as in fetch=[loss]")
    return labels


def _computed(test: Program, labels: Mapping[str, str]) -> dict[str, str]:
    computed = {name for op in test.global_block().ops for name in op.output_arg_names}
    labels_here = {PREFIX + label: name for label, name in labels.items() if name in computed}
    if not labels_here:
        raise InvalidArgument(f"the program's copy for testing computes none of {one_of(labels)}, which are fetched")
    if taken := labels_here.keys() & labels.keys():
        raise InvalidArgument(f"values of the validation data are called {one_of(taken)}; fetch yours by other labels")
    return labels_here


def _written(test: Program) -> list[str]:
    """Persistable variables that the copy changes."""
    kept = {variable.name for variable in test.persistables()}
    names = {name for op in test.all_ops() for name in op.output_arg_names if name in kept}
    return sorted(names | ({test.rng_step} & kept))
