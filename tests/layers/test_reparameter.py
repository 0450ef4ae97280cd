"""`nn.utils`: parameters as a vector, clipped gradients, normalised weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from workbench.errors import ExecutionError, InvalidArgument, Unimplemented

nn, utils = wb.nn, wb.nn.utils


def net_with_gradients() -> tuple[Any, list[np.ndarray]]:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    x = wb.to_tensor(np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32))
    (net(x) ** 2).sum().backward()
    return net, [p.grad.numpy() for p in net.parameters()]


def test_parameters_as_a_vector_and_back() -> None:
    net = nn.Linear(3, 2)
    vector = utils.parameters_to_vector(net.parameters())
    assert np.array_equal(vector.numpy(), np.concatenate([net.weight.numpy().ravel(), net.bias.numpy()]))
    (vector * vector).sum().backward()
    np.testing.assert_allclose(net.weight.grad.numpy(), 2 * net.weight.numpy(), rtol=1e-6)
    weight = net.weight
    utils.vector_to_parameters(wb.arange(8.0), net.parameters())
    assert net.weight is weight and weight.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net.bias.numpy().tolist() == [6, 7]
    with pytest.raises(InvalidArgument, match=r"expected: shape \[8\]\n  got:      \[7\]"):
        utils.vector_to_parameters(wb.zeros([7]), net.parameters())
    assert net.bias.numpy().tolist() == [6, 7]


@pytest.mark.parametrize("norm", [0, 1, 2, float("inf")])
def test_clipping_by_norm(norm: float) -> None:
    net, before = net_with_gradients()
    together = np.linalg.norm(np.concatenate([g.ravel() for g in before]), norm)
    total = utils.clip_grad_norm_(net.parameters(), 0.5, norm)
    assert total.item() == pytest.approx(together, rel=1e-5) and total.shape == []
    for p, g in zip(net.parameters(), before, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g * min(1, 0.5 / (together + 1e-6)), rtol=1e-5)


def test_gradients_below_the_norm_stay() -> None:
    net, before = net_with_gradients()
    utils.clip_grad_norm_(net.parameters(), 1e6)
    assert all(np.array_equal(p.grad.numpy(), g) for p, g in zip(net.parameters(), before, strict=True))


def test_clipping_one_parameter_and_none() -> None:
    net, before = net_with_gradients()
    weight = net[0].weight
    utils.clip_grad_norm_(weight, 1e-3)
    assert np.linalg.norm(weight.grad.numpy()) == pytest.approx(1e-3, rel=1e-3)
    assert np.array_equal(net[0].bias.grad.numpy(), before[1])
    assert utils.clip_grad_norm_(nn.Linear(2, 2).parameters(), 1.0).item() == 0.0


def test_a_norm_that_is_not_finite() -> None:
    net, _ = net_with_gradients()
    net[0].bias.grad.set_value(np.full(4, np.inf, np.float32))
    before = net[0].weight.grad.numpy()
    with pytest.raises(ExecutionError, match="is inf"):
        utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
    assert np.array_equal(net[0].weight.grad.numpy(), before)
    with pytest.raises(InvalidArgument, match="norm_type is 0, 1, 2"):
        utils.clip_grad_norm_(net.parameters(), 1.0, 3)


def test_clipping_by_value() -> None:
    net, before = net_with_gradients()
    utils.clip_grad_value_(net.parameters(), 0.2)
    for p, g in zip(net.parameters(), before, strict=True):
        assert np.array_equal(p.grad.numpy(), np.clip(g, np.float32(-0.2), np.float32(0.2)))


# Weight norm


@pytest.mark.parametrize("dim", [0, 1, -2, None])
def test_weight_norm_keeps_the_weight(dim: int | None) -> None:
    layer = nn.Conv2D(2, 3, 2)
    weight = layer.weight.numpy()
    x = wb.rand([1, 2, 4, 4])
    wanted = layer(x).numpy()
    assert utils.weight_norm(layer, dim=dim) is layer
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight_v", "weight_g"]
    assert list(layer.state_dict()) == ["bias", "weight_v", "weight_g"]
    others = None if dim is None else tuple(d for d in range(4) if d != dim % 4)
    np.testing.assert_allclose(layer.weight_g.numpy(), np.sqrt((weight**2).sum(axis=others)), rtol=1e-6)
    np.testing.assert_allclose(layer(x).numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_weight_norm_learns_lengths_and_directions() -> None:
    layer = utils.weight_norm(nn.Linear(3, 2, bias_attr=False), dim=1)
    x = np.random.default_rng(2).standard_normal((4, 3)).astype(np.float32)
    (layer(wb.to_tensor(x)) ** 2).sum().backward()

    def total(v: np.ndarray, g: np.ndarray) -> float:
        w = g * v / np.linalg.norm(v, axis=0)
        return float(((x.astype(np.float64) @ w) ** 2).sum())

    v, g = (layer._parameters[name].numpy().astype(np.float64) for name in ("weight_v", "weight_g"))
    step = np.random.default_rng(3).standard_normal(v.shape)
    slope = (total(v + 1e-6 * step, g) - total(v - 1e-6 * step, g)) / 2e-6
    assert float((layer.weight_v.grad.numpy() * step).sum()) == pytest.approx(slope, rel=1e-3, abs=1e-4)
    slope = (total(v, g + 1e-6) - total(v, g - 1e-6)) / 2e-6
    assert float(layer.weight_g.grad.numpy().sum()) == pytest.approx(slope, rel=1e-4)
    layer.weight_g.set_value(np.zeros(2, np.float32))
    assert not layer(wb.to_tensor(x)).numpy().any()  # computed anew at every call


def test_weight_norm_is_undone() -> None:
    layer = utils.weight_norm(nn.Linear(3, 2))
    layer.weight_g.set_value(layer.weight_g.numpy() * 2)
    x = wb.rand([1, 3])
    wanted = layer(x).numpy()
    utils.remove_weight_norm(layer)
    assert [name for name, _ in layer.named_parameters()] == ["bias", "weight"] and layer.weight.trainable
    np.testing.assert_allclose(layer(x).numpy(), wanted, rtol=1e-6)
    with pytest.raises(InvalidArgument, match="weight_norm of 'weight' not found in Linear"):
        utils.remove_weight_norm(layer)
    utils.weight_norm(layer)  # and again
    with pytest.raises(InvalidArgument, match="a layer with a parameter 'weight'"):
        utils.weight_norm(layer)


@pytest.mark.parametrize("normalise", [utils.weight_norm, utils.spectral_norm])
def test_what_cannot_be_normalised(normalise: Any) -> None:
    with pytest.raises(InvalidArgument, match="a layer with a parameter 'kernel'"):
        normalise(nn.Linear(2, 2), "kernel")
    with pytest.raises(InvalidArgument, match=r"is in \[-2, 2\), got 2"):
        normalise(nn.Linear(2, 2), dim=2)
    with program(), pytest.raises(Unimplemented, match="dynamic mode"):
        normalise(nn.Linear(2, 2))


# Spectral norm


@pytest.mark.parametrize(("layer", "rows"), [(lambda: nn.Linear(3, 5), 5), (lambda: nn.Conv2D(2, 3, 2), 3)])
def test_spectral_norm_divides_by_the_largest_singular_value(layer: Any, rows: int) -> None:
    built = layer()
    weight = built.weight.numpy()
    utils.spectral_norm(built, n_power_iterations=50)
    matrix = weight.T if isinstance(built, nn.Linear) else weight.reshape(3, -1)
    x = wb.ones([1, 3] if isinstance(built, nn.Linear) else [1, 2, 4, 4])
    built(x).sum().backward()
    np.testing.assert_allclose(built.weight.numpy(), weight / np.linalg.norm(matrix, 2), rtol=1e-4, atol=1e-6)
    assert list(built.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    assert [name for name, _ in built.named_parameters()] == ["bias", "weight_orig"]
    assert built.weight_u.shape == [rows] and built.weight_orig.grad is not None


def test_spectral_norm_stands_still_in_use() -> None:
    layer = utils.spectral_norm(nn.Linear(4, 4))
    layer.eval()
    u = layer.weight_u.numpy()
    layer(wb.ones([1, 4]))
    assert np.array_equal(layer.weight_u.numpy(), u)
    layer.train()
    layer.weight_orig.set_value(np.diag([9.0, 1, 1, 1]).astype(np.float32))
    for _ in range(30):
        layer(wb.ones([1, 4]))
    assert abs(layer.weight_u.numpy()[0]) == pytest.approx(1, abs=1e-4)
    with pytest.raises(InvalidArgument, match="at least one power iteration"):
        utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
