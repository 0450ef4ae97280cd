"""What numba's Python lacks: addresses as pointers, atomic words, calls by address, single instructions."""

from __future__ import annotations

import platform
import sys
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

FLOATS, DOUBLES = types.CPointer(types.float32), types.CPointer(types.float64)
HALVES = types.CPointer(types.uint16)
INTS = types.CPointer(types.int64)
BYTES = types.CPointer(types.uint8)
INTS32 = types.CPointer(types.int32)
INT = types.int64
REAL = types.float32
ROW = "row"  # the row itself as INTS, for kernels that take as many words as they like

MACHINE = platform.machine()
IS_X86 = MACHINE in ("x86_64", "AMD64")
YIELD_HINT = 1  # as Arm numbers them
CLOCK_MONOTONIC = 8 if sys.platform == "darwin" else 1  # there CLOCK_UPTIME_RAW, which `time.perf_counter_ns` reads

_I64, _I32, _F32 = ir.IntType(64), ir.IntType(32), ir.FloatType()
_BYTE_POINTER = ir.IntType(8).as_pointer()


def function(body: Any) -> Any:
    """Decorates what kernels call. Sums are computed in the order written."""
    return njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(body)


@intrinsic
def floats(context: Any, address: Any) -> Any:
    """An address as a pointer to float32."""
    return FLOATS(INT), lambda c, b, s, args: b.inttoptr(args[0], c.get_value_type(s.return_type))


@intrinsic
def doubles(context: Any, address: Any) -> Any:
    """An address as a pointer to float64."""
    return DOUBLES(INT), lambda c, b, s, args: b.inttoptr(args[0], c.get_value_type(s.return_type))


@intrinsic
def halves(context: Any, address: Any) -> Any:
    """An address as a pointer to the bits of float16 or bfloat16."""
    return HALVES(INT), lambda c, b, s, args: b.inttoptr(args[0], c.get_value_type(s.return_type))


@intrinsic
def float_bits(context: Any, x: Any) -> Any:
    """The bits of a float32, a uint32."""
    return types.uint32(REAL), lambda c, b, s, args: b.bitcast(args[0], _I32)


@intrinsic
def float_of_bits(context: Any, bits: Any) -> Any:
    """A float32 by its bits."""
    return REAL(types.uint32), lambda c, b, s, args: b.bitcast(args[0], _F32)


@intrinsic
def ints(context: Any, address: Any) -> Any:
    """An address as a pointer to int64."""
    return INTS(INT), lambda c, b, s, args: b.inttoptr(args[0], c.get_value_type(s.return_type))


@intrinsic
def truths(context: Any, address: Any) -> Any:
    """An address as a pointer to bytes."""
    return BYTES(INT), lambda c, b, s, args: b.inttoptr(args[0], c.get_value_type(s.return_type))


@intrinsic
def address_of(context: Any, pointer: Any) -> Any:
    """A pointer as an address."""
    return INT(pointer), lambda c, b, s, args: b.ptrtoint(args[0], _I64)


@intrinsic
def behind(context: Any, pointer: Any, count: Any) -> Any:
    """A pointer to what lies so many elements further on."""
    return pointer(pointer, INT), lambda c, b, s, args: b.gep(args[0], [args[1]])


@intrinsic
def bytes_behind(context: Any, pointer: Any, distance: Any) -> Any:
    """The same for a distance in bytes."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        there = b.gep(b.bitcast(args[0], _BYTE_POINTER), [args[1]])
        return b.bitcast(there, args[0].type)

    return pointer(pointer, INT), generate


@intrinsic
def item_of(context: Any, pointer: Any) -> Any:
    """The bytes of an element."""
    return INT(pointer), lambda c, b, s, args: _I64(pointer.dtype.bitwidth // 8)


@intrinsic
def copy_bytes(context: Any, out: Any, source: Any, count: Any) -> Any:
    """`count` bytes that do not overlap."""

    def generate(c: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, source = (builder.inttoptr(a, _BYTE_POINTER) for a in args[:2])
        cgutils.raw_memcpy(builder, out, source, args[2], 1)
        return c.get_dummy_value()

    return types.void(INT, INT, INT), generate


@intrinsic
def pass_line(context: Any, out: Any, source: Any) -> Any:
    """Copy 64 bytes past the caches to where a cache line begins; `drain` before anybody is told of it."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        out, source = (b.inttoptr(a, ir.VectorType(_I64, 8).as_pointer()) for a in args)
        store = b.store(b.load(source, align=1), out, align=64)
        store.set_metadata("nontemporal", b.module.add_metadata([_I32(1)]))
        return c.get_dummy_value()

    return types.void(INT, INT), generate


