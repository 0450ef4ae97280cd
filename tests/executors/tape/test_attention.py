"""Attention as one row of a tape: the bits of the rows it stands for, and the numbers of the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.tape.runs import tape
from tests.parallel.models import devices
from workbench import static
from workbench.config import override
from workbench.executors.lowering.tape.segment import Segment

F = wb.nn.functional
FUSED = {"fused_dot_product_attention", "fused_dot_product_attention_grad"}
Outcome = tuple[list[np.ndarray], set[str], set[str]]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def heads(t: Any) -> Any:
    """[batch, length, heads, d] as people turn it."""
    return wb.transpose(t, [0, 2, 1, 3])


def together(o: Any) -> Any:
    """All heads side by side, which results are written for."""
    return wb.reshape(heads(o), [0, 0, o.shape[1] * o.shape[3]])


def causal(rows: int, columns: int, hidden: float = -1e9) -> np.ndarray:
    return np.triu(np.full((rows, columns), hidden, np.float32), 1)


def scaled(q: Any, k: Any, v: Any, mask: Any) -> Any:
    weights = F.softmax(wb.matmul(heads(q), heads(k), transpose_y=True) * 0.3 + mask)
    return together(wb.matmul(weights, heads(v)))


def divided(q: Any, k: Any, v: Any, mask: Any) -> Any:
    weights = F.softmax(mask + wb.matmul(heads(q), heads(k), transpose_y=True) / 3.5, axis=-1)
    return wb.matmul(weights, heads(v))


def turned(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return wb.matmul(F.softmax(wb.matmul(heads(q), wb.transpose(k, [0, 2, 3, 1])) + mask), heads(v))


def unmasked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return together(wb.matmul(F.softmax(wb.matmul(heads(q * 0.25), heads(k), transpose_y=True)), heads(v)))


def flat(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Of one head, without its dimension."""
    q, k, v = (wb.squeeze(t, axis=[2]) for t in (q, k, v))
    return wb.matmul(F.softmax(wb.matmul(q, k, transpose_y=True) * 0.5 + mask), v)


