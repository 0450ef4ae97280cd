"""Functions and layers that run as programs: the values and gradients of dynamic mode."""

import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.nn.functional as F
from tests.jit.models import LABELS, MODELS, parameters
from workbench import nn
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework.notice import Notice
from workbench.jit.values.captured_tensor import NeedsValue


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1D(8), nn.Linear(8, 2)

    def forward(self, x: Any, scale: float = 2.0) -> Any:
        hidden = F.relu(self.norm(self.first(x))) * scale
        return {"out": self.last(hidden), "mean": [hidden.mean()]}


def batch(rows: int, seed: int = 0, wants: bool = True) -> Any:
    numbers = np.random.default_rng(seed).standard_normal((rows, 4)).astype(np.float32)
    return wb.to_tensor(numbers, stop_gradient=not wants)


def two_steps(is_static: bool) -> list[np.ndarray]:
    wb.seed(3)
    net = Net()
    if is_static:
        assert wb.jit.to_static(net) is net
    x = batch(6)
    for _ in range(2):
        outputs = net(x)
        (outputs["out"].sum() + outputs["mean"][0] * 3).backward()
    with_gradients = [p for p in net.parameters() if p.grad is not None]
    assert len(with_gradients) == 6
    values = [outputs["out"], x.grad, *(p.grad for p in with_gradients), *net.parameters()]
    return [v.numpy() for v in values]


def test_a_layer_has_the_gradients_of_dynamic_mode() -> None:
    for expected, value in zip(two_steps(False), two_steps(True), strict=True):
        assert np.allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", [name for name in MODELS if name != "dropout"])
def test_a_loss_has_the_gradients_of_dynamic_mode(model: str) -> None:
    model_ = MODELS[model]
    results = []
    for make in (lambda f: f, wb.jit.to_static):
        p = parameters(model_)
        loss = make(lambda x, y, p=p: model_.loss(p, x, y))(wb.to_tensor(model_.x), wb.to_tensor(LABELS))
        (loss * 2).backward()
        results.append([loss.numpy(), *(p[name].grad.numpy() for name in p)])
    for expected, value in zip(*results, strict=True):
        assert np.allclose(value, expected, rtol=1e-4, atol=1e-6)


def test_dropout_keeps_its_mask_for_the_gradient() -> None:
    wb.seed(1)
    dropped = wb.jit.to_static(lambda x: F.dropout(x, 0.5))
    x = wb.ones([200])
    x.stop_gradient = False
    masks = []
    for _ in range(2):
        y = dropped(x)
        x.clear_gradient()
        y.sum().backward()
        assert np.array_equal(x.grad.numpy(), y.numpy())
        masks.append(y.tolist())
    assert masks[0] != masks[1] and dropped.captures == 1


def test_it_joins_the_tape_on_both_sides() -> None:
    squared = wb.jit.to_static(lambda x: x * x)
    w = wb.to_tensor([2.0], stop_gradient=False)
    (squared(squared(w * 3)) * 5).backward()  # 5 (3 w)^4
    assert w.grad.item() == 5 * 4 * 27 * 8 * 3


def test_outputs_nothing_depends_on_and_arguments_that_want_nothing() -> None:
    pair = wb.jit.to_static(lambda x, y: (x * y, x + y))
    x, y = batch(2), batch(2, 1, wants=False)
    product, _ = pair(x, y)
    product.sum().backward()
    assert np.array_equal(x.grad.numpy(), y.numpy()) and y.grad is None
    with wb.no_grad():
        assert pair(x, y)[0].stop_gradient


def test_a_second_walk_and_second_derivatives_are_told() -> None:
    squared, x = wb.jit.to_static(lambda x: (x * x).sum()), batch(2)
    y = squared(x)
    y.backward(retain_graph=True)
    y.backward()
    assert np.allclose(x.grad.numpy(), 4 * x.numpy())
    with pytest.raises(PreconditionNotMet, match="second time"):
        y.backward()
    with pytest.raises(Unimplemented, match="no second derivative"):
        wb.grad(squared(x), x, create_graph=True)


def test_a_parameter_overwritten_before_the_gradient_is_noticed() -> None:
    w = wb.create_parameter([4], "float32")
    y = wb.jit.to_static(lambda x: (x * w * w).sum())(batch(2))
    with wb.no_grad():
        w.set_value(np.zeros(4, np.float32))
    with pytest.raises(PreconditionNotMet, match="overwritten since"):
        y.backward()


