"""Steps of dynamic mode: the numbers of the static program, states by the same names, and what may go wrong."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.optimizer.stepping import trained
from workbench import facade, optimizer
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue, initializer
from workbench.optimizer import lr
from workbench.regularizer import L1Decay, L2Decay

OPTIMIZERS: dict[str, Callable[..., optimizer.Optimizer]] = {
    "sgd": lambda **kw: optimizer.SGD(0.05, **kw),
    "momentum": lambda **kw: optimizer.Momentum(0.05, 0.8, **kw),
    "nesterov": lambda **kw: optimizer.Momentum(0.05, 0.8, use_nesterov=True, **kw),
    "adam": lambda **kw: optimizer.Adam(0.05, 0.7, 0.95, 0.1, **kw),
    "adamw": lambda **kw: optimizer.AdamW(0.05, 0.7, 0.95, 0.1, **{"weight_decay": 0.3, **kw}),
    "adamax": lambda **kw: optimizer.Adamax(0.05, 0.7, 0.95, 0.1, **kw),
    "adagrad": lambda **kw: optimizer.Adagrad(0.05, 0.1, initial_accumulator_value=0.25, **kw),
    "rmsprop": lambda **kw: optimizer.RMSProp(0.05, 0.9, 0.1, 0.5, **kw),
    "rmsprop-centred": lambda **kw: optimizer.RMSProp(0.05, 0.9, 0.1, 0.5, True, **kw),
    "adadelta": lambda **kw: optimizer.Adadelta(0.5, 0.1, 0.7, **kw),
    "lamb": lambda **kw: optimizer.Lamb(0.05, 0.3, 0.7, 0.95, 0.1, **kw),
}
VARIANTS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "global norm": lambda: {"grad_clip": ClipGradByGlobalNorm(0.5)},
    "norm": lambda: {"grad_clip": ClipGradByNorm(0.5)},
    "value": lambda: {"grad_clip": ClipGradByValue(0.5)},
    "l2": lambda: {"weight_decay": L2Decay(0.3)},
    "l1": lambda: {"weight_decay": L1Decay(0.3), "grad_clip": ClipGradByValue(0.5)},
}
VALUES = {"a": np.array([[1.0, -2.0], [0.5, 3.0]]), "b": np.array([0.25, -1.5])}
ATTRS = {"b": {"learning_rate": 0.5, "regularizer": L2Decay(0.1), "need_clip": False}}
rng = np.random.default_rng(5)
GRADIENTS = [{name: rng.standard_normal(value.shape) for name, value in VALUES.items()} for _ in range(4)]


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    with wb.utils.unique_name.guard():
        yield


def parameters(values: dict[str, np.ndarray] = VALUES, **attrs: Any) -> dict[str, Any]:
    """Parameters of dynamic mode with given values."""
    return {
        name: wb.create_parameter(
            value.shape,
            value.dtype,
            attr=wb.ParamAttr(name=name, initializer=initializer.Assign(value), **attrs.get(name, {})),
        )
        for name, value in values.items()
    }


def step(opt: optimizer.Optimizer, weights: dict[str, Any], gradients: dict[str, np.ndarray]) -> None:
    """One step with given gradients."""
    for name, gradient in gradients.items():
        (weights[name] * wb.to_tensor(gradient)).sum().backward()
    opt.step()
    opt.clear_grad()


def steps(opt: optimizer.Optimizer, weights: dict[str, Any], gradients: Any = GRADIENTS) -> list[dict[str, np.ndarray]]:
    """The values after every step."""
    values = []
    for given in gradients:
        step(opt, weights, given)
        values.append({name: p.numpy() for name, p in weights.items()})
    return values


def test_every_optimizer_has_a_row() -> None:
    """But for LBFGS, which searches lines in dynamic mode alone and has no op."""
    offered = facade.names(facade.offered("workbench.optimizer"))
    assert {type(make()).__name__ for make in OPTIMIZERS.values()} == offered.keys() - {"LBFGS"}


def takes_regularizer(kind: type[optimizer.Optimizer]) -> bool:
    """Whether the argument `weight_decay` is that of all optimizers, and not a decay of its own."""
    own = kind.options["weight_decay"] is not optimizer.Optimizer.options["weight_decay"]
    return "weight_decay" in inspect.signature(kind).parameters and not own


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_computes_what_the_static_program_does(name: str, variant: str) -> None:
    options = VARIANTS[variant]()
    if not takes_regularizer(type(OPTIMIZERS[name]())):
        options.pop("weight_decay", None)
    session, main = trained(OPTIMIZERS[name](**options), VALUES, **ATTRS)
    weights = parameters(**ATTRS)
    opt = OPTIMIZERS[name](parameters=list(weights.values()), **options)
    for given in GRADIENTS:
        session.run([], **{f"g_{name}": g for name, g in given.items()})
        step(opt, weights, given)
        for key, parameter in weights.items():
            np.testing.assert_array_max_ulp(parameter.numpy(), session.value(key), maxulp=8)
    states = {v.name for v in main.persistables() if not v.is_parameter and "learning_rate" not in v.name}
    assert set(opt.state_dict()) == states
    for state, tensor in opt.state_dict().items():
        np.testing.assert_allclose(tensor.numpy(), session.value(state), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_state_goes_on_exactly(name: str, tmp_path: Path) -> None:
    def make(weights: dict[str, Any]) -> optimizer.Optimizer:
        opt = OPTIMIZERS[name](parameters=list(weights.values()))
        opt.set_lr_scheduler(lr.StepDecay(0.1, step_size=1, gamma=0.5))
        return opt

    weights = parameters()
    opt = make(weights)
    steps(opt, weights, GRADIENTS[:2])
    opt._learning_rate.step()
    wb.save(opt.state_dict(), tmp_path / "opt")
    again = parameters({key: p.numpy() for key, p in weights.items()})
    other = make(again)
    other.set_state_dict(wb.load(tmp_path / "opt"))
    assert other.get_lr() == 0.05 == opt.get_lr()
    for left, right in zip(steps(opt, weights, GRADIENTS[2:]), steps(other, again, GRADIENTS[2:])):
        assert all(np.array_equal(left[key], right[key]) for key in left)


def test_a_state_can_be_set_in_the_middle() -> None:
    weights = parameters()
    opt = OPTIMIZERS["momentum"](parameters=list(weights.values()))
    steps(opt, weights, GRADIENTS[:1])
    kept = {key: tensor.numpy() for key, tensor in opt.state_dict().items()}
    steps(opt, weights, GRADIENTS[1:])
    opt.set_state_dict(kept)
    assert all(np.array_equal(tensor.numpy(), kept[key]) for key, tensor in opt.state_dict().items())
    with pytest.raises(InvalidArgument, match=r"a_velocity_\d+' has another shape\n  expected: \[2, 2\]"):
        opt.set_state_dict({next(key for key in kept if key.startswith("a_")): np.zeros(3)})
    assert all(np.array_equal(tensor.numpy(), kept[key]) for key, tensor in opt.state_dict().items())


def test_rates() -> None:
    weights = parameters({"w": np.zeros(1)})
    schedule = lr.PiecewiseDecay([1, 2], [1.0, 10.0, 100.0])
    opt = optimizer.SGD(schedule, parameters=list(weights.values()))
    for _ in range(3):
        step(opt, weights, {"w": np.array([1.0])})
        schedule.step()
    assert weights["w"].numpy() == pytest.approx([-111.0])
    with pytest.raises(RuntimeError, match="comes from a schedule"):
        opt.set_lr(0.1)
    constant = optimizer.SGD(1.0, parameters=list(weights.values()))
    step(constant, weights, {"w": np.array([1.0])})
    constant.set_lr(0.5)
    step(constant, weights, {"w": np.array([1.0])})
    assert weights["w"].numpy() == pytest.approx([-112.5]) and constant.get_lr() == 0.5
    with pytest.raises(InvalidType, match=r"optimizer.lr schedule, got 0.1"):
        constant.set_lr_scheduler(0.1)


def test_groups() -> None:
    weights = parameters({name: np.array([2.0]) for name in "abc"})
    groups = [
        {"params": [weights["a"]], "learning_rate": 0.5, "weight_decay": 0.0},
        {"params": weights["b"], "momentum": 0.0, "grad_clip": ClipGradByValue(0.25)},
        {"params": [weights["c"]]},
    ]
    opt = optimizer.Momentum(0.1, 0.9, groups, weight_decay=0.5)
    values = steps(opt, weights, [{name: np.array([1.0]) for name in "abc"}] * 2)[-1]
    assert values["a"][0] == pytest.approx(2 - 0.05 * 1 - 0.05 * 1.9)
    b, c = 2 - 0.1 * (0.25 + 1.0), 2 - 0.1 * 2.0
    assert values["b"][0] == pytest.approx(b - 0.1 * (0.25 + 0.5 * b))
    assert values["c"][0] == pytest.approx(c - 0.1 * (0.9 * 2.0 + 1 + 0.5 * c))


def test_states_are_in_the_order_of_the_names_whatever_the_order_of_the_parameters() -> None:
    weights = [wb.create_parameter([2], "float32", name=name) for name in ("c", "a", "b")]
    adam = optimizer.Adam(0.1, parameters=weights)
    sum((w * w).sum() for w in weights).backward()
    adam.step()
    moments = [name[0] for name in adam.state_dict() if "moment1" in name]
    assert moments == ["a", "b", "c"]


def test_a_state_without_a_schedule_leaves_the_schedule_alone() -> None:
    w = wb.create_parameter([2], "float32")
    schedule = lr.StepDecay(0.5, step_size=1, gamma=0.1)
    adam = optimizer.Adam(schedule, parameters=[w])
    schedule.step()
    adam.set_state_dict(optimizer.Adam(0.1, parameters=[w]).state_dict())
    assert adam.get_lr() == pytest.approx(0.05)


def test_parameters_of_both_modes_are_no_parameters_of_dynamic_mode() -> None:
    mixed = optimizer.SGD(0.1, parameters=[wb.create_parameter([2], "float32"), "fc_0.w_0"])
    with pytest.raises(PreconditionNotMet, match=r"SGD\.step\(\) works in dynamic mode only"):
        mixed.step()


@pytest.mark.parametrize("is_captured", [False, True])
def test_one_clip_takes_the_norm_of_each_group_by_itself(is_captured: bool) -> None:
    """As Paddle 2.6 does: the groups have gradients (3, 4) and (12), of norms 5 and 12, and not of one norm 13."""
    weights = parameters({name: np.array([0.0]) for name in "abc"})
    groups = [{"params": [weights["a"], weights["b"]]}, {"params": [weights["c"]]}]
    opt = optimizer.SGD(1.0, parameters=groups, grad_clip=ClipGradByGlobalNorm(1.0))

    def step(factor: Any) -> None:
        loss = (weights["a"] * 3.0 + weights["b"] * 4.0 + weights["c"] * 12.0) * factor
        loss.sum().backward()
        opt.step()
        opt.clear_grad()

    run = wb.jit.capture(step) if is_captured else step
    for count in (1, 2, 3):
        run(wb.to_tensor([1.0]))
        values = [weights[name].item() for name in "abc"]
        np.testing.assert_allclose(values, [-0.6 * count, -0.8 * count, -1.0 * count], rtol=1e-5)


def test_minimize_updates_from_the_gradients_there_are() -> None:
    weights = parameters({"w": np.array([1.0]), "frozen": np.array([1.0]), "unused": np.array([1.0])})
    weights["frozen"].stop_gradient = True
    opt = optimizer.SGD(0.25, parameters=list(weights.values()))
    loss = (weights["w"] * weights["frozen"] * 2.0).sum()
    loss.backward()
    ops, pairs = opt.minimize(loss)
    assert ops == [] and [(p.name, g.numpy().tolist()) for p, g in pairs] == [("w", [2.0])]
    assert [p.numpy().tolist() for p in weights.values()] == [[0.5], [1.0], [1.0]]
    opt.clear_grad()
    assert weights["w"].grad.numpy().tolist() == [0.0]
    opt.clear_gradients(set_to_zero=False)
    assert weights["w"].grad is None
    opt.step()
    assert weights["w"].numpy().tolist() == [0.5]


def test_a_step_records_nothing() -> None:
    weights = parameters()
    opt = optimizer.Adam(0.1, parameters=list(weights.values()), weight_decay=0.1, grad_clip=ClipGradByGlobalNorm(1.0))
    steps(opt, weights, GRADIENTS[:1])
    assert all(p.is_leaf and not p.stop_gradient for p in weights.values())
    assert all(tensor.stop_gradient and tensor.is_leaf for tensor in opt.state_dict().values())


def test_what_was_computed_before_a_step_cannot_go_back_through_it() -> None:
    weights = parameters({"w": np.array([3.0])})
    loss = (weights["w"] * weights["w"]).sum()
    loss.backward(retain_graph=True)
    optimizer.SGD(0.1, parameters=list(weights.values())).step()
    with pytest.raises(PreconditionNotMet, match="sgd"):
        loss.backward()


@pytest.mark.parametrize("name", ["sgd", "adagrad", "momentum", "adam"])
@pytest.mark.parametrize("clipped", [False, True])
def test_sparse_gradients_are_those_of_the_dense_table(name: str, clipped: bool) -> None:
    table, rows = rng.standard_normal((6, 3)), np.array([[4, 1], [1, 5]])
    results = []
    for sparse in (False, True):
        weights = parameters({"w": table})
        options = {"grad_clip": ClipGradByGlobalNorm(0.5)} if clipped else {}
        opt = OPTIMIZERS[name](parameters=list(weights.values()), **options)
        for _ in range(3):
            embedded = wb.nn.functional.embedding(wb.to_tensor(rows), weights["w"], sparse=sparse)
            (embedded * embedded).sum().backward()
            assert weights["w"].grad.is_selected_rows() is sparse
            opt.step()
            opt.clear_grad(set_to_zero=False)
        results.append(weights["w"].numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-12)


def test_float32_copies_of_half_precision() -> None:
    weights = parameters({"w": np.array([1.0, 2.0], np.float16)})
    opt = optimizer.Adam(1e-4, parameters=list(weights.values()), multi_precision=True)
    for _ in range(30):
        (weights["w"] * wb.to_tensor(np.array([1.0, 2.0], np.float16))).sum().backward()
        opt.step()
        opt.clear_grad()
    state = opt.state_dict()
    assert state["master_weights"]["w"].numpy() == pytest.approx(np.float32([1 - 3e-3, 2 - 3e-3]), rel=1e-5)
    assert weights["w"].numpy().tolist() == np.float16([1 - 3e-3, 2 - 3e-3]).tolist()
    again = parameters({"w": weights["w"].numpy()})
    other = optimizer.Adam(1e-4, parameters=list(again.values()), multi_precision=True)
    other.set_state_dict(state)
    for both, held in ((opt, weights), (other, again)):
        (held["w"] * wb.to_tensor(np.array([1.0, 2.0], np.float16))).sum().backward()
        both.step()
    masters = [both.state_dict()["master_weights"]["w"].numpy().tolist() for both in (opt, other)]
    assert masters[0] == masters[1]


def test_a_parameter_that_changes_its_array_is_followed() -> None:
    """`layer.to(dtype)` and loading put another array into a parameter."""
    weights = parameters({"w": np.array([1.0, 2.0])})
    opt = optimizer.SGD(0.5, parameters=list(weights.values()))
    step(opt, weights, {"w": np.array([1.0, 1.0])})
    weights["w"].set_value(np.array([10.0, 20.0]))
    step(opt, weights, {"w": np.array([1.0, 1.0])})
    weights["w"]._put(np.array([100.0, 200.0]))
    step(opt, weights, {"w": np.array([1.0, 1.0])})
    assert weights["w"].numpy().tolist() == [99.5, 199.5]


def test_steps_leave_nothing_behind() -> None:
    weights = parameters()
    opt = optimizer.Adam(
        0.01, parameters=list(weights.values()), grad_clip=ClipGradByGlobalNorm(1.0), weight_decay=0.01
    )
    steps(opt, weights)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(alive, wb.Tensor) for alive in gc.get_objects())
        cycles = []
        for _ in range(3):  # what other tests of this process leave may come in between
            steps(opt, weights, GRADIENTS * 5)
            cycles.append(gc.collect())
        after = sum(isinstance(alive, wb.Tensor) for alive in gc.get_objects())
        assert after <= before and min(cycles) == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: optimizer.SGD(0.1).step(), PreconditionNotMet, r"parameters=layer.parameters\(\)"),
        (lambda: optimizer.SGD(0.1, parameters=[1.0]), InvalidType, "got 1.0 in the list"),
        (lambda: optimizer.SGD(0.1, parameters=wb.zeros([2])), InvalidType, "takes a list"),
        (lambda: optimizer.SGD(0.1, parameters=[]).set_state_dict([1]), InvalidType, "takes a dict"),
        (
            lambda: optimizer.SGD(lr.StepDecay(0.1, 2), parameters=[]).set_state_dict({"LR_Scheduler": {"best": 1}}),
            InvalidArgument,
            "not a state of StepDecay",
        ),
    ],
)
def test_wrong_input_is_named(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    "name", ["SGD", "Momentum", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSProp", "Lamb"]
)
def test_a_step_that_fails_changes_nothing(name: str) -> None:
    first, second = (wb.create_parameter([2], "float32") for _ in range(2))
    optimizer = getattr(wb.optimizer, name)(learning_rate=0.1, parameters=[first, second])
    (first * second).sum().backward()
    optimizer.step()
    held = [first, second, *optimizer.state_dict().values()]
    before = [t.numpy() for t in held]
    second._grad = wb.ones([3])
    with pytest.raises(
        ValueError, match=rf"{name}: the gradient of '{second.name}'(.|\n)*\[2\](.|\n)*\[3\](.|\n)*line"
    ):
        optimizer.step()
    assert all(np.array_equal(t.numpy(), b) for t, b in zip(held, before, strict=True))
