"""The public loss functions: options, weights, reductions, against SciPy and loops; and what they refuse."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_softmax, softmax

import workbench as wb
from workbench.errors import InvalidArgument, Unimplemented
from workbench.ops.index.label import place_label

F = wb.nn.functional
rng = np.random.default_rng(30)
X, Y = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))
LOGITS, LABEL = rng.standard_normal((6, 4)), np.array([0, 3, 1, 2, 0, 1])
WEIGHT = rng.random(4) + 0.5


def tensor(a: Any) -> Any:
    return wb.to_tensor(np.asarray(a))


def run(function: Callable[..., Any], *arrays: Any, **options: Any) -> np.ndarray:
    given = [a if a is None else tensor(a) for a in arrays]
    options = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    return function(*given, **options).numpy()


def reduced(losses: np.ndarray, reduction: str) -> np.ndarray:
    if reduction == "none":
        return losses
    total = np.array([losses.sum()])
    return total / losses.size if reduction == "mean" else total


REDUCTIONS = pytest.mark.parametrize("reduction", ["mean", "sum", "none"])

ELEMENTWISE: dict[str, tuple[Callable[..., Any], np.ndarray, np.ndarray, Callable[..., np.ndarray]]] = {
    "mse": (F.mse_loss, X, Y, lambda x, y: (x - y) ** 2),
    "l1": (F.l1_loss, X, Y, lambda x, y: np.abs(x - y)),
    "smooth_l1": (
        F.smooth_l1_loss,
        X,
        Y,
        lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5),
    ),
    "bce_logits": (
        F.binary_cross_entropy_with_logits,
        X,
        expit(Y),
        lambda x, y: -y * np.log(expit(x)) - (1 - y) * np.log(1 - expit(x)),
    ),
    "bce": (
        F.binary_cross_entropy,
        expit(X),
        expit(Y),
        lambda x, y: -y * np.log(x) - (1 - y) * np.log(1 - x),
    ),
    "kl": (F.kl_div, X, expit(Y), lambda x, y: y * (np.log(y) - x)),
}


@REDUCTIONS
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_reductions(name: str, reduction: str) -> None:
    function, x, y, losses = ELEMENTWISE[name]
    got = run(function, x, y, reduction=reduction)
    np.testing.assert_allclose(got, reduced(losses(x, y), reduction), rtol=1e-12)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_unknown_reduction_is_refused_before_anything_is_computed(name: str) -> None:
    function, x, y, _ = ELEMENTWISE[name]
    with pytest.raises(InvalidArgument, match=r"reduction must be one of .*'mean'.*got 'average'"):
        run(function, x, y, reduction="average")


def test_kl_div_batchmean_divides_by_the_first_dimension() -> None:
    target = expit(Y)
    got = run(F.kl_div, X, target, reduction="batchmean")
    np.testing.assert_allclose(got, [(target * (np.log(target) - X)).sum() / 4], rtol=1e-12)


def test_square_error_cost_is_two_operators_of_one_layer() -> None:
    """P-5."""
    program = wb.static.Program()
    with wb.framework.program.guard.static_mode(), wb.utils.unique_name.guard(), wb.static.program_guard(program):
        x, y = (wb.static.data(n, [None, 3], "float32") for n in "xy")
        F.square_error_cost(x, y)
    ops = program.global_block().ops
    assert [op.output_arg_names for op in ops] == [
        ["square_error_cost_0.tmp_0"],
        ["square_error_cost_0.tmp_1"],
    ]


@pytest.mark.parametrize("delta", [0.3, 2.0])
def test_smooth_l1_delta(delta: float) -> None:
    r = np.abs(X - Y)
    want = np.where(r < delta, r**2 / 2, delta * r - delta**2 / 2)
    got = run(F.smooth_l1_loss, X, Y, reduction="none", delta=delta)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)
    with pytest.raises(InvalidArgument, match="above 0"):
        run(F.smooth_l1_loss, X, Y, delta=0.0)


def test_weights_of_binary_cross_entropies() -> None:
    label, weight, positive = expit(Y), rng.random((4, 5)), rng.random(5) + 0.5
    got = run(F.binary_cross_entropy_with_logits, X, label, weight, reduction="none", pos_weight=positive)
    want = weight * (-positive * label * np.log(expit(X)) - (1 - label) * np.log(expit(-X)))
    np.testing.assert_allclose(got, want, rtol=1e-12)
    got = run(F.binary_cross_entropy, expit(X), label, weight, reduction="sum")
    want = weight * (-label * np.log(expit(X)) - (1 - label) * np.log(expit(-X)))
    np.testing.assert_allclose(got, [want.sum()], rtol=1e-12)


def test_sigmoid_cross_entropy_normalised_by_the_entries_that_count() -> None:
    from workbench.ops.loss.losses import sigmoid_cross_entropy_with_logits as function

    label = np.array([[1.0, 0.0, -1.0]])
    x = np.array([[0.5, -2.0, 3.0]])
    losses = np.array([[np.log1p(np.exp(-0.5)), np.log1p(np.exp(-2.0)), 0.0]])
    np.testing.assert_allclose(run(function, x, label, ignore_index=-1), losses, rtol=1e-12)
    np.testing.assert_allclose(run(function, x, label, ignore_index=-1, normalize=True), losses / 2, rtol=1e-12)
    none_left = run(function, x, np.full((1, 3), 7.0), ignore_index=7, normalize=True)
    np.testing.assert_array_equal(none_left, np.zeros((1, 3)))


def hard_losses(logp: np.ndarray, label: np.ndarray, weight: Any, ignore: int) -> tuple[np.ndarray, float]:
    """Loss per row and the weight that took part, row by row; the classes are the last axis."""
    losses, share = np.zeros(label.shape), 0.0
    for place in np.ndindex(label.shape):
        if label[place] != ignore:
            w = 1.0 if weight is None else weight[label[place]]
            losses[place] = -w * logp[place][label[place]]
            share += w
    return losses, share


def as_reduced(losses: np.ndarray, share: float, reduction: str) -> np.ndarray:
    if reduction == "none":
        return losses
    return np.array(losses.sum() / (share or 1.0) if reduction == "mean" else losses.sum())


@REDUCTIONS
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("column", [False, True], ids=["flat", "column"])
def test_cross_entropy(reduction: str, weight: Any, ignore: int, column: bool) -> None:
    label = LABEL[:, None] if column else LABEL
    got = run(F.cross_entropy, LOGITS, label, weight, ignore_index=ignore, reduction=reduction)
    losses, share = hard_losses(log_softmax(LOGITS, axis=1), LABEL, weight, ignore)
    want = as_reduced(losses[:, None] if column else losses, share, reduction)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12)


@REDUCTIONS
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_cross_entropy_of_images(reduction: str, weight: Any) -> None:
    x, label = rng.standard_normal((2, 4, 3, 2)), rng.integers(0, 4, (2, 3, 2))
    label[0, 0, 0] = -100
    got = run(F.cross_entropy, x, label, weight, reduction=reduction, axis=1)
    logp = np.moveaxis(log_softmax(x, axis=1), 1, -1)
    losses, share = hard_losses(logp, label, weight, -100)
    np.testing.assert_allclose(got, as_reduced(losses, share, reduction), rtol=1e-12)
    by_nll = run(F.nll_loss, log_softmax(x, axis=1), label, weight, reduction=reduction)
    np.testing.assert_allclose(by_nll, got, rtol=1e-12)


def test_cross_entropy_of_probabilities() -> None:
    p = softmax(LOGITS, axis=1)
    for options in ({}, {"ignore_index": 0}, {"weight": WEIGHT}):
        got = run(F.cross_entropy, p, LABEL, use_softmax=False, **options)
        np.testing.assert_allclose(got, run(F.cross_entropy, LOGITS, LABEL, **options), rtol=1e-10)
    certain = run(F.cross_entropy, np.array([[1.0, 0.0]]), np.array([1]), use_softmax=False)
    assert np.isfinite(certain).all()
    assert certain > 80


@REDUCTIONS
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("use_softmax", [True, False])
def test_cross_entropy_with_soft_labels(reduction: str, weight: Any, use_softmax: bool) -> None:
    target = softmax(rng.standard_normal((6, 4)), axis=1)
    x = LOGITS if use_softmax else softmax(LOGITS, axis=1)
    options = {"soft_label": True, "use_softmax": use_softmax, "reduction": reduction}
    got = run(F.cross_entropy, x, target, weight, **options)
    losses = -(target * log_softmax(LOGITS, axis=1)).sum(axis=1, keepdims=True)
    factor = np.ones((6, 1)) if weight is None else target @ weight[:, None]
    np.testing.assert_allclose(got, as_reduced(losses * factor, factor.sum(), reduction), rtol=1e-10)


def test_nothing_but_ignored_labels_gives_zero() -> None:
    for weight in (None, WEIGHT):
        got = run(F.cross_entropy, LOGITS, np.full(6, -100), weight)
        np.testing.assert_array_equal(got, [0.0])
        got = run(F.nll_loss, LOGITS, np.full(6, -100), weight)
        np.testing.assert_array_equal(got, [0.0])


@given(st.integers(1, 7), st.integers(1, 9), st.integers(0, 2**31), st.floats(-1e3, 1e3), st.booleans())
def test_cross_entropy_does_not_depend_on_a_common_shift(
    rows: int, classes: int, seed: int, shift: float, column: bool
) -> None:
    r = np.random.default_rng(seed)
    x, label = r.standard_normal((rows, classes)) * 10, r.integers(0, classes, (rows, 1) if column else rows)
    got = run(F.softmax_with_cross_entropy, x, label)
    assert got.shape == (rows, 1)
    assert (got >= 0).all()
    np.testing.assert_allclose(run(F.softmax_with_cross_entropy, x + shift, label), got, atol=1e-9)


def test_return_softmax() -> None:
    loss, p = F.softmax_with_cross_entropy(tensor(LOGITS), tensor(LABEL[:, None]), return_softmax=True)
    np.testing.assert_allclose(p.numpy(), softmax(LOGITS, axis=1), rtol=1e-12)
    assert loss.shape == [6, 1]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_softmax_dtype_casts_first(dtype: str) -> None:
    got = F.softmax(tensor(np.array([[1, 2, 3]], dtype)), dtype="float64")
    assert got.dtype == "float64"
    np.testing.assert_allclose(got.numpy(), softmax([[1, 2, 3]], axis=1), rtol=1e-14)
    assert F.log_softmax(tensor(np.array([[1, 2, 3]], dtype)), dtype="float64").dtype == "float64"


@pytest.mark.parametrize(
    ("label", "position", "value"),
    [(np.array([0, 3, 4, 2, 0, 1]), [2], 4), (np.array([[0], [3], [1], [-1], [0], [9]]), [3, 0], -1)],
)
@pytest.mark.parametrize("function", ["softmax_with_cross_entropy", "cross_entropy"])
def test_a_label_out_of_range_is_named(function: str, label: np.ndarray, position: list[int], value: int) -> None:
    with pytest.raises(InvalidArgument) as caught:
        run(getattr(F, function), LOGITS, label)
    message = str(caught.value)
    assert f"label {value} at position {position} is out of range" in message
    assert "[0, 4), or -100 (ignored)" in message


def test_ignored_labels_do_not_hide_wrong_ones() -> None:
    with pytest.raises(InvalidArgument, match=r"label 4 at position \[1\]"):
        run(F.nll_loss, LOGITS, np.array([-100, 4, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        (
            LABEL[:4],
            {},
            r"labels do not fit scores of shape \[6, 4\].*\n.*expected: \[6, 1\] or \[6\]\n.*\[4\]",
        ),
        (LABEL.astype(np.float64), {}, "hard labels are integers; give soft_label=True"),
        (np.ones((6, 3)), {"soft_label": True}, "soft labels have the shape of the logits"),
        (np.ones((6, 4), np.float32), {"soft_label": True}, "one dtype"),
        (LABEL, {"axis": 2}, r"axis is out of range"),
    ],
)
def test_labels_that_do_not_fit(label: np.ndarray, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run(F.softmax_with_cross_entropy, LOGITS, label, **options)


def test_class_weights_have_one_dimension() -> None:
    with pytest.raises(InvalidArgument, match=r"\[C\], one per class, got \[2, 2\]"):
        run(F.cross_entropy, LOGITS, LABEL, WEIGHT.reshape(2, 2))


def test_nll_loss_refuses_other_shapes() -> None:
    with pytest.raises(InvalidArgument, match=r"input \[N, C, \.\.\.\] and label \[N, \.\.\.\]"):
        run(F.nll_loss, LOGITS, np.stack([LABEL, LABEL], axis=1))


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_nll_loss_takes_a_column_of_labels(reduction: str) -> None:
    logp = log_softmax(LOGITS, axis=1)
    loss = run(F.nll_loss, logp, LABEL[:, None], reduction=reduction)
    assert np.array_equal(loss, run(F.nll_loss, logp, LABEL, reduction=reduction))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_accuracy(k: int) -> None:
    best = np.argsort(-LOGITS, axis=1)[:, :k]
    want = np.mean([label in row for label, row in zip(LABEL.tolist(), best.tolist(), strict=True)])
    for label in (LABEL, LABEL[:, None]):
        got = run(wb.static.accuracy, LOGITS, label, k=k)
        assert (got.shape, got.dtype) == ((), np.float32)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_accuracy_refuses_counters_and_wrong_labels() -> None:
    with pytest.raises(Unimplemented, match="leave correct and total out"):
        wb.static.accuracy(tensor(LOGITS), tensor(LABEL), correct=tensor([0]))
    with pytest.raises(InvalidArgument, match=r"\[6, 1\] or \[6\]"):
        run(wb.static.accuracy, LOGITS, LABEL[:5])


@pytest.mark.parametrize("shape", [[6], [6, 4], [1, 6, 1], [5, 1]])
def test_one_value_is_placed_per_label(shape: list[int]) -> None:
    with pytest.raises(InvalidArgument, match="place_label takes one value per label"):
        place_label(tensor(LABEL), wb.ones(shape), tensor(LOGITS))
