"""Rows of layer classes: how one is made and called, and an independent answer.

`test_rows.py` runs every check on every row of every file in `rows/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import workbench as wb
from tests.builders.building import program
from workbench.framework.values.place import CPUPlace

Values = Mapping[str, np.ndarray]


@dataclass
class Row:
    """One use of a layer class.

    Attributes:
        make: makes the layer, in the mode that is on.
        inputs: arrays the layer is called with; float64 ones are cast to float32.
        ref: `ref(values, *inputs)` -> the outputs, flat; `values` are the layer's parameters and buffers by name, all
            in float64. Never calls workbench.
        call: how the layer is called.
        training: called as in training.
        known: input dimensions are known when a program is built, the batch too.
        after: `after(values, *inputs)` -> values of parameters and buffers after the call, where it changes them.
        differentiable: gradients are compared.
    """

    make: Callable[[], Any]
    inputs: Sequence[Any]
    ref: Callable[..., Any]
    call: Callable[..., Any] = lambda layer, *inputs: layer(*inputs)
    training: bool = True
    known: bool = False
    after: Callable[..., Values] | None = None
    differentiable: bool = True
    tolerance: dict[str, float] = field(default_factory=lambda: {"rtol": 2e-5, "atol": 2e-6})

    def arrays(self) -> list[np.ndarray]:
        """The inputs as they are fed."""
        given = [np.asarray(x) for x in self.inputs]
        return [x.astype(np.float32) if x.dtype == np.float64 else x for x in given]

    def layer(self) -> Any:
        layer = self.make()
        if not self.training:
            layer.eval()
        return layer


def some_values(layer: Any) -> dict[str, np.ndarray]:
    """A value for every parameter and buffer of a layer; positive for those that are not trained: variances."""
    rng = np.random.default_rng(5)
    by_tensor: dict[int, np.ndarray] = {}
    state = layer.state_dict()
    for tensor in state.values():
        value = rng.standard_normal(tuple(tensor.shape)) * 0.5
        value = value if not tensor.stop_gradient else np.abs(value) + 0.5
        by_tensor.setdefault(id(tensor), value.astype(np.float32))
    return {name: by_tensor[id(tensor)] for name, tensor in state.items()}


def flat(value: Any) -> list[Any]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flat(part)]
    return [value]


def weight(number: int, shape: Sequence[int]) -> np.ndarray:
    """What output `number` is multiplied with before all are summed up."""
    return np.random.default_rng(11 + number).standard_normal(tuple(shape)).astype(np.float32)


@dataclass
class Result:
    """What came of a row: outputs, gradients of inputs (by number) and parameters (by name), values afterwards."""

    outputs: list[np.ndarray]
    gradients: dict[Any, np.ndarray]
    values: dict[str, np.ndarray]


def in_dynamic_mode(row: Row) -> Result:
    layer = row.layer()
    layer.set_state_dict(some_values(layer))
    tensors = [wb.to_tensor(x, place=CPUPlace(), stop_gradient=x.dtype != np.float32) for x in row.arrays()]
    outputs = flat(row.call(layer, *tensors))
    gradients: dict[Any, np.ndarray] = {}
    wanted = [(i, y) for i, y in enumerate(outputs) if not y.stop_gradient]
    if row.differentiable:
        total = sum((y * wb.to_tensor(weight(i, y.shape))).sum() for i, y in wanted)
        total.backward()
        leaves = [*enumerate(tensors), *layer.named_parameters()]
        gradients = {key: leaf.grad.numpy() for key, leaf in leaves if leaf.grad is not None}
    values = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    return Result([y.numpy() for y in outputs], gradients, values)


def declared(row: Row, x: np.ndarray) -> list[int | None]:
    """The shape a program is built for: the batch is not known."""
    return list(x.shape) if row.known or not x.shape else [None, *x.shape[1:]]


def in_static_mode(row: Row, declare: Callable[[Row, np.ndarray], list[int | None]] = declared) -> Result:
    arrays = row.arrays()
    scope = wb.static.Scope()
    with program() as (main, startup), wb.static.scope_guard(scope):
        layer = row.layer()
        feeds = []
        for i, x in enumerate(arrays):
            feeds.append(wb.static.data(f"input_{i}", declare(row, x), str(x.dtype)))
            feeds[-1].stop_gradient = x.dtype != np.float32
        outputs = flat(row.call(layer, *feeds))
        parameters = {name: p for name, p in layer.named_parameters() if not p.stop_gradient}
        leaves = {**{i: x for i, x in enumerate(feeds) if not x.stop_gradient}, **parameters}
        slopes: list[Any] = [None] * len(leaves)
        weights = {f"weight_{i}": weight(i, y) for i, y in enumerate(shapes_of(row)) if is_float(outputs[i])}
        if row.differentiable:
            seeds = [wb.static.data(name, list(value.shape), "float32") for name, value in weights.items()]
            kept = [y for y in outputs if is_float(y)]
            total = wb.add_n([(y * w).sum() for y, w in zip(kept, seeds, strict=True)])
            slopes = wb.static.gradients(total, list(leaves.values()))
        executor = wb.static.Executor()
        if startup.global_block().ops:
            executor.run(startup)
        layer.set_state_dict(some_values(layer))
        state = layer.state_dict()
        fetch = [*outputs, *(g for g in slopes if g is not None)]
        feed = {f"input_{i}": x for i, x in enumerate(arrays)}
        fetched = executor.run(main, feed={**feed, **(weights if row.differentiable else {})}, fetch_list=fetch)
        values = {name: np.array(scope.find_var(v.name).get_tensor()) for name, v in state.items()}
    rest = iter(fetched[len(outputs) :])
    gradients = {key: next(rest) for key, g in zip(leaves, slopes, strict=True) if g is not None}
    return Result(fetched[: len(outputs)], gradients, values)


def shapes_of(row: Row) -> list[tuple[int, ...]]:
    """Shapes of the outputs in static mode, where numbers have shape [1]."""
    wanted = [np.asarray(y) for y in flat(row.ref(reference_values(row), *reference_inputs(row)))]
    return [y.shape or (1,) for y in wanted]


def is_float(tensor: Any) -> bool:
    return tensor.dtype.is_float


def reference_values(row: Row) -> dict[str, np.ndarray]:
    return {name: value.astype(np.float64) for name, value in some_values(row.layer()).items()}


def reference_inputs(row: Row) -> list[np.ndarray]:
    return [x.astype(np.float64) if x.dtype == np.float32 else x for x in row.arrays()]
