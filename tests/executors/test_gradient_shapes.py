"""Gradients that are not shaped as what they are gradients of, and saved programs with a changed backward op."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.ops.case import specs_of
from tests.ops.test_cases import CASES
from workbench import static
from workbench.config import override
from workbench.errors import DtypeError, EnforceNotMet, InvalidArgument, ShapeError
from workbench.framework.op import grad_op
from workbench.framework.op.record import OPS, find_op, flat
from workbench.framework.text.serialize import program_from_dict, program_to_dict
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec
from workbench.runtime.footprint import OutOfBounds
from workbench.runtime.native import blocks, tape

F = wb.nn.functional
Body = Callable[[Any], Any]

BODIES: dict[str, Body] = {
    "fc": lambda x: static.nn.fc(x, 16, bias_attr=False),
    "softmax": F.softmax,
    "layer_norm": lambda x: static.nn.layer_norm(x),
    "mean of rows": lambda x: wb.mean(x, axis=1),
    "tanh": wb.tanh,
    "gather": lambda x: wb.gather(x, wb.zeros([3], "int64"), axis=1),
    "cross entropy": lambda x: F.softmax_with_cross_entropy(x, F.softmax(x), soft_label=True),
    "max pool": lambda x: F.max_pool2d(wb.reshape(x, [-1, 1, 4, 4]), 2, 2),
    "average pool": lambda x: F.avg_pool2d(wb.reshape(x, [-1, 1, 4, 4]), 3, 1),
    "convolution": lambda x: static.nn.conv2d(wb.reshape(x, [-1, 1, 4, 4]), 3, 3, bias_attr=False),
    "matmul": lambda x: wb.matmul(x, x, transpose_y=True),
    "transpose": lambda x: wb.transpose(x, [1, 0]),
}


def _with_gradient(body: Body, rows: int, others: int) -> tuple[Any, dict[str, np.ndarray], Any]:
    """A program, a feed of so many rows and of a gradient with others, and the gradient that follows from it."""
    with Built() as built:
        x = static.data("x", [None, 16])
        x.stop_gradient = False
        y = body(x)
        g = static.data("g", list(y.shape))
        (slope,) = static.gradients([y], [x], target_gradients=[g])
    shape = [others if dim < 0 else dim for dim in y.shape]
    return built, {"x": np.ones((rows, 16), np.float32), "g": np.ones(shape, np.float32)}, slope


def _started(built: Any) -> Any:
    scope = static.Scope()
    if built.startup.global_block().ops:
        static.Executor().run(built.startup, scope=scope)
    return scope


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("rows", [(4, 5000), (5000, 4)])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_gradient_with_other_rows_is_refused(body: Body, rows: tuple[int, int], native: bool) -> None:
    if body is BODIES["matmul"]:
        rows = (min(rows[0], 40), min(rows[1], 40))
    built, feed, slope = _with_gradient(body, *rows)
    scope = _started(built)
    with override(cpu_tape=native), pytest.raises(InvalidArgument, match=r"_grad.*must have the shape of"):
        static.Executor().run(static.CompiledProgram(built.main), feed=feed, fetch_list=[slope], scope=scope)


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("name", ["gather", "max pool", "average pool", "convolution"])
def test_rows_of_the_tape_are_checked_whatever_the_shapes_are_thought_to_be(name: str, monkeypatch: Any) -> None:
    """Without the rule above: what is too short is not read beyond its end."""
    monkeypatch.setattr(grad_op, "_require_outputs", lambda *given: None)
    refused: list[str] = []
    for module in (tape, blocks):
        monkeypatch.setattr(module, "pointed", partial(_noting, refused))
    built, feed, slope = _with_gradient(BODIES[name], 5000, 4)
    scope = _started(built)
    with suppress(EnforceNotMet):  # calls may know what to do with it
        static.Executor().run(static.CompiledProgram(built.main), feed=feed, fetch_list=[slope], scope=scope)
    assert refused


_POINTED = tape.pointed


def _noting(refused: list[str], kernel: str, *given: Any) -> int:
    try:
        return _POINTED(kernel, *given)
    except OutOfBounds:
        refused.append(kernel)
        raise


# One rule for all backward ops

_DIFFERENTIABLE = {
    case.type: case
    for case in CASES
    if case.type in OPS and case.op.differentiable and case.differentiated() and not case.op.sparse
}


@pytest.mark.parametrize("kind", sorted(_DIFFERENTIABLE))
def test_every_backward_op_asks_for_what_its_op_makes(kind: str) -> None:
    case = _DIFFERENTIABLE[kind]
    ins = specs_of(case.arrays("float32"))
    specs = case.op.infer(*ins, **case.full_attrs)
    outs = (specs,) if len(case.op.outputs) == 1 else tuple(specs)
    saved = [spec for slot, spec in zip(case.op.outputs, outs, strict=True) if slot.name in case.op.saved]
    backward = find_op(case.op.grad_type)
    backward.infer(*ins, *saved, *outs, **case.full_attrs)
    for at, spec in enumerate(outs):
        for change, error in ((_longer, ShapeError), (_flatter, ShapeError), (_integer, DtypeError)):
            if spec is not None:
                given = [*outs[:at], _changed(spec, change), *outs[at + 1 :]]
                with pytest.raises(error):
                    backward.infer(*ins, *saved, *given, **case.full_attrs)
    for at, spec in enumerate(saved):
        if spec is None:
            continue
        given = [*saved[:at], _changed(spec, _longer), *saved[at + 1 :]]
        with pytest.raises(ShapeError):
            backward.infer(*ins, *given, *outs, **case.full_attrs)


def _changed(spec: Any, change: Callable[[Spec], Spec]) -> Any:
    return [change(spec[0]), *spec[1:]] if isinstance(spec, list) else change(spec)


def _longer(spec: Spec) -> Spec:
    return spec.with_shape([d + 1 for d in spec.shape] or [2])


def _flatter(spec: Spec) -> Spec:
    return spec.with_shape([*spec.shape, 1])


def _integer(spec: Spec) -> Spec:
    return spec.with_dtype(as_dtype("int32" if spec.dtype.name != "int32" else "float32"))


def test_what_is_unknown_yet_is_let_through() -> None:
    x, g = (Spec(shape, as_dtype("float32")) for shape in ((-1, 3), (4, -1)))
    assert list(flat([find_op("tanh_grad").infer(x, x, g)])) == [x]


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("batch_norm_grad_sums", ["4 3 2", "3", "3"], []),
        ("batch_norm_grad_with_sums", ["4 3 2", "3", "3", "3", "3"], ["float64 3 3", "float64 3 3"]),
        ("distributed_lookup_table_grad", [None, "int64 4 3"], []),
    ],
)
def test_backward_ops_written_by_hand_ask_for_the_same(kind: str, before: list[Any], after: list[Any]) -> None:
    record = find_op(kind)
    for shape, is_right in (("4 3 2", True), ("1 3 2", False), ("4 3 2 1", False)):
        specs = [text and _spec(text) for text in (*before, shape, *after)]
        attrs = record.attrs | ({"height": 9} if "height" in record.attrs else {"data_layout": "NCHW"})
        if is_right:
            record.infer(*specs, **attrs)
            continue
        with pytest.raises(ShapeError, match="@GRAD must have the shape of"):
            record.infer(*specs, **attrs)


def _spec(text: str) -> Spec:
    words = text.split()
    dtype = words.pop(0) if not words[0].isdigit() else "float32"
    return Spec(tuple(map(int, words)), as_dtype(dtype))


# Saved programs


def conv_net() -> tuple[dict[str, Any], Any, str]:
    """A program as a document, what it starts from, and the gradient that is fetched."""
    with Built() as built:
        x = static.data("x", [None, 2, 8, 8])
        x.stop_gradient = False
        h = static.nn.conv2d(x, 3, 3, padding=1, bias_attr=False)
        y = static.nn.fc(static.nn.layer_norm(h, begin_norm_axis=1), 4, bias_attr=False)
        slope, *_ = static.gradients([wb.mean(y)], [x, *built.main.all_parameters()])
    return program_to_dict(built.main), built.startup, slope.name


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        ("mul_grad", "y_num_col_dims", -2), ("mul_grad", "x_num_col_dims", 3), ("conv2d_grad", "groups", 2),
        ("conv2d_grad", "paddings", [0, 0, 0, 0]), ("conv2d_grad", "strides", [2, 2]),
        ("layer_norm_grad", "begin_norm_axis", 3), ("layer_norm_grad", "begin_norm_axis", 0),
    ],
)  # fmt: skip
def test_a_saved_program_with_a_changed_attribute_is_refused(kind: str, attribute: str, value: Any) -> None:
    document, startup, name = conv_net()
    operators = document["blocks"][0]["operators"]
    (op,) = [op for op in operators if op["type"] == kind]
    assert attribute in op["attrs"]
    op["attrs"][attribute] = value
    _require_refused(document, startup, name, kind)


@pytest.mark.parametrize("kind", ["mul_grad", "conv2d_grad", "layer_norm_grad"])
def test_a_saved_program_with_a_renamed_gradient_is_refused(kind: str) -> None:
    document, startup, name = conv_net()
    operators = document["blocks"][0]["operators"]
    (op,) = [op for op in operators if op["type"] == kind]
    (slot,) = [s for s in op["inputs"] if s.endswith("@GRAD")]
    op["inputs"][slot] = ["x"] if kind != "conv2d_grad" else op["inputs"]["Filter"]
    _require_refused(document, startup, name, kind)


@pytest.mark.parametrize("slot", ["Scale", "Bias"])
def test_the_gradient_of_an_input_that_is_not_given_is_refused(slot: str) -> None:
    """Nobody would write it, and whoever reads it would get what the memory held before."""
    document, startup, name = conv_net()
    (op,) = [op for op in document["blocks"][0]["operators"] if op["type"] == "layer_norm_grad"]
    del op["inputs"][slot]
    _require_refused(document, startup, name, f"layer_norm_grad.*{slot}@GRAD.*{slot}, which is not given")


def _require_refused(document: Any, startup: Any, name: str, kind: str) -> None:
    feed = {"x": np.ones((4, 2, 8, 8), np.float32)}
    for native in (False, True):
        scope = static.Scope()
        static.Executor().run(startup, scope=scope)
        with override(cpu_tape=native), pytest.raises(InvalidArgument, match=kind):
            program = static.CompiledProgram(program_from_dict(json.loads(json.dumps(document))))
            static.Executor().run(program, feed=feed, fetch_list=[name], scope=scope)


def test_ops_that_were_joined_are_each_asked() -> None:
    """One of several element-wise ops gets a gradient that would broadcast."""
    with Built() as built:
        x = static.data("x", [None, 3])
        x.stop_gradient = False
        y = wb.tanh(wb.scale(wb.tanh(x), 2.0))
        g = static.data("g", [None, 3])
        (slope,) = static.gradients([y], [x], target_gradients=[g])
    feed = {"x": np.ones((1, 3), np.float32), "g": np.ones((5, 3), np.float32)}
    for native in (False, True):
        with override(cpu_tape=native), pytest.raises(InvalidArgument, match="tanh_grad"):
            static.Executor().run(static.CompiledProgram(built.main), feed=feed, fetch_list=[slope])


# Inside of control flow, and where sizes are known only when the program runs


def _branch(body: Body) -> Body:
    return lambda x: static.nn.cond(wb.mean(x) > 0, lambda: body(x), lambda: -x)


def _loop(body: Body) -> Body:
    def looped(x: Any) -> Any:
        i, n = wb.full([1], 0, "int64"), wb.full([1], 2, "int64")
        return static.nn.while_loop(lambda i, h: i < n, lambda i, h: [i + 1, body(h)], [i, x])[1]

    return looped


def _twice(x: Any) -> Any:
    return wb.concat([x, x])


FLOW: dict[str, Body] = {
    "branch": _branch(wb.exp),
    "identity in a branch": _branch(lambda x: x),
    "loop": _loop(wb.exp),
    "matrix product in a loop": _loop(BODIES["fc"]),
    "branch in a loop": _loop(_branch(wb.tanh)),
    "loop in a branch": _branch(_loop(wb.tanh)),
    "branches of two sizes": lambda x: static.nn.cond(wb.mean(x) > 0, lambda: _twice(x), lambda: x),
    "behind branches of two sizes": lambda x: wb.exp(static.nn.cond(wb.mean(x) > 0, lambda: _twice(x), lambda: x * 2)),
    "growing in a loop": _loop(_twice),
}
_ROWS = {"branches of two sizes": 8, "behind branches of two sizes": 8, "growing in a loop": 16}  # of the 4 rows of x
_WAYS: dict[str, dict[str, Any]] = {
    "kernels": {"cpu_tape": True}, "calls": {"cpu_tape": False}, "reference": {"executor": "reference"},
}  # fmt: skip


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("name", FLOW)
def test_a_gradient_of_control_flow_with_other_rows_is_refused(name: str, way: str) -> None:
    body, rows = FLOW[name], _ROWS.get(name, 4)
    for others in (rows, 1, rows + 1):
        built, feed, slope = _with_gradient(body, 4, others)
        scope = _started(built)
        with override(**_WAYS[way]):
            run = partial(static.Executor().run, built.main, feed=feed, fetch_list=[slope], scope=scope)
            if others == rows:
                assert run()[0].shape == (4, 16)
                continue
            with pytest.raises(InvalidArgument, match=r"Out@GRAD must have the shape of Out\n") as caught:
                run()
        assert f"expected: [{rows}, 16]\n  got:      [{others}, 16]" in str(caught.value)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_reference_refuses_a_gradient_with_other_rows(body: Body) -> None:
    built, feed, slope = _with_gradient(body, 4, 1)
    scope = _started(built)
    with override(executor="reference"), pytest.raises(InvalidArgument, match=r"_grad.*must have the shape of"):
        static.Executor().run(built.main, feed=feed, fetch_list=[slope], scope=scope)