def by_function(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


PADDED = np.where(np.arange(300) < np.array([300, 70, 1])[:, None, None, None], 0, -1e4).astype(np.float32)
SPOILT = numbers(2, 130, 2, 16)
SPOILT[1, -1, 0, 3] = np.nan  # of the last position, which only the last query sees

# form, batch, queries, keys, heads, d, width of values, mask
CASES: dict[str, tuple[Any, ...]] = {
    "causal": (scaled, 2, 130, 130, 3, 16, 16, causal(130, 130)),
    "causal, strips": (divided, 1, 97, 260, 2, 24, 33, causal(97, 260, -np.inf)),
    "padded": (by_function, 3, 50, 300, 2, 8, 70, PADDED),
    "keys turned": (turned, 2, 60, 49, 2, 80, 9, causal(60, 49)),
    "unmasked": (unmasked, 2, 65, 66, 2, 12, 17, causal(1, 1)),
    "one head": (flat, 3, 20, 70, 1, 16, 8, causal(20, 70)),
    "a mask that says little": (scaled, 2, 100, 150, 2, 16, 16, numbers(2, 2, 100, 150) * 30),
    "everything hidden": (scaled, 1, 50, 130, 1, 8, 8, np.full((50, 130), -1e9, np.float32)),
    "a mask by columns": (scaled, 2, 40, 70, 1, 8, 8, numbers(70, 40).T),
    "small": (scaled, 2, 5, 7, 2, 9, 8, causal(5, 7)),
}


def run(
    form: Callable[..., Any], feed: dict[str, np.ndarray], fused: bool, count: int = 1, threads: int = 1
) -> Outcome:  # fmt: skip
    """Result and gradients, the types of nodes, and of those that ran as NumPy calls."""
    with Built() as built:
        lengths = {n: feed[n].shape[1] if feed[n].shape[1] >= 8 else None for n in "qkv"}
        q, k, v = (static.data(n, [None, lengths[n], *feed[n].shape[2:]]) for n in "qkv")
        mask = wb.assign(feed["mask"])
        if not feed["mask"].flags.c_contiguous:
            mask = wb.transpose(wb.assign(feed["mask"].T), [1, 0])
        for x in (q, k, v):
            x.stop_gradient = False
        out = form(q, k, v, mask)
        loss = wb.mean(out * out)
        grads = static.gradients(loss, [q, k, v])
    strategy, execution = static.BuildStrategy(), static.ExecutionStrategy()
    strategy.fused_attention, execution.num_threads = fused, threads
    with devices(count):
        exe = static.ParallelExecutor(
            False, loss.name, built.main, build_strategy=strategy, exec_strategy=execution, scope=static.Scope()
        )
    given = {n: feed[n] for n in "qkv"}
    results = [np.array(a) for a in exe.run([x.name for x in (out, *grads)], feed=given)]
    binding = exe.inspection.last
    units = [unit for program in (*binding.speculative, *binding.commit) for unit in program.units]
    rows = {row.node.type for row in exe.inspection.plans[-1].rows}
    return results, rows, {unit.row.node.type for unit in units if not isinstance(unit, Segment)}


def feed_of(case: str) -> dict[str, np.ndarray]:
    _, batch, m, n, count, d, e, mask = CASES[case]
    q, k, v = numbers(batch, m, count, d), numbers(batch, n, count, d), numbers(batch, n, count, e)
    return {"q": q, "k": k * 2, "v": v, "mask": mask}


def same_bits(ones: list[np.ndarray], others: list[np.ndarray]) -> None:
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("case", CASES)
def test_one_row_has_the_bits_of_many(case: str) -> None:
    form, feed = CASES[case][0], feed_of(case)
    with tape():
        results, rows, by_numpy = run(form, feed, True)
        expected, others, _ = run(form, feed, False)
    assert rows >= FUSED and "softmax" not in rows and not by_numpy & FUSED and not others & FUSED
    assert all(np.isfinite(a).all() for a in results)
    same_bits(results, expected)


@pytest.mark.parametrize("case", CASES)
def test_calls_have_the_bits_of_many(case: str) -> None:
    form, feed = CASES[case][0], feed_of(case)
    with override(cpu_tape=False):
        same_bits(run(form, feed, True)[0], run(form, feed, False)[0])


def test_what_is_hidden_still_spoils_what_reads_it() -> None:
    """0 times NaN is NaN: keys are left out only where that makes no difference."""
    feed = {"q": numbers(2, 130, 2, 16), "k": numbers(2, 130, 2, 16), "v": SPOILT, "mask": causal(130, 130)}
    with tape():
        results, expected = (run(scaled, feed, fused)[0] for fused in (True, False))
    assert np.isnan(results[0][1]).any() and np.isfinite(results[0][0]).all()
    same_bits(results, expected)


@pytest.mark.parametrize("case", ["causal", "causal, strips"])
@pytest.mark.parametrize("count", [1, 2])
def test_threads_change_no_bit(case: str, count: int) -> None:
    form, feed = CASES[case][0], feed_of(case)
    feed |= {n: np.concatenate([feed[n]] * 4) for n in "qkv"}
    with tape():
        expected = run(form, feed, False, count)[0]
        for threads in (1, 2, 5):
            same_bits(run(form, feed, True, count, threads)[0], expected)


@pytest.mark.parametrize("case", ["causal", "padded", "keys turned"])
def test_the_formula_says_the_same(case: str) -> None:
    form, *_, mask = CASES[case]
    feed = feed_of(case)
    by = {scaled: 0.3, by_function: 8**-0.5, turned: 1.0}[form]
    q, k, v = (feed[n].astype(np.float64).swapaxes(1, 2) for n in "qkv")
    scores = q @ k.swapaxes(-1, -2) * by + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    if form is not turned:
        expected = expected.swapaxes(1, 2)
    with tape():
        results = run(form, feed, True)[0][0]
    np.testing.assert_allclose(results, expected.reshape(results.shape), rtol=1e-4, atol=1e-5)
