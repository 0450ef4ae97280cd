"""Layers that draw: what they drop in training, and where two draws differ."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb

nn = wb.nn
ONES = np.ones((200, 50), np.float32)


def test_dropout_keeps_the_mean() -> None:
    wb.seed(5)
    out = nn.Dropout(0.25)(wb.to_tensor(ONES)).numpy()
    assert set(np.unique(out)) == {np.float32(0), np.float32(4 / 3)}
    assert np.mean(out) == pytest.approx(1, abs=0.03)
    wb.seed(0)


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (lambda: nn.Dropout2D(0.5), (8, 16, 3, 3), (2, 3)),
        (lambda: nn.Dropout2D(0.5, "NHWC"), (8, 3, 3, 16), (1, 2)),
        (lambda: nn.Dropout3D(0.5), (8, 16, 2, 3, 3), (2, 3, 4)),
        (lambda: nn.Dropout3D(0.5, "NDHWC"), (8, 2, 3, 3, 16), (1, 2, 3)),
    ],
)
def test_whole_channels_are_dropped(layer: object, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    wb.seed(6)
    out = layer()(wb.ones(list(shape))).numpy()  # type: ignore[operator]
    low, high = out.min(axis=axes), out.max(axis=axes)
    assert np.array_equal(low, high) and set(np.unique(low)) == {0, 2}
    wb.seed(0)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    wb.seed(7)
    x = np.random.default_rng(0).standard_normal((400, 100)).astype(np.float32)
    tensor = wb.to_tensor(x, stop_gradient=False)
    out = nn.AlphaDropout(0.3)(tensor)
    assert out.numpy().mean() == pytest.approx(0, abs=0.03) and out.numpy().var() == pytest.approx(1, abs=0.05)
    out.sum().backward()
    dropped = np.unique(out.numpy()[tensor.grad.numpy() == 0])
    assert len(dropped) == 1 and (tensor.grad.numpy() == 0).mean() == pytest.approx(0.3, abs=0.02)
    assert np.array_equal(nn.AlphaDropout(0.0)(tensor).numpy(), x) and not nn.AlphaDropout(1.0)(tensor).numpy().any()
    wb.seed(0)


def test_rrelu_draws_a_slope_per_element() -> None:
    wb.seed(8)
    out = nn.RReLU(0.2, 0.6)(wb.to_tensor(-ONES)).numpy()
    assert -0.6 <= out.min() < -0.55 and -0.25 < out.max() <= -0.2 and len(np.unique(out)) > 5000
    assert np.array_equal(nn.RReLU(0.2, 0.6)(wb.to_tensor(ONES)).numpy(), ONES)
    wb.seed(0)


def test_the_seed_decides_what_layers_hold_and_draw() -> None:
    def run() -> tuple[np.ndarray, np.ndarray]:
        wb.seed(9)
        layer = nn.Sequential(nn.Linear(3, 50), nn.Dropout(0.5))
        return layer[0].weight.numpy(), layer(wb.ones([1, 3])).numpy()

    (w, y), (w2, y2) = run(), run()
    assert np.array_equal(w, w2) and np.array_equal(y, y2)
    wb.seed(0)


def test_a_stack_drops_between_its_layers_in_training_alone() -> None:
    net = nn.LSTM(3, 8, 2, dropout=0.5)
    x = wb.rand([4, 5, 3])
    first, second = (net(x)[0].numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    net.eval()
    assert np.array_equal(net(x)[0].numpy(), net(x)[0].numpy())


def test_gumbel_softmax() -> None:
    wb.seed(10)
    x = wb.to_tensor(np.log(np.array([[0.7, 0.2, 0.1]] * 4000, np.float32)), stop_gradient=False)
    hard = nn.functional.gumbel_softmax(x, hard=True)
    assert np.array_equal(hard.numpy().sum(1), np.ones(4000)) and set(np.unique(hard.numpy().round(6))) == {0, 1}
    assert hard.numpy().mean(0) == pytest.approx([0.7, 0.2, 0.1], abs=0.03)
    (hard * wb.to_tensor([1.0, 0.0, 0.0])).sum().backward()
    assert x.grad.numpy().any()  # that of the soft draw
    soft = nn.functional.gumbel_softmax(x, temperature=0.5, axis=0)
    assert soft.numpy().sum(0) == pytest.approx([1, 1, 1], rel=1e-4)
    wb.seed(0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_hard_gumbel_softmax_is_one_hot_along_its_axis(axis: int) -> None:
    out = nn.functional.gumbel_softmax(wb.rand([4, 5, 6]), hard=True, axis=axis).numpy()
    assert out.shape == (4, 5, 6) and np.allclose(out.max(axis), 1) and np.allclose(out.sum(axis), 1)
