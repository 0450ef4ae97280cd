"""Random numbers of kernels: the bits of `framework.values.random`, which draws with NumPy's generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.one_row import run_row
from workbench.framework.values.random import RandomStream
from workbench.runtime.words.codes import DONE
from workbench.runtime.words.stream import BITS, CHUNK

WORDS = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))
STREAMS = st.builds(RandomStream, WORDS, WORDS, WORDS, WORDS, WORDS)
REALS = st.sampled_from([np.float32, np.float64])
COUNTS = st.one_of(st.integers(1, 40), st.sampled_from([CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3]))


def memory(stream: RandomStream) -> tuple[np.ndarray, np.ndarray]:
    """The words of a stream, and memory for random words."""
    return np.array(stream.state, np.uint64), np.zeros(CHUNK, np.float32)


@settings(max_examples=60, deadline=None)
@given(stream=STREAMS, count=COUNTS, shift=st.integers(0, 3), dtype=REALS)
def test_uniform(stream: RandomStream, count: int, shift: int, dtype: Any) -> None:
    out = np.full(count + shift + 1, 7, dtype)
    assert run_row("draw_uniform", *memory(stream), out[shift:], count) == DONE
    np.testing.assert_array_equal(out[shift:-1], stream.uniform(np, (count,), dtype))
    assert out[-1] == 7


@settings(max_examples=60, deadline=None)
@given(stream=STREAMS, count=COUNTS, least=st.sampled_from([0, 1, 2**23, 5033165, 2**BITS - 1, 2**BITS]))
def test_truths(stream: RandomStream, count: int, least: int) -> None:
    out = np.full(count + 1, 7, np.uint8)
    assert run_row("draw_truths", *memory(stream), out, count, least) == DONE
    np.testing.assert_array_equal(out[:-1], stream.uniform(np, (count,), np.float32) >= least / 2**BITS)
    assert out[-1] == 7


@pytest.mark.parametrize("stream", [RandomStream(-1, 3), RandomStream(2**70 + 1, 0, 1, -2)])
def test_words_are_the_last_64_bits(stream: RandomStream) -> None:
    out = np.empty(9, np.float32)
    assert run_row("draw_uniform", *memory(stream), out, 9) == DONE
    np.testing.assert_array_equal(out, stream.uniform(np, (9,), np.float32))


@settings(max_examples=60, deadline=None)
@given(stream=STREAMS, count=COUNTS, low=st.integers(-9, 9), span=st.sampled_from([1, 2, 1000, 2**40 + 7]))
def test_integers(stream: RandomStream, count: int, low: int, span: int) -> None:
    out = np.full(count + 1, 7, np.int64)
    assert run_row("draw_integers", *memory(stream), out, count, low, span) == DONE
    np.testing.assert_array_equal(out[:-1], stream.integers(np, low, low + span, (count,), np.int64))
    assert out[-1] == 7


@settings(max_examples=60, deadline=None)
@given(stream=STREAMS, count=COUNTS, dtype=REALS)
def test_chances(stream: RandomStream, count: int, dtype: Any) -> None:
    x, out = np.random.default_rng(count).random(count).astype(dtype), np.full(count + 1, 7, dtype)
    x[:: 1 + count % 5] = (1.0, 0.0, np.nan)[count % 3]
    assert run_row("draw_chances", *memory(stream), x, out, count) == DONE
    np.testing.assert_array_equal(out[:-1], stream.uniform(np, (count,), np.float64) < x)
    assert out[-1] == 7
