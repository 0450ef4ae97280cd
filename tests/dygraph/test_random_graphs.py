"""Gradients of random graphs against central differences in float64 and, where there is one, against PyTorch.

A graph is a list of steps over a pool of matrices: shared values, parts, writes in place, detached values. A gradient
is either right or refused because a value it needs was overwritten; never wrong.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import workbench as paddle
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.errors import PreconditionNotMet
from workbench.framework.op.recorder import recording

N, LEAVES = 3, 2
Step = tuple[str, int, int]
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    with recording(dynamic_recorder):
        yield


def put(x: Any, y: Any, index: Any) -> Any:
    written = x.clone()
    written[index] = y[index] * 0.5
    return written


def kept(x: Any) -> Any:
    return x.clone()


NEW: dict[str, Callable[[Any, Any], Any]] = {  # the same text is run with workbench's tensors and with PyTorch's
    "tanh": lambda x, y: x.tanh(),
    "sin": lambda x, y: x.sin(),
    "exp": lambda x, y: (x * 0.2).exp(),
    "square": lambda x, y: x * x * 0.3,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y * 0.5,
    "mul": lambda x, y: x * y,
    "matmul": lambda x, y: x.matmul(y) * 0.3,
    "transposed": lambda x, y: kept(x.t()),
    "reshaped": lambda x, y: kept(x.reshape([N * N]).reshape([N, N])),
    "rows": lambda x, y: x + y[1] * 0.5,
    "total": lambda x, y: x * y.sum() * 0.1,
    "means": lambda x, y: x * y.mean(1).reshape([N, 1]),
    "divided": lambda x, y: x / (y * y + 1.0),
    "put a row": lambda x, y: put(x, y, 0),
    "put a part": lambda x, y: put(x, y, (slice(1, 3), slice(0, 2))),
    "detached": lambda x, y: x * y.detach(),
}
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "multiply_": lambda x, y: x.multiply_(y),
    "tanh_": lambda x, y: x.tanh_(),
    "write a row": lambda x, y: x.__setitem__(1, y[0] * 0.5),
}
STEPS = st.lists(
    st.tuples(st.sampled_from([*NEW, *NEW, *IN_PLACE]), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9
)


def value(steps: list[Step], leaves: list[Any]) -> Any:
    """The sum of all matrices of a graph, each with a weight of its own."""
    pool = [leaf * 1.0 for leaf in leaves]
    for name, i, j in steps:
        x, y = pool[i % len(pool)], pool[j % len(pool)]
        if name in NEW:
            pool.append(NEW[name](x, y))
        else:
            IN_PLACE[name](x, y.clone())
    total = pool[0] * 0.1
    for number, one in enumerate(pool[1:], 2):
        total = total + one * (0.1 * number)
    return (total * total).sum() * 0.1


def leaves_of(arrays: list[np.ndarray], **options: Any) -> list[Any]:
    return [paddle.to_tensor(a, stop_gradient=False, **options) for a in arrays]


def differences(function: Callable[[list[np.ndarray]], float], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Central differences of a function of arrays, element by element."""
    slopes = []
    for k, array in enumerate(arrays):
        slope = np.zeros_like(array)
        for place in np.ndindex(*array.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [a.copy() for a in arrays]
                moved[k][place] += step
                ends.append(function(moved))
            slope[place] = (ends[0] - ends[1]) / 2e-5
        slopes.append(slope)
    return slopes


def start(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, (N, N)) for _ in range(LEAVES)]


def run(arrays: list[np.ndarray], steps: list[Step]) -> float:
    with paddle.no_grad():
        return float(value(steps, leaves_of(arrays)))


def has_constants_that_move(steps: list[Step]) -> bool:
    """Differences see through `detach`, gradients do not."""
    return any(name == "detached" for name, _, _ in steps)


QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(STEPS, st.integers(0, 999))
def test_gradients_are_right_or_refused(steps: list[Step], seed: int) -> None:
    assume(not has_constants_that_move(steps))
    arrays = start(seed)
    leaves = leaves_of(arrays)
    try:
        value(steps, leaves).backward()
    except PreconditionNotMet:
        assert all(leaf.grad is None for leaf in leaves)
        return
    for leaf, want in zip(leaves, differences(lambda moved: run(moved, steps), arrays), strict=True):
        got = np.zeros((N, N)) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@QUICK
@given(STEPS.map(lambda steps: [s for s in steps if s[0] in NEW and s[0] != "detached"]), st.integers(0, 999))
def test_second_derivatives_are_right(steps: list[Step], seed: int) -> None:
    arrays = start(seed)
    rng = np.random.default_rng(seed + 1)
    weights = [rng.standard_normal((N, N)) for _ in arrays]

    def along(moved: list[np.ndarray], create_graph: bool) -> tuple[list[Any], Any]:
        leaves = leaves_of(moved)
        slopes = paddle.grad(value(steps, leaves), leaves, create_graph=create_graph, allow_unused=True)
        parts = [(s * paddle.to_tensor(w)).sum() for s, w in zip(slopes, weights, strict=True) if s is not None]
        return leaves, paddle.add_n(parts)

    leaves, total = along(arrays, True)
    second = paddle.grad(total, leaves, allow_unused=True)
    wanted = differences(lambda moved: along(moved, False)[1].item(), arrays)
    for got, want in zip(second, wanted, strict=True):
        np.testing.assert_allclose(0.0 if got is None else got.numpy(), want, rtol=1e-5, atol=1e-6)


@QUICK
@given(STEPS, st.integers(0, 999), st.lists(st.integers(0, 9), max_size=3))
def test_hooks_and_retained_gradients_see_what_grad_gives(steps: list[Step], seed: int, seen: list[int]) -> None:
    """Gradients of what lies in between, in the three ways to get at them; the graph is walked back several times."""
    leaves = leaves_of(start(seed))
    pool = [leaf * 1.0 for leaf in leaves]
    for name, i, j in steps:
        if name in NEW:
            pool.append(NEW[name](pool[i % len(pool)], pool[j % len(pool)]))
    total = pool[0].sum()
    for one in pool[1:]:
        total = total + (one * one).sum()
    asked = [pool[i % len(pool)] for i in seen]
    told: list[np.ndarray] = []
    handles = [t.register_hook(lambda g: told.append(g.numpy())) for t in asked]
    for t in asked:
        t.retain_grads()
    total.backward(retain_graph=True)
    assert len(told) == len(asked)
    assert all(handle.remove() for handle in handles)
    for t, g in zip(asked, paddle.grad(total, asked, retain_graph=True) if asked else [], strict=True):
        np.testing.assert_array_equal(g.numpy(), t.grad.numpy())
        assert any(np.array_equal(g.numpy(), one) for one in told)
    once = [leaf.grad.numpy() for leaf in leaves]
    total.backward()
    assert len(told) == len(asked)
    for leaf, first in zip(leaves, once, strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), 2 * first, rtol=1e-12)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@QUICK
@given(STEPS, st.integers(0, 999))
def test_gradients_are_those_of_pytorch(steps: list[Step], seed: int) -> None:
    import torch

    arrays = start(seed)
    ours, theirs = leaves_of(arrays), [torch.tensor(a, requires_grad=True) for a in arrays]
    try:
        value(steps, ours).backward()
        value(steps, theirs).backward()
    except (PreconditionNotMet, RuntimeError):
        return  # what is refused depends on what a gradient is made of
    for mine, other in zip(ours, theirs, strict=True):
        want = np.zeros((N, N)) if other.grad is None else other.grad.numpy()
        np.testing.assert_allclose(0.0 if mine.grad is None else mine.grad.numpy(), want, rtol=1e-8, atol=1e-10)
