"""Layers given another dtype, copied, and in static mode."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from tests.layers.test_layer import Net, nn
from workbench.errors import InvalidType, Unimplemented

# Dtypes, copies


def test_to_changes_floating_values_in_place() -> None:
    net = Net()
    net.register_buffer("steps", wb.zeros([1], "int64"))
    weight, name = net.out.weight, net.out.weight.name
    values = weight.numpy()
    assert net.to(dtype="float64") is net and net.to(device="cpu") is net
    assert net.out.weight is weight and weight.name == name and not weight.stop_gradient
    assert weight.dtype == "float64" and net.count.dtype == "float64" and net.steps.dtype == "int64"
    assert np.array_equal(weight.numpy(), values.astype(np.float64)) and "dtype=float64" in repr(net.out)
    net(wb.ones([1, 2], "float64")).sum().backward()
    assert weight.grad.dtype == "float64"
    net.float(excluded_layers=[nn.Linear])
    assert weight.dtype == "float64" and net.count.dtype == "float32"
    assert net.astype("float32").float16() is net and net.out.bias.dtype == "float16"
    assert net.bfloat16().out.bias.dtype == "bfloat16"
    with pytest.raises(Unimplemented, match="live on the CPU"):
        net.to(device="gpu:0")


def test_the_dtype_of_variables_is_fixed() -> None:
    with program():
        layer = nn.Linear(2, 2)
        with pytest.raises(Unimplemented, match="part of a static Program"):
            layer.to(dtype="float64")


def test_a_deep_copy_is_a_layer_of_its_own() -> None:
    net = Net()
    twin = copy.deepcopy(net)
    x = wb.ones([1, 2])
    assert np.array_equal(twin(x).numpy(), net(x).numpy())
    twin.out.bias.set_value(np.array([7.0], np.float32))
    assert net.out.bias.item() == 0.0 and twin.out.bias.trainable


# Static mode


def test_a_layer_builds_into_the_current_program() -> None:
    with program(seed=4) as (main, startup):
        net = Net2()
        out = net(wb.static.data("x", [None, 2]))
        assert out.shape == (-1, 1)
        assert [p.name for p in main.all_parameters()] == [p.name for p in net.parameters()]
        wb.optimizer.SGD(0.1).minimize(wb.mean(out))
        scope = wb.static.Scope()
        executor = wb.static.Executor()
        executor.run(startup, scope=scope)
        x = np.ones((3, 2), np.float32)
        first = executor.run(main, feed={"x": x}, fetch_list=[out], scope=scope)[0]
        second = executor.run(main, feed={"x": x}, fetch_list=[out], scope=scope)[0]
    assert second.mean() < first.mean()


class Net2(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LayerList([nn.Linear(2, 3), nn.Linear(3, 1)])

    def forward(self, x: Any) -> Any:
        return self.layers[1](nn.functional.relu(self.layers[0](x)))


def test_a_layer_of_one_mode_is_refused_in_the_other() -> None:
    layer = nn.Linear(2, 2)
    with program(), pytest.raises(InvalidType, match="takes a Variable in static mode"):
        layer(wb.static.data("x", [None, 2]))
    with program():
        other = nn.Linear(2, 2)
    with pytest.raises(InvalidType, match="a Variable of a static Program, in dynamic mode"):
        other(wb.ones([1, 2]))


def test_dropout_and_batch_norm_of_a_test_program() -> None:
    """A program cloned for testing drops nothing and uses the running statistics, as `eval()` does."""
    with program() as (main, startup):
        net = nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1D(4), nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.RReLU(0.1, 0.3)
        )
        out = net(wb.static.data("x", [None, 3]))
        test = main.clone(for_test=True)
        scope = wb.static.Scope()
        executor = wb.static.Executor()
        executor.run(startup, scope=scope)
        x = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
        got, again = (executor.run(test, feed={"x": x}, fetch_list=[out], scope=scope)[0] for _ in range(2))
        values = {name: np.array(scope.find_var(v.name).get_tensor()) for name, v in net.state_dict().items()}
    twin = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1D(4), nn.Dropout(0.5), nn.AlphaDropout(0.5), nn.RReLU(0.1, 0.3))
    twin.set_state_dict(values)
    twin.eval()
    assert np.array_equal(got, again)
    np.testing.assert_allclose(got, twin(wb.to_tensor(x)).numpy(), rtol=1e-5, atol=1e-6)
