"""Numbers in CUDA C++: how each dtype lies in memory, what it is computed as, constants, and the functions of bodies.

A float16 or bfloat16 number is a `float` in registers that has the value of one; so sums, products, quotients and roots
of two of them, rounded once more, have the bits that NumPy gives them. Functions follow NumPy where C does not: what
meets NaN, remainders with the sign of the divisor, whole quotients by zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import Unavailable
from workbench.framework.values.dtype import as_dtype

_STORED = {
    "float16": "half_bits", "bfloat16": "bfloat_bits", "float32": "float", "float64": "double", "bool": "bool",
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "int32": "int", "int64": "long long",
    "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
}  # fmt: skip
_ROUNDED = {"float16": "as_half", "bfloat16": "as_bfloat"}
HALVES = tuple(_ROUNDED)


class NoKernel(Unavailable):
    """There is no CUDA kernel for this; the message says why."""


def stored(dtype: Any) -> str:
    """The type of an element in memory."""
    name = as_dtype(dtype).name
    if name not in _STORED:
        raise NoKernel(f"no kernel of GPUs works on {name}")
    return _STORED[name]


def held(dtype: Any) -> str:
    """The type of a number in a register."""
    return "float" if as_dtype(dtype).name in HALVES else stored(dtype)


def load(pointer: str, at: str) -> str:
    """Read an element as the number it is."""
    return f"number_of({pointer}[{at}])"


def store(pointer: str, at: str, value: str, dtype: Any) -> str:
    """Write a number, rounded to the element's dtype."""
    return f"put({pointer} + ({at}), {value});"


def converted(value: str, source: Any, target: Any) -> str:
    """A number in another dtype, as NumPy's `astype` gives it."""
    old, new = as_dtype(source), as_dtype(target)
    if old.name == new.name:
        return value
    if new.name == "bool":
        return f"({value} != 0)"
    if new.name in HALVES:
        through = "rounded_to_half" if new.name == "float16" and old.name == "float64" else ""
        return f"{through}({value})" if through else rounded(f"(float)({value})", new)
    if old.is_float and not new.is_float:
        return f"({held(new)})whole_number({value})"
    return f"({held(new)})({value})"


def rounded(value: str, dtype: Any) -> str:
    """What was computed in float, as the nearest number of a dtype."""
    function = _ROUNDED.get(as_dtype(dtype).name)
    return value if function is None else f"{function}({value})"


def literal(value: Any, dtype: Any) -> str:
    """A constant with exactly this value."""
    name = as_dtype(dtype).name
    if name == "bool":
        return "true" if value else "false"
    if name in ("int64", "uint64"):
        return f"(({_STORED[name]})0x{int(value) % 2**64:x}ull)"
    if name.startswith(("int", "uint")):
        return f"(({_STORED[name]}){int(value)})"
    if name == "float64":
        bits = int(np.float64(value).view(np.uint64))
        return _finite(float(value), "") or f"__longlong_as_double(0x{bits:x})"
    number = np.float32(value)
    return _finite(float(number), "f") or f"__int_as_float(0x{int(number.view(np.uint32)):x})"


def _finite(value: float, suffix: str) -> str:
    if not math.isfinite(value):
        return ""
    text = f"{value.hex()}{suffix}"
    return f"({text})" if text.startswith("-") else text


_SIMPLE = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "negative": "-{0}", "square": "{0} * {0}",
    "equal": "{0} == {1}", "not_equal": "{0} != {1}", "less": "{0} < {1}", "less_equal": "{0} <= {1}",
    "greater": "{0} > {1}", "greater_equal": "{0} >= {1}",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
    "logical_and": "({0} != 0) && ({1} != 0)", "logical_or": "({0} != 0) || ({1} != 0)",
    "logical_xor": "({0} != 0) != ({1} != 0)", "logical_not": "{0} == 0", "divide": "{0} / {1}",
}  # fmt: skip
_OF_TRUTHS = {"add": "{0} || {1}", "multiply": "{0} && {1}", "maximum": "{0} || {1}", "minimum": "{0} && {1}"}
_OF_FLOATS = {
    "ceil", "cos", "erf", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10",
    "rint", "sin", "sqrt", "tan", "tanh", "arccos", "arcsin", "arctan", "arctan2", "cosh", "sinh", "trunc",
    "reciprocal", "copysign",
}  # fmt: skip
_OF_ALL = {"abs", "sign", "maximum", "minimum", "floor_divide", "remainder", "power"}


def applied(function: str, operands: list[str], kind: str) -> str:
    """A function of numbers of one C++ type, as an expression of C++.

    Args:
        kind: the type, as `held` gives it.

    Raises:
        NoKernel: the function is not defined for such numbers, or not here.
    """
    if kind == "bool" and function in _OF_TRUTHS:
        return _OF_TRUTHS[function].format(*operands)
    if function in _SIMPLE and not (function == "divide" and kind not in ("float", "double")):
        return _SIMPLE[function].format(*operands)
    if kind in ("float", "double"):
        if function in _OF_FLOATS or function in _OF_ALL:
            return f"np_{function}({', '.join(operands)})"
    elif function in _OF_ALL and kind != "bool":
        return f"np_{function}({', '.join(operands)})"
    elif function in ("isfinite", "isinf", "isnan"):
        return "true" if function == "isfinite" else "false"
    elif function in ("ceil", "floor", "rint", "trunc"):
        return operands[0]
    raise NoKernel(f"no kernel of GPUs computes {function} of {kind}")


