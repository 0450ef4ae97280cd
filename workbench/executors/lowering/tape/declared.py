"""Ops that declare the row of a kernel written for them (`Op.kernel`): one rule for all of them.

A declaration need not look at what the signature of its kernel says: which dtypes arrays have, and how much memory they
take. Operands have elements and lie in memory row by row, each slot a single tensor. An input of int32 becomes int64
where the kernel reads that; an output that nobody wants is temporary memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import ANY_KERNEL, native
from workbench.executors.lowering.tape.rules import INTEGER, as_int64, operands, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.op.record import Op, TemporaryArray
from workbench.framework.values.spec import spec_of
from workbench.runtime.footprint import Footprint, footprint_of, kernel_for

NARROW = np.dtype(np.int32)

Arrays = Sequence[Any]
Word = Any  # an array, a `TemporaryArray`, None or a number


@native(ANY_KERNEL, integers=True)
def declared_row(writer: TapeWriter, row: Row) -> None:
    """The row that the op declares; one whose kernel does not suit, or is in no image, is left to its NumPy form."""
    record = row.node.record
    outs, ins = operands(writer, row)
    # No list, and no sparse gradient.
    require(all(a is None or (isinstance(a, np.ndarray) and a.size > 0) for a in (*ins, *outs)))
    assert record.kernel is not None
    declared = record.kernel(*ins, *_with_temporaries(record, outs, ins, row.node.attrs), **row.node.attrs)
    require(bool(declared))
    name, *words = declared
    kernel = kernel_for(name, words)
    require(kernel in writer.tape.kernels.addresses)  # an op that is declared outside the package has none
    _check(record, kernel, words, outs, ins)
    writer.row(kernel, *_arguments(writer, footprint_of(kernel), words, set(map(id, outs))))


def _with_temporaries(record: Op, outs: Arrays, ins: Arrays, attrs: dict[str, Any]) -> Arrays:
    """The outputs, memory in place of those that nobody wants."""
    if all(out is not None for out in outs):
        return outs
    specs = record.infer(*(None if a is None else spec_of(a) for a in ins), **attrs)
    specs = specs if len(outs) > 1 else (specs,)
    return [
        out if out is not None or spec is None else TemporaryArray(spec.shape, spec.dtype.numpy)
        for out, spec in zip(outs, specs, strict=True)
    ]


def _check(record: Op, kernel: str, words: Sequence[Word], outs: Arrays, ins: Arrays) -> None:
    """A row names operands as they are, not views of them, which may be copies; and all outputs that are wanted.

    Raises:
        TypeError: it does not.
    """
    given, named = {id(a) for a in (*ins, *outs)}, {id(word) for word in words if isinstance(word, np.ndarray)}
    if not named <= given:
        raise TypeError(f"op {record.type!r}: a row of kernel {kernel!r} takes operands themselves, no other arrays")
    for slot, out in zip(record.outputs, outs, strict=True):
        if out is not None and id(out) not in named:
            raise TypeError(f"op {record.type!r}: the row of kernel {kernel!r} does not name the output {slot.name}")


def _arguments(writer: TapeWriter, footprint: Footprint, words: Sequence[Word], written: Collection[int]) -> list[Any]:
    """What the row is written with.

    Args:
        written: which objects are outputs.
    """
    require(len({np.dtype(words[at].dtype) for at in footprint.moved if words[at] is not None}) <= 1)
    dtypes = footprint.dtypes
    return [_pointed(writer, footprint, at, word, written) if at in dtypes else word for at, word in enumerate(words)]


def _pointed(writer: TapeWriter, footprint: Footprint, at: int, word: Word, written: Collection[int]) -> Any:
    """An argument that points to memory."""
    dtypes = footprint.dtypes[at]
    if isinstance(word, TemporaryArray):
        return writer.temporary(word.shape, word.dtype)
    if word is None:
        require(at in footprint.optional)
        return None
    require(word.flags.c_contiguous)  # else it is tried on dense copies, see `stand_ins`
    if word.dtype == NARROW and dtypes == (INTEGER,) and id(word) not in written:
        return as_int64(writer, word)
    require(word.dtype in dtypes)
    return word
