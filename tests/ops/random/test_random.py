"""Random streams and ops: the generator's words, the distributions, and what a number depends on."""

from __future__ import annotations

import math
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench.ops  # fills the op table
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.evaluate import Evaluator
from workbench.framework.op.record import OPS, find_op
from workbench.framework.op.recorder import recording
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.ndtri import ndtri
from workbench.framework.values.random import RandomStream, position
from workbench.ops.random.distributions import normal, randint, uniform

WORD = (1 << 64) - 1
N = 20_000


# Philox4x64-10, written down from the paper: Salmon et al., SC 2011, section 3.3


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> list[int]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * c0, 1 << 64)
        high1, low1 = divmod(0xCA5A826395121157 * c2, 1 << 64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return [c0, c1, c2, c3]


# Published with the authors' library Random123, file kat_vectors: counter, key, answer
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0),
     (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
    ((WORD, WORD, WORD, WORD), (WORD, WORD),
     (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0)),
    ((0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
     (0x452821E638D01377, 0xBE5466CF34E90C6C),
     (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6)),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS, ids=["zeros", "ones", "pi"])
def test_the_slow_philox_gives_the_published_answers(counter: Any, key: Any, answer: Any) -> None:
    assert philox(counter, key) == list(answer)


words = st.integers(0, WORD)


@settings(max_examples=40, deadline=None)
@given(words, words, words, words, words, st.integers(1, 13))
def test_words_are_philox_of_the_key(seed: int, op: int, place: int, step: int, trip: int, count: int) -> None:
    got = RandomStream(seed, op, place, step, trip).words(count).tolist()
    blocks = [philox((k + 1, step, place, trip), (seed, op)) for k in range(-(-count // 4))]
    assert got == [word for block in blocks for word in block][:count]


# Distributions: Kolmogorov-Smirnov at fixed keys; the threshold is passed by 1 right sample in 1000

KEY = RandomStream(seed=20, op=4, place=1, step=9)
DISTRIBUTIONS = {
    "uniform_random": ({"min": -2.0, "max": 3.0}, scipy.stats.uniform(-2, 5).cdf),
    "gaussian_random": ({"mean": 1.0, "std": 2.0}, scipy.stats.norm(1, 2).cdf),
    "truncated_gaussian_random": ({"mean": -1.0, "std": 0.5}, scipy.stats.truncnorm(-2, 2, loc=-1, scale=0.5).cdf),
}


def draw(type: str, stream: RandomStream = KEY, **attrs: Any) -> np.ndarray:
    op = find_op(type)
    return op.forward(numpy_xp, rng=stream, **op.complete(attrs))


@pytest.mark.parametrize("type", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distribution(type: str, dtype: str) -> None:
    attrs, cdf = DISTRIBUTIONS[type]
    numbers = draw(type, shape=[N], dtype=dtype, **attrs)
    assert numbers.dtype == dtype
    assert scipy.stats.kstest(numbers.astype(np.float64), cdf).pvalue > 1e-3


@pytest.mark.parametrize("type", DISTRIBUTIONS)
def test_moments(type: str) -> None:
    """Mean, variance and skewness lie within five standard errors; neighbours do not correlate."""
    attrs, _ = DISTRIBUTIONS[type]
    x = draw(type, shape=[N], dtype="float64", **attrs)
    frozen = {
        "uniform_random": scipy.stats.uniform(-2, 5),
        "gaussian_random": scipy.stats.norm(1, 2),
        "truncated_gaussian_random": scipy.stats.truncnorm(-2, 2, loc=-1, scale=0.5),
    }[type]
    mean, variance, skew, kurtosis = (float(m) for m in frozen.stats("mvsk"))
    assert abs(x.mean() - mean) < 5 * math.sqrt(variance / N)
    assert abs(x.var() - variance) < 5 * variance * math.sqrt((kurtosis + 2) / N)
    assert abs(scipy.stats.skew(x) - skew) < 5 * math.sqrt(15 / N)
    for lag in (1, 2, 4, N // 2):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / math.sqrt(N - lag)


def test_integers_are_equally_likely() -> None:
    x = draw("randint", shape=[N], low=-3, high=14)
    counts = np.bincount(x + 3, minlength=17)
    assert counts.sum() == N and scipy.stats.chisquare(counts).pvalue > 1e-3


def test_permutations_are_equally_likely() -> None:
    seen = [tuple(draw("randperm", RandomStream(3, op=k), n=4)) for k in range(2400)]
    counts = list({p: seen.count(p) for p in seen}.values())
    assert len(counts) == 24 and scipy.stats.chisquare(counts).pvalue > 1e-3


def test_coins_fall_as_told() -> None:
    p = np.repeat([0.1, 0.5, 0.9], N)
    heads = find_op("bernoulli").forward(numpy_xp, p, rng=KEY, seed=0, stream=0, startup=0).reshape(3, N).sum(axis=1)
    for k, probability in zip(heads, (0.1, 0.5, 0.9), strict=True):
        assert scipy.stats.binomtest(int(k), N, probability).pvalue > 1e-3


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 1, exclude_min=True, exclude_max=True, allow_subnormal=False))
def test_inverse_normal_distribution(p: float) -> None:
    expected = scipy.special.ndtri(p)
    assert abs(float(ndtri(np.array(p))) - expected) <= 4e-15 * max(abs(expected), 1e-2)


def constant_stream(word: int) -> RandomStream:
    """A stream of which every word is the same."""
    stream = RandomStream(0)
    object.__setattr__(stream, "words", lambda n: np.full(n, word, np.uint64))  # it is a frozen dataclass
    return stream


@pytest.mark.parametrize("word", [0, WORD])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers_stay_in_the_half_open_range(word: int, dtype: str) -> None:
    """The extreme words neither reach the upper bound nor leave the range, in any dtype."""
    kind = as_dtype(dtype).numpy
    stream = constant_stream(word)
    unit = stream.uniform(np, (3,), kind).astype(np.float64)
    assert (unit >= 0).all() and (unit < 1).all()
    for low, high in ((1.0, 2.0), (-1.0, 1.0), (-3.0, 700.0)):
        x = draw("uniform_random", stream, shape=[3], dtype=dtype, min=low, max=high).astype(np.float64)
        assert (x >= low).all() and (x < high).all()


@pytest.mark.parametrize("word", [0, WORD])
def test_normal_numbers_are_finite(word: int) -> None:
    stream = constant_stream(word)
    assert np.isfinite(stream.normal(np, (5,), np.float64)).all()
    assert (np.abs(stream.truncated_normal(np, (5,), np.float64)) <= 2).all()


# What the numbers depend on

RANDOM_OPS = sorted(t for t, record in OPS.items() if "rng" in record.needs and not record.inputs)


def sample(type: str, stream: RandomStream) -> np.ndarray:
    sizes = {"n": 40} if type == "randperm" else {"shape": [40]}
    more = {"low": 0, "high": 1 << 40} if type == "randint" else {}
    return draw(type, stream, **sizes, **more)


@pytest.mark.parametrize("type", RANDOM_OPS)
def test_the_same_key_gives_the_same_bits(type: str) -> None:
    np.testing.assert_array_equal(sample(type, KEY), sample(type, RandomStream(20, 4, 1, 9)))


@pytest.mark.parametrize("type", RANDOM_OPS)
@pytest.mark.parametrize("field", ["seed", "op", "place", "step", "trip"])
def test_every_part_of_the_key_matters(type: str, field: str) -> None:
    parts = {"seed": 20, "op": 4, "place": 1, "step": 9, "trip": 0}
    other = RandomStream(**{**parts, field: parts[field] + 1})
    same = np.mean(sample(type, KEY) == sample(type, other))
    assert same < 0.5  # a permutation of 40 may agree here and there


def test_streams_do_not_depend_on_the_order_of_use() -> None:
    keys = [RandomStream(5, op, place, step) for op in range(3) for place in range(2) for step in range(2)]
    forward = [sample("gaussian_random", k) for k in keys]
    backward = [sample("gaussian_random", k) for k in reversed(keys)][::-1]
    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_longer_draw_begins_with_the_shorter_one() -> None:
    np.testing.assert_array_equal(KEY.words(100)[:37], KEY.words(37))


def test_calls_outside_a_program_differ() -> None:
    with recording(Evaluator(numpy_xp)):
        one, two = (np.asarray(uniform([100]).array) for _ in range(2))
    assert not np.array_equal(one, two)


# Public functions


def test_normal_takes_tensors() -> None:
    with recording(Evaluator(numpy_xp)):
        mean = randint(0, 9, [3, 1]).astype("float64") * 100
        x = normal(mean, 0.5)
        assert x.shape == (3, 1) and x.dtype == "float64"
        assert (abs(x.array - mean.array) < 5).all()
        assert normal().shape == (1,)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: uniform([2], min=1.0, max=0.0), "max >= 1.0"),
        (lambda: uniform([2], dtype="int32"), "floating"),
        (lambda: uniform([-1, 2]), "dimensions >= 0"),
        (lambda: randint(3, 3), "high > 3"),
        (lambda: randint(0, 300, dtype="uint8"), r"uint8 does not hold"),
        (lambda: randint(0, 3, dtype="float32"), "integer dtype"),
        (lambda: normal(uniform([2]), 1.0, shape=[2]), "leave shape out"),
        (lambda: workbench.ops.random.distributions.randperm(0), "at least one"),
    ],
)
def test_wrong_arguments_are_named(call: Any, words: str) -> None:
    from workbench.dygraph.dispatch.recorder import dynamic_recorder

    with recording(dynamic_recorder), pytest.raises(ValueError, match=words):
        call()


def test_threads_that_ask_where_the_streams_stand_have_none_given_twice() -> None:
    interval, stopped = sys.getswitchinterval(), threading.Event()
    before = position()[1]

    def draw() -> list[int]:
        return [RandomStream.dynamic().op for _ in range(20_000)]

    def ask() -> list[int]:
        told = []
        while not stopped.is_set():
            told.append(position()[1])
        return told

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as pool:
            asked, drawn = pool.submit(ask), [pool.submit(draw) for _ in range(2)]
            numbers = [number for one in drawn for number in one.result(60)]
            stopped.set()
            told = asked.result(60)
    finally:
        stopped.set()
        sys.setswitchinterval(interval)
    assert sorted(numbers) == list(range(before + 1, before + 40_001)) and told == sorted(told)
    assert position()[1] == before + 40_000
