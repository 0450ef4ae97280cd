"""The programs mutants are made of: one per case of an op, with its gradients, and models that train."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple

import numpy as np

import workbench as wb
from tests.ops.case import Case, is_rows, specs_of, with_unknown
from tests.ops.test_cases import CASES
from tests.parallel import models, random_models
from workbench import static
from workbench.framework.names import guard
from workbench.framework.op.record import flat
from workbench.framework.program.guard import static_mode
from workbench.framework.program.infer import infer_specs
from workbench.framework.text.serialize import program_to_dict

F = wb.nn.functional
_OFTEN = 60  # models are this many times as likely as a case


class Seed(NamedTuple):
    """A program that runs.

    Attributes:
        document: as `program_to_dict` gives it. given: what may be fed or is in the scope, by name. loss: its name.
    """

    name: str
    document: dict[str, Any]
    given: dict[str, np.ndarray]
    loss: str | None = None


def seeds() -> list[Callable[[], Seed]]:
    """What makes each program, the same list every time."""
    usable = [case for case in CASES if not any(map(is_rows, case.inputs))]
    of_cases = [partial(_of_case, case, unknown) for case in usable for unknown in (False, True)]
    return [*of_cases, *MODELS * _OFTEN, *(partial(_random_model, n) for n in range(200))]


@cache
def seed(number: int) -> Seed | None:
    """A program; None of a case that is no program by itself."""
    makers = seeds()
    try:
        with static_mode():
            return makers[number % len(makers)]()
    except wb.errors.EnforceNotMet:
        return None


def _of_case(case: Case, unknown: bool) -> Seed:
    arrays, program, given = case.arrays("float32"), static.Program(), {}
    specs = with_unknown(case, specs_of(arrays), lambda axis: unknown and axis == 0)
    with static.program_guard(program, static.Program()), guard():
        block, inputs = program.global_block(), {}
        for slot, array, spec in zip(case.op.inputs, arrays, specs, strict=True):
            one = isinstance(array, np.ndarray)
            arrays_of, specs_of_slot = ([array], [spec]) if one else (array or (), spec or ())
            for n, (a, s) in enumerate(zip(arrays_of, specs_of_slot, strict=True)):
                name = f"{slot.name.lower()}_{n}"
                variable = static.data(name, list(s.shape), s.dtype.name)
                variable.stop_gradient = slot.name in case.op.no_grad or not s.dtype.is_float
                given[name] = np.array(a)
                inputs.setdefault(slot.name, []).append(variable)
        names = {slot: [v.name for v in variables] for slot, variables in inputs.items()}
        results = infer_specs(case.op, block, names, case.full_attrs, None)
        outputs = {
            slot.name: [block.create_var(f"{slot.name.lower()}_out_{n}") for n, _ in enumerate(flat([output]))]
            for slot, output in zip(case.op.outputs, results, strict=True)
        }
        block.append_op(case.type, inputs, outputs, case.attrs)
        if case.differentiated():
            _differentiate(block, inputs, outputs, given)
    return Seed(case.label, program_to_dict(program), given)


def _differentiate(block: Any, inputs: dict[str, Any], outputs: dict[str, Any], given: dict[str, Any]) -> None:
    ys = [v for vs in outputs.values() for v in vs if v.dtype.is_float and v.shape]
    gs = [static.data(f"{y.name}_weight", list(y.shape)) for y in ys]
    xs = [v for vs in inputs.values() for v in vs if v.dtype.is_float and not v.stop_gradient]
    if xs and ys:
        static.gradients(ys, xs, target_gradients=gs)


def _model(name: str, model: models.Model, given: dict[str, np.ndarray]) -> Seed:
    static.Executor().run(model.startup, scope=model.scope)
    return Seed(name, program_to_dict(model.main), {**model.values(), **given}, model.loss.name)


def _classifier() -> Seed:
    return _model("classifier", models.classifier(wb.optimizer.Adam(0.01)), models.batch(6))


def _images() -> Seed:
    def body() -> Any:
        x, y = static.data("x", [None, 2, 8, 8]), static.data("y", [None, 1], "int64")
        h = static.nn.conv2d(x, 4, 3, padding=1, act="relu")
        h = F.max_pool2d(static.nn.batch_norm(h), 2, 2)
        h = F.avg_pool2d(static.nn.conv2d(h, 3, 3), 2, 1)
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((4, 2, 8, 8), np.float32), "y": rng.integers(0, 3, (4, 1))}
    return _model("images", models.build(body, wb.optimizer.Momentum(0.01)), given)


def _norms() -> Seed:
    def body() -> Any:
        x, y = static.data("x", [None, 12]), static.data("y", [None, 5])
        h = static.nn.layer_norm(static.nn.fc(x, 10, activation="tanh"))
        h = F.dropout(F.softmax(static.nn.fc(h, 5)), 0.2)
        return wb.mean(F.square_error_cost(h, y))

    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((4, 12), np.float32), "y": rng.standard_normal((4, 5), np.float32)}
    return _model("norms", models.build(body, wb.optimizer.SGD(0.1)), given)


def _sequence() -> Seed:
    def body() -> Any:
        ids, y = static.data("ids", [None, 6], "int64"), static.data("y", [None, 6, 4])
        h = static.nn.embedding(ids, [9, 4])
        scores = F.softmax(wb.matmul(h, wb.transpose(h, [0, 2, 1])))
        h = wb.concat([wb.matmul(scores, h), h], axis=2)
        return wb.mean(F.square_error_cost(static.nn.fc(h, 4, num_flatten_dims=2), y))

    rng = np.random.default_rng(0)
    given = {"ids": rng.integers(0, 9, (3, 6)), "y": rng.standard_normal((3, 6, 4), np.float32)}
    return _model("sequence", models.build(body, wb.optimizer.SGD(0.1)), given)


def _tables() -> Seed:
    def body() -> Any:
        ids, y = static.data("ids", [None, 6], "int64"), static.data("y", [None, 6, 4])
        table = wb.ParamAttr("table")
        read = [static.nn.embedding(ids, [9, 4], True, padding_idx=p, param_attr=table) for p in (None, 2)]
        h = wb.concat([*read, static.nn.embedding(ids, [12, 4], True)], axis=2)
        return wb.mean(F.square_error_cost(static.nn.fc(h, 4, num_flatten_dims=2), y))

    rng = np.random.default_rng(0)
    given = {"ids": rng.integers(0, 9, (3, 6)), "y": rng.standard_normal((3, 6, 4), np.float32)}
    clip = wb.nn.ClipGradByGlobalNorm(0.5)
    return _model("tables", models.build(body, wb.optimizer.Adam(0.1, lazy_mode=True, grad_clip=clip)), given)


def _random_model(number: int) -> Seed:
    random = Random(number)
    model = random_models.random_model(random, random.randint(2, 8))
    return _model(f"random {number}", model, random_models.feed(number, 5))


MODELS = [_classifier, _images, _norms, _sequence, _tables]
