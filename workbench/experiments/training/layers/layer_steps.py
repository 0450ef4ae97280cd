"""The steps of a layer as the training loop makes them: recorded and run by the engine where that is possible."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented, described
from workbench.executors.running.watching.moment import Guard
from workbench.experiments.training.loops.batches import close, from_the_start, is_one_shot, require_batches
from workbench.framework import names
from workbench.framework.notice import tell
from workbench.framework.program.guard import in_static_mode
from workbench.framework.program.program import Program
from workbench.framework.values.dtype import as_dtype
from workbench.jit.capture import CapturedStep
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.values.arguments import Arguments
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.layers.layer import Layer
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.runtime.storage.scope import Scope

LOSS = "loss"
Values = Callable[..., Any]  # of outputs and label: a loss, or something else that is recorded


class OnLayer:
    """A layer with its loss and its optimizer as what runs the steps of a loop.

    A batch is a list of arrays: what the layer is called with, then the label, which goes to the loss with what the
    layer returns. A batch of one array has no label.

    Args:
        loader: its first batch is looked at. values: what is recorded besides the loss, {label: function}.
        name: what the step is called.

    Attributes:
        program: what was recorded, as far as a loop has to know it. labels: {label: variable of the program}.
        fields: names of the arrays of a batch.
        executor: what was recorded, ready to run; None if that is not possible, and steps run op by op: see `trouble`.
        loader: gives the same batches, the first one again, too.

    Raises:
        InvalidType, InvalidArgument: an argument is wrong; what the layer raises for the first batch.
        PreconditionNotMet: in static mode.
    """

    kind = "CapturedStep"

    def __init__(
        self,
        layer: Layer,
        loader: Iterable[Any],
        loss: Any,
        optimizer: Any,
        values: Any,
        devices: int | None,
        name: str,
    ) -> None:
        _check(layer, loss, optimizer, values)
        require_batches(loader, "train")
        self.layer, self._calls = layer, {LOSS: loss, **(values or {})}
        first, self.loader = _first(loader)
        self.fields = field_names(layer, first)
        layer.train()

        def step(*fields: Tensor) -> dict[str, Any]:
            results = self.values(fields)
            _require_one_number(results[LOSS])
            results[LOSS].backward()
            optimizer.step()
            optimizer.clear_grad()
            return results

        named(step, name, self.fields)
        self._step: Any = step
        self.executor: RecordedStep | None = None
        self.trouble = ""
        self._guard: Guard | None = None
        self._guarded: dict[tuple[Any, ...], Callable[[], None]] = {}
        self._record(RecordedSizes(step, devices), first)
        if self.executor is None:
            self.program, self.scope = _stand_in(name, first, self.fields), Scope()
            self.labels = {label: label for label in self._calls}
        else:
            self.program, self.scope = self.executor.program, self.executor.scope
            self.labels = self.executor.results
        if isinstance(optimizer._learning_rate, LRScheduler):  # whose steps are the loop's
            self.program.lr_schedulers = {f"{name}.learning_rate": optimizer._learning_rate}

    def _record(self, captured: CapturedStep, first: Any) -> None:
        try:
            with names.guard():  # the same names whenever it is recorded: checkpoints know programs by them
                self.executor = captured.prepare(*tensors_of(first, self.fields))
        except (NeedsValue, Unimplemented) as error:
            self.trouble = str(error)
            if captured.device_count > 1:
                raise InvalidArgument(f"only steps that can be recorded run on several devices: {error}") from error
            tell(f"the steps of {type(self.layer).__name__} cannot be recorded, and run op by op: {error}")
        else:
            self._step = captured

    @property
    def device_count(self) -> int:
        """How many devices a batch is split over."""
        return 1 if self.executor is None else len(self.executor.inspection.places)

    def values(self, fields: Iterable[Tensor]) -> dict[str, Any]:
        """Of a batch: the loss, and what else is recorded, by label."""
        given = list(fields)
        inputs, truth = (given[:-1], given[-1:]) if len(given) > 1 else (given, [])
        outputs = self.layer(*inputs)
        told = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        return {label: call(*told, *truth) for label, call in self._calls.items()}

    def run(self, program: Any, *, feed: Any, fetch_list: Any, scope: Any) -> list[Any]:
        """One step; what is recorded of it."""
        tensors = tensors_of(feed, self.fields)
        if self._guard is not None and tuple([t.kind for t in tensors]) not in self._guarded:
            self._attend(tensors, self._guard)
        results = self._step(*tensors)
        return [np.asarray(results[label].numpy()) for label in self.labels]

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Have a guard called for steps of every size of batch; see `Engine.guard`.

        Returns:
            what takes it away again.
        """
        self._guard = guard if self.executor is not None else None
        return self._dismiss

    def _attend(self, tensors: Sequence[Tensor], guard: Guard) -> None:
        """Steps of this kind have not been made yet."""
        recorded = self._step.prepare(*tensors)
        self._guarded[tuple([t.kind for t in tensors])] = recorded.inspection.guard(guard)

    def _dismiss(self) -> None:
        for dismiss in self._guarded.values():
            dismiss()
        self._guard, self._guarded = None, {}