@intrinsic
def drain(context: Any) -> Any:
    """What was passed by the caches is in memory before anything behind is."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        if IS_X86:
            name = "llvm.x86.sse.sfence"
            b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), []), name), [])
        else:
            b.fence("seq_cst")
        return c.get_dummy_value()

    return types.void(), generate


@intrinsic
def atomic_load(context: Any, address: Any) -> Any:
    """The int64 at an address; everything written before its release is seen afterwards."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        return b.load_atomic(b.inttoptr(args[0], _I64.as_pointer()), "acquire", 8)

    return INT(INT), generate


@intrinsic
def atomic_store(context: Any, address: Any, value: Any) -> Any:
    """Release an int64: who loads it sees everything written before."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        b.store_atomic(args[1], b.inttoptr(args[0], _I64.as_pointer()), "release", 8)
        return c.get_dummy_value()

    return types.void(INT, INT), generate


@intrinsic
def atomic_swap(context: Any, address: Any, old: Any, new: Any) -> Any:
    """Put a number in the place of an int64 if that is `old`; whether it was."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        where = b.inttoptr(args[0], _I64.as_pointer())
        return b.extract_value(b.cmpxchg(where, args[1], args[2], "acq_rel", "acquire"), 1)

    return types.boolean(INT, INT, INT), generate


@intrinsic
def fence(context: Any) -> Any:
    """What was written before is seen by all before anything behind is read."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        b.fence("seq_cst")
        return c.get_dummy_value()

    return types.void(), generate


@intrinsic
def pause(context: Any) -> Any:
    """Tell the processor that this thread is waiting."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        if IS_X86:
            name = "llvm.x86.sse2.pause"
            b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.VoidType(), []), name), [])
        elif MACHINE in ("aarch64", "arm64"):
            hint = ir.FunctionType(ir.VoidType(), [_I32])
            b.call(cgutils.get_or_insert_function(b.module, hint, "llvm.aarch64.hint"), [_I32(YIELD_HINT)])
        return c.get_dummy_value()

    return types.void(), generate


@intrinsic
def call0(context: Any, target: Any) -> Any:
    """Call `int f(void)` by its address."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, []).as_pointer()
        return b.zext(b.call(b.inttoptr(args[0], kind), []), _I64)

    return INT(INT), generate


@intrinsic
def call1(context: Any, target: Any, argument: Any) -> Any:
    """Call `int f(unsigned)` by its address."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I32]).as_pointer()
        return b.zext(b.call(b.inttoptr(args[0], kind), [b.trunc(args[1], _I32)]), _I64)

    return INT(INT, INT), generate


@intrinsic
def call_row(context: Any, target: Any, row: Any) -> Any:
    """Call a kernel, `int64 f(int64 *row)`, by its address."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64]).as_pointer()
        return b.call(b.inttoptr(args[0], kind), [args[1]])

    return INT(INT, INT), generate


@intrinsic
def clock(context: Any, target: Any, buffer: Any) -> Any:
    """Nanoseconds of the clock that Python counts by, by the address of `clock_gettime` and that of 16 bytes to use."""

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I32, _BYTE_POINTER]).as_pointer()
        b.call(b.inttoptr(args[0], kind), [_I32(CLOCK_MONOTONIC), b.inttoptr(args[1], _BYTE_POINTER)])
        words = b.inttoptr(args[1], _I64.as_pointer())
        seconds, rest = b.load(words), b.load(b.gep(words, [_I64(1)]))
        return b.add(b.mul(seconds, _I64(1_000_000_000)), rest)

    return INT(INT, INT), generate


@intrinsic
def gemm(
    context: Any, target: Any, flip_a: Any, flip_b: Any, m: Any, n: Any, k: Any, alpha: Any,
    a: Any, lda: Any, b: Any, ldb: Any, beta: Any, c: Any, ldc: Any,
) -> Any:  # fmt: skip
    """`C = alpha * op(A) op(B) + beta * C`, row-major, by the address of a `cblas_sgemm` or `cblas_dgemm`.

    target: that of the numbers that `c` points to, with 64-bit sizes.
    flip_a, flip_b: 111 as it is, 112 transposed.
    """
    real = c.dtype
    element = ir.DoubleType() if real == types.float64 else _F32
    signature = types.void(INT, INT, INT, INT, INT, INT, real, c, INT, c, INT, real, c, INT)

    def generate(cx: Any, bd: Any, s: Any, args: Any) -> Any:
        p = _BYTE_POINTER
        kinds = [_I32, _I32, _I32, _I64, _I64, _I64, element, p, _I64, p, _I64, element, p, _I64]
        target, fa, fb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = args
        function = bd.inttoptr(target, ir.FunctionType(ir.VoidType(), kinds).as_pointer())
        flags = [_I32(101), bd.trunc(fa, _I32), bd.trunc(fb, _I32)]
        a, b, c = (bd.bitcast(x, p) for x in (a, b, c))
        bd.call(function, [*flags, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc])
        return cx.get_dummy_value()

    return signature, generate
