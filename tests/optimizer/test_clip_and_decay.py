"""Clipping and decay: rules P-44, P-45, over ranges of gradients."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.optimizer.stepping import trained
from workbench import optimizer
from workbench.errors import InvalidArgument, InvalidType
from workbench.optimizer.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from workbench.optimizer.regularizer import L1Decay, L2Decay, from_config

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
elements = st.floats(-100, 100)
vectors = hnp.arrays(np.float64, 3, elements=elements)
matrices = hnp.arrays(np.float64, (2, 2), elements=elements)
bounds = st.floats(0.01, 50)


def gradients_used(clip, a, b, /, **attrs):
    """What is subtracted from two zero parameters by a step of rate 1, i.e. the clipped gradients."""
    session, _ = trained(optimizer.SGD(1.0, grad_clip=clip), {"a": np.zeros(3), "b": np.zeros((2, 2))}, **attrs)
    session.run([], g_a=a, g_b=b)
    return -session.value("a"), -session.value("b")


@QUICK
@given(vectors, matrices, bounds)
def test_p45_by_value(a, b, bound):
    expected = [min(max(x, -bound), bound) for g in (a, b) for x in g.ravel()]
    got = gradients_used(ClipGradByValue(bound), a, b)
    assert [x for g in got for x in g.ravel()] == pytest.approx(expected)


@QUICK
@given(vectors, matrices, st.floats(-50, 0), st.floats(0, 50))
def test_p45_by_value_with_two_bounds(a, b, low, high):
    expected = [min(max(x, low), high) for g in (a, b) for x in g.ravel()]
    got = gradients_used(ClipGradByValue(high, low), a, b)
    assert [x for g in got for x in g.ravel()] == pytest.approx(expected)


@QUICK
@given(vectors, matrices, bounds)
def test_p45_by_norm(a, b, bound):
    expected = []
    for g in (a, b):
        norm = math.sqrt(sum(x * x for x in g.ravel().tolist()))
        expected.append(g * (bound / max(norm, bound)))
    for got, want in zip(gradients_used(ClipGradByNorm(bound), a, b), expected, strict=True):
        assert np.allclose(got, want, rtol=1e-9, atol=1e-12)


@QUICK
@given(vectors, matrices, bounds)
def test_p45_by_global_norm(a, b, bound):
    norm = math.sqrt(sum(x * x for g in (a, b) for x in g.ravel().tolist()))
    factor = bound / max(bound, norm)
    got = gradients_used(ClipGradByGlobalNorm(bound), a, b)
    assert np.allclose(got[0], a * factor, rtol=1e-9, atol=1e-12)
    assert np.allclose(got[1], b * factor, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("clip", [ClipGradByValue(1.0), ClipGradByNorm(1.0), ClipGradByGlobalNorm(1.0)])
def test_need_clip_false_leaves_a_gradient_out(clip):
    a, b = np.array([3.0, 4.0, 0.0]), np.full((2, 2), 100.0)
    got = gradients_used(clip, a, b, b={"need_clip": False})
    assert np.array_equal(got[1], b)
    alone = [1.0, 1.0, 0.0] if isinstance(clip, ClipGradByValue) else [0.6, 0.8, 0.0]
    assert got[0] == pytest.approx(alone)


@pytest.mark.parametrize("clip", [ClipGradByValue(1.0), ClipGradByGlobalNorm(1.0)])
def test_no_parameter_needs_clipping(clip):
    a, b = np.full(3, 5.0), np.full((2, 2), 5.0)
    got = gradients_used(clip, a, b, a={"need_clip": False}, b={"need_clip": False})
    assert np.array_equal(got[0], a) and np.array_equal(got[1], b)


def test_a_zero_gradient_stays_zero():
    for clip in (ClipGradByNorm(1.0), ClipGradByGlobalNorm(1.0)):
        assert not any(g.any() for g in gradients_used(clip, np.zeros(3), np.zeros((2, 2))))


def test_global_norm_over_several_dtypes():
    start = {"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float64), "c": np.zeros(2, np.float16)}
    session, _ = trained(optimizer.SGD(1.0, grad_clip=ClipGradByGlobalNorm(1.0)), start)
    session.run([], g_a=np.float32([300, 0]), g_b=np.array([0.0, 400]), g_c=np.float16([1200, 0]))
    norm = math.hypot(300, 400, 1200)
    assert session.value("a") == pytest.approx([-300 / norm, 0], rel=1e-5)
    assert session.value("b") == pytest.approx([0, -400 / norm], rel=1e-5)
    assert session.value("c").astype(float) == pytest.approx([-1200 / norm, 0], rel=1e-2)


@QUICK
@given(vectors, vectors, st.floats(0, 10), st.sampled_from([L1Decay, L2Decay]), st.booleans())
def test_p44_terms(w, g, coeff, kind, own):
    """From the optimizer or from the parameter, the term is the same."""
    decay = kind(coeff)
    opt = optimizer.SGD(0.5, weight_decay=None if own else decay)
    session, _ = trained(opt, {"w": w}, w={"regularizer": decay} if own else {})
    session.run([], g_w=g)
    term = [coeff * (x if kind is L2Decay else (x > 0) - (x < 0)) for x in w.tolist()]
    assert session.value("w") == pytest.approx(w - 0.5 * (g + term), rel=1e-12, abs=1e-12)


@given(st.floats(0, 1e3), st.sampled_from([L1Decay, L2Decay]))
def test_configurations_come_back(coeff, kind):
    decay = kind(coeff)
    again = from_config(json.loads(json.dumps(decay.to_config())))
    assert again == decay and hash(again) == hash(decay) and type(again) is kind
    assert decay != L1Decay(coeff + 1) and decay != "L1Decay"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "L2decay", "coeff": 1.0}, "Did you mean 'L2Decay'"),
        ({"type": "L2Decay"}, "coeff"),
        ({"type": "L2Decay", "coeff": 1.0, "more": 2}, "more"),
        ({"type": "L2Decay", "coeff": "1"}, "number"),
    ],
)
def test_bad_configurations(config, message):
    with pytest.raises(InvalidArgument, match=message):
        from_config(config)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ClipGradByValue(0.0), InvalidArgument),
        (lambda: ClipGradByValue(-1.0), InvalidArgument),
        (lambda: ClipGradByValue(1.0, 2.0), InvalidArgument),
        (lambda: ClipGradByValue("1"), InvalidType),
        (lambda: ClipGradByNorm(0.0), InvalidArgument),
        (lambda: ClipGradByNorm(None), InvalidType),
        (lambda: ClipGradByGlobalNorm(float("nan")), InvalidArgument),
        (lambda: L2Decay(-1.0), InvalidArgument),
        (lambda: L1Decay("0.1"), InvalidType),
        (lambda: L2Decay(float("inf")), InvalidArgument),
    ],
)
def test_bad_arguments(make, error):
    with pytest.raises(error):
        make()


def test_a_clip_with_only_a_negative_range_is_allowed():
    assert repr(ClipGradByValue(-1.0, -2.0)) == "ClipGradByValue(max=-1.0, min=-2.0)"