def test_one_recording_serves_all_sizes_of_a_specification() -> None:
    spec = wb.static.InputSpec([None, 4], "float32", "features")
    doubled = wb.jit.to_static(lambda x: x * 2, input_spec=[spec])
    assert [v.name for v in doubled.concrete_program.inputs] == ["features"]
    first, second = batch(3), batch(5)
    results = [doubled(first), doubled(second)]
    for x, y in zip((first, second), results, strict=True):
        (y * y).sum().backward()
        assert np.allclose(x.grad.numpy(), 8 * x.numpy())
    assert doubled.captures == 2  # once for the specification itself, whose tensors want no gradient
    with pytest.raises(InvalidArgument, match=re.escape("expected: float32[?, 4]")):
        doubled(wb.ones([3, 5]))


def test_every_signature_is_recorded_once() -> None:
    net = wb.jit.to_static(Net())
    for rows in (3, 3, 4, 3):
        net(batch(rows))
    assert net.forward.captures == 2
    net.eval()
    net(batch(3))
    net.train()
    net(batch(3))
    net(batch(3), scale=1.0)
    assert net.forward.captures == 4 == len(net.forward.program_cache)


def test_methods_decorated_in_a_class() -> None:
    class Twice(nn.Layer):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.k = k

        @wb.jit.to_static
        def forward(self, x: Any) -> Any:
            return x * self.k

    one, other = Twice(2.0), Twice(3.0)
    assert one(wb.ones([1])).item() == 2.0 and other(wb.ones([1])).item() == 3.0
    one.k = 5.0
    assert one(wb.ones([1])).item() == 5.0 and one.forward.captures == 2


def test_asking_for_values_is_refused_and_the_function_can_be_had_back() -> None:
    class Branching(nn.Layer):
        def forward(self, x: Any) -> Any:
            return x if bool(x.sum() > 0) else -x

    net = wb.jit.to_static(Branching())
    with pytest.raises(NeedsValue, match=re.escape("static.nn.cond")):
        net(wb.ones([2]))
    net.forward.rollback()
    assert net(wb.ones([2])).tolist() == [1.0, 1.0]


def test_switched_off_it_is_the_function() -> None:
    function = wb.jit.to_static(lambda x: x if x.sum() > 0 else -x)
    wb.jit.enable_to_static(False)
    try:
        assert function(wb.to_tensor([-1.0])).item() == 1.0
    finally:
        wb.jit.enable_to_static(True)
    with pytest.raises(NeedsValue):
        function(wb.to_tensor([-1.0]))
    with pytest.raises(InvalidType):
        wb.jit.enable_to_static(1)


def test_inside_of_what_is_captured_it_is_part_of_that() -> None:
    wb.seed(3)  # a loss that falls in every step
    net = wb.jit.to_static(Net())
    updates = wb.optimizer.SGD(0.1, parameters=net.parameters())

    def step(x: Any) -> Any:
        loss = net(x)["out"].square().mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    captured = wb.jit.capture(step)
    losses = [float(captured(batch(6, wants=False))) for _ in range(5)]
    assert losses == sorted(losses, reverse=True) and net.forward.captures == 0


@pytest.mark.parametrize("wrong", [3, "net"])
def test_only_functions_and_layers(wrong: Any) -> None:
    with pytest.raises(InvalidType, match="a function or a layer"):
        wb.jit.to_static(wrong)


def test_what_has_no_effect() -> None:
    function = wb.jit.not_to_static(batch)
    assert function is batch and wb.jit.not_to_static()(batch) is batch
    wb.jit.ignore_module([np])
    with pytest.raises(InvalidType):
        wb.jit.ignore_module(np)


def test_what_has_no_effect_is_said_and_unknown_keywords_are_refused() -> None:
    with pytest.warns(Notice, match="build_strategy, full_graph without effect"):
        wb.jit.to_static(lambda x: x, build_strategy=wb.static.BuildStrategy(), full_graph=True)
    with pytest.raises(TypeError, match="'bild_strategy'"):
        wb.jit.to_static(lambda x: x, bild_strategy=1)


def test_the_first_of_several_unknown_keywords_is_named() -> None:
    unknown = dict.fromkeys(["zeta", "eta", "theta", "beta", "iota", "alpha"], 1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpha'"):
        wb.jit.to_static(lambda x: x, **unknown)