class RecordedSizes(CapturedStep):
    """A function that is recorded for every size of batch, without a word about it: the last one is often smaller."""

    def __init__(self, function: Callable[..., Any], devices: int | None = None) -> None:
        super().__init__(function, 1 if devices is None else devices, None, None)

    def _tell(self, given: Arguments, others: Sequence[RecordedStep]) -> None:
        if others:  # for arguments of the same kinds
            super()._tell(given, others)


def _check(layer: Layer, loss: Any, optimizer: Any, values: Any) -> None:
    if in_static_mode():
        raise PreconditionNotMet("a Layer is trained in dynamic mode; call disable_static() first")
    if isinstance(loss, type):
        raise InvalidType(f"loss= is the class {loss.__name__}; train takes an object of it: {loss.__name__}()")
    if not callable(loss):
        raise InvalidType(
            "train takes loss= for a Layer, a function of what it returns and the label such as nn.CrossEntropyLoss(), "
            f"got {described(loss)}"
        )
    if not isinstance(optimizer, Optimizer):
        raise InvalidType(f"train takes optimizer= for a Layer, got {described(optimizer)}")
    own, updated = set(map(id, layer.parameters())), map(id, optimizer._parameter_list or ())
    if own.isdisjoint(updated):
        raise InvalidArgument(
            f"the optimizer updates no parameter of {type(layer).__name__}: make it with parameters=net.parameters()"
        )
    if not (values is None or (isinstance(values, Mapping) and all(map(callable, values.values())))):
        raise InvalidType(
            "train takes a dict {label: function of outputs and label} as fetch for a Layer, such as "
            f"{{'accuracy': metric.accuracy}}, got {described(values)}"
        )
    if LOSS in (values or {}):
        raise InvalidArgument(f"{LOSS!r} is recorded in any case; give what is in fetch another label")


def _require_one_number(loss: Any) -> None:
    """Refuse what is not the loss of a whole batch."""
    shape = list(loss.shape) if isinstance(loss, Tensor) else None
    if shape not in ([], [1]):
        what = described(loss) if shape is None else f"a tensor of shape {shape}; its mean() would be one"
        raise InvalidArgument(f"train takes as loss= a function that gives one number for a batch, got {what}")


def _first(loader: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The first batch, and a loader that has not moved."""
    batches = from_the_start(loader)
    try:
        first = next(batches, None)
    finally:
        if not is_one_shot(loader):
            close(batches)
    if first is None:
        raise InvalidArgument("the loader gave no batch")
    return first, itertools.chain([first], batches) if is_one_shot(loader) else loader


def field_names(layer: Layer, batch: Any) -> list[str]:
    """What the arrays of a batch are called: like the parameters of `forward`, and `label`.

    Raises:
        InvalidType: it is neither list nor dict.
    """
    if isinstance(batch, Mapping):
        return [str(name) for name in batch]
    if not isinstance(batch, list | tuple):
        raise InvalidType(f"the loader must give lists or dicts of arrays, got {type(batch).__name__}")
    parameters = inspect.signature(layer.forward).parameters.values()
    known = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    count = max(len(batch) - 1, 1)
    names = [*known[:count], *(f"input_{k}" for k in range(len(known), count))]
    return names if len(batch) == 1 else [*names, "label" if "label" not in names else "label_"]


def named(function: Any, name: str, fields: Iterable[str]) -> None:
    """Have a function's arguments be called like the arrays of a batch."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__name__ = name
    function.__signature__ = inspect.Signature([inspect.Parameter(each, kind) for each in fields])


def tensors_of(batch: Any, fields: Iterable[str]) -> list[Tensor]:
    """The arrays of a batch, in order."""
    arrays = [batch[name] for name in fields] if isinstance(batch, Mapping) else batch
    return [each.detach() if isinstance(each, Tensor) else Tensor(np.asarray(each)) for each in arrays]


def _stand_in(name: str, first: Any, fields: Iterable[str]) -> Program:
    """A program that says what a batch has, where nothing could be recorded."""
    program = Program()
    program.name = name
    block = program.global_block()
    for name, tensor in zip(fields, tensors_of(first, fields), strict=True):
        block.create_var(name, list(tensor.shape), as_dtype(tensor.dtype), is_data=True)
    return program