def _both(name: str, single: str, double: str) -> str:
    return (
        f"__device__ __forceinline__ float np_{name}(float x) {{ return {single}(x); }}\n"
        f"__device__ __forceinline__ double np_{name}(double x) {{ return {double}(x); }}\n"
    )


_LIBRARY = {
    "ceil": "ceil", "cos": "cos", "erf": "erf", "exp": "exp", "expm1": "expm1", "floor": "floor", "log": "log",
    "log1p": "log1p", "log2": "log2", "log10": "log10", "rint": "rint", "sin": "sin", "sqrt": "sqrt", "tan": "tan",
    "tanh": "tanh", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "cosh": "cosh", "sinh": "sinh",
    "trunc": "trunc",
}  # fmt: skip

_MEMORY = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

struct half_bits { unsigned short bits; };
struct bfloat_bits { unsigned short bits; };

__device__ __forceinline__ float number_of(half_bits x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ __forceinline__ float number_of(bfloat_bits x) { return __uint_as_float((unsigned)x.bits << 16); }
template <class T> __device__ __forceinline__ T number_of(T x) { return x; }

__device__ __forceinline__ void put(half_bits* at, float x) { at->bits = __half_as_ushort(__float2half_rn(x)); }
__device__ __forceinline__ void put(bfloat_bits* at, float x) {
  at->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
template <class T, class U> __device__ __forceinline__ void put(T* at, U x) { *at = (T)x; }

__device__ __forceinline__ float as_half(float x) { return __half2float(__float2half_rn(x)); }
__device__ __forceinline__ float rounded_to_half(double x) { return __half2float(__double2half(x)); }
__device__ __forceinline__ float as_bfloat(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }

// What has no place among the integers becomes the least one, as on x86.
template <class T> __device__ __forceinline__ long long whole_number(T x) {
  return x >= (T)-9223372036854775808.0 && x < (T)9223372036854775808.0 ? (long long)x : (long long)(1ull << 63);
}
"""

_FUNCTIONS = r"""
template <class T> __device__ __forceinline__ bool np_isnan(T x) { return x != x; }
template <class T> __device__ __forceinline__ bool np_isfinite(T x) { return x - x == 0; }
template <class T> __device__ __forceinline__ bool np_isinf(T x) { return x == x && !(x - x == 0); }
template <class T> __device__ __forceinline__ T np_reciprocal(T x) { return (T)1 / x; }
__device__ __forceinline__ float np_abs(float x) { return fabsf(x); }
__device__ __forceinline__ double np_abs(double x) { return fabs(x); }
template <class T> __device__ __forceinline__ T np_abs(T x) { return x < 0 ? (T)-x : x; }
template <class T> __device__ __forceinline__ T np_sign(T x) {
  return x != x ? x : (T)((x > 0) - (x < 0));
}
template <class T> __device__ __forceinline__ T np_maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> __device__ __forceinline__ T np_minimum(T a, T b) { return a != a || a < b ? a : b; }
__device__ __forceinline__ float np_copysign(float a, float b) { return copysignf(a, b); }
__device__ __forceinline__ double np_copysign(double a, double b) { return copysign(a, b); }
__device__ __forceinline__ float np_arctan2(float a, float b) { return atan2f(a, b); }
__device__ __forceinline__ double np_arctan2(double a, double b) { return atan2(a, b); }
__device__ __forceinline__ float np_power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double np_power(double a, double b) { return pow(a, b); }
__device__ __forceinline__ float c_fmod(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double c_fmod(double a, double b) { return fmod(a, b); }

// Integers: a power wraps, a quotient by zero is zero, and the rest has the sign of the divisor.
template <class T> __device__ __forceinline__ T np_power(T a, T b) {
  T result = 1;
  while (b > 0) {
    if (b & 1) result = (T)(result * a);
    a = (T)(a * a);
    b = (T)(b >> 1);
  }
  return result;
}
template <class T> __device__ __forceinline__ T np_floor_divide(T a, T b) {
  if (b == 0) return 0;
  if ((T)-1 < 0 && b == (T)-1) return (T)(0 - a);
  T whole = (T)(a / b);
  return a % b != 0 && (a < 0) != (b < 0) ? (T)(whole - 1) : whole;
}
template <class T> __device__ __forceinline__ T np_remainder(T a, T b) {
  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
  T rest = (T)(a % b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}

template <class T> __device__ __forceinline__ T float_remainder(T a, T b) {
  T rest = c_fmod(a, b);
  if (b == 0) return rest;
  if (rest == 0) return np_copysign((T)0, b);
  return (b < 0) != (rest < 0) ? rest + b : rest;
}
template <class T> __device__ __forceinline__ T float_floor_divide(T a, T b) {
  if (b == 0) return a / b;
  T rest = c_fmod(a, b);
  T quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return np_copysign((T)0, a / b);
  T whole = np_floor(quotient);
  return quotient - whole > (T)0.5 ? whole + 1 : whole;
}
__device__ __forceinline__ float np_remainder(float a, float b) { return float_remainder(a, b); }
__device__ __forceinline__ double np_remainder(double a, double b) { return float_remainder(a, b); }
__device__ __forceinline__ float np_floor_divide(float a, float b) { return float_floor_divide(a, b); }
__device__ __forceinline__ double np_floor_divide(double a, double b) { return float_floor_divide(a, b); }
"""

PREAMBLE = _MEMORY + "".join(_both(name, f"{own}f", own) for name, own in _LIBRARY.items()) + _FUNCTIONS
"""What every generated source begins with."""
