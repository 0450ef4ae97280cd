"""Normal random numbers, as `framework.values.random` makes them: Box and Muller's transform, computed in float64.

The logarithm, sine and cosine are those of FreeBSD's msun (e_log.c, k_sin.c, k_cos.c: Sun Microsystems, 1993), whose
error is below one unit in the last place of a float64. Rounded to float32 they give NumPy's bits but for a few numbers
in a billion; float64 are within a few units of NumPy's.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.arguments import Ints, Reals
from workbench.runtime.kernels.intrinsics import INTS, behind, function
from workbench.runtime.kernels.random.streams import draw_blocks, fraction
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words import stream as stream_words
from workbench.runtime.words.stream import CHUNK

_PER_BLOCK = 4  # words
_ROOM = CHUNK // 4  # words of each of the two regions `words` has
_PART = _ROOM - 2 * _PER_BLOCK  # pairs drawn at a time: a region begins and ends with a whole block
_TURN = 6.283185307179586

_ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_QUARTER_HIGH, _QUARTER_LOW = 1.57079632673412561417e00, 6.07710050650619224932e-11  # of a turn: pi / 2


@intrinsic
def _bits(context: Any, number: Any) -> Any:
    """The bits of a float64."""
    return types.int64(types.float64), lambda c, b, s, args: b.bitcast(args[0], ir.IntType(64))


@intrinsic
def _of_bits(context: Any, bits: Any) -> Any:
    """The float64 of these bits."""
    return types.float64(types.int64), lambda c, b, s, args: b.bitcast(args[0], ir.DoubleType())


@function
def log(x):
    """Of a normal number above 0."""
    bits = _bits(x)
    exponent = (bits - _ROOT_HALF) >> 52
    f = _of_bits(bits - (exponent << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    odd = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    half = 0.5 * f * f
    k = float(exponent)
    return k * _LN2_HIGH - ((half - (s * (half + (even + odd)) + k * _LN2_LOW)) - f)


@function
def sine(x):
    """For |x| <= pi / 4."""
    z = x * x
    r = 8.33333333332248946124e-03 + z * (
        -1.98412698298579493134e-04
        + z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10))
    )
    return x + z * x * (-1.66666666666666324348e-01 + z * r)


@function
def cosine(x):
    """For |x| <= pi / 4."""
    z = x * x
    r = z * (
        4.16666666666666019037e-02
        + z
        * (
            -1.38888888888741095749e-03
            + z
            * (
                2.48015872894767294178e-05
                + z * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 - z * 1.13596475577881948265e-11))
            )
        )
    )
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + z * r)


@function
def both_of_pair(first, second):
    """Two normal numbers, as float64, of two words."""
    radius = sqrt(-2.0 * log(1.0 - fraction(first)))
    angle = _TURN * fraction(second)
    quarter = int(angle / (_TURN / 4) + 0.5)
    x = (angle - quarter * _QUARTER_HIGH) - quarter * _QUARTER_LOW
    s, c = sine(x), cosine(x)
    if quarter & 1:
        s, c = c, -s
    if quarter & 2:
        s, c = -s, -c
    return radius * c, radius * s


@function
def draw_from(stream, start, count, words):
    """`count` words of a stream from number `start` on; how far behind the beginning of `words` they begin."""
    skipped = start % _PER_BLOCK
    draw_blocks(stream, start // _PER_BLOCK, (skipped + count + _PER_BLOCK - 1) // _PER_BLOCK, words)
    return skipped


@kernel(words=stream_words)
def draw_normal(stream: Ints("KEY_WORDS"), words: Ints(extent="4 * CHUNK"), out: Reals("count"), count):
    """out[i] = normal number i of the stream, the sines in the second half; `words`: memory for CHUNK numbers.

    Number i and number `pairs` + i are made of the words i and `pairs` + i.
    """
    pairs = (count + 1) // 2
    for start in range(0, pairs, _PART):
        n = min(_PART, pairs - start)
        first = draw_from(stream, start, n, words)
        second = _ROOM + draw_from(stream, pairs + start, n, words_behind(words))
        cosines, sines = behind(out, start), behind(out, pairs + start)
        for i in range(n):
            a, b = both_of_pair(words[first + i], words[second + i])
            cosines[i] = a
            if pairs + start + i < count:
                sines[i] = b
    return 0


@intrinsic
def words_behind(context: Any, words: Any) -> Any:
    """The second of the two regions."""
    return INTS(INTS), lambda c, b, s, args: b.gep(args[0], [ir.IntType(64)(_ROOM)])
