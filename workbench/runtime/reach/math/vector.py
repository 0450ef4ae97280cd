"""Vector code, read as the kernel reads it: slots, leaves, instructions, stores; see `native.opcodes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.runtime.reach.declare import FLOAT, OutOfReach, Touched, reaches_of_words
from workbench.runtime.words.opcodes import (
    ADVANCES,
    COLUMN_SUM,
    GATHERED,
    HEAD_WORDS,
    LEAF_WORDS,
    SCALAR,
    SLOT_WORDS,
    TILED,
    TRUTHS,
    WHOLE,
)

_BUFFER, _FILLED, _ADDRESS, _SIZES, _STRIDES = 2, 3, 4, 5, 9  # of a leaf
_HEAD = HEAD_WORDS - 2  # words of a row before the slots; kernel and length come first


@reaches_of_words
def vector(*words: Any) -> Sequence[Touched]:
    total, block, leaves, code, stores, slots = words[:_HEAD]
    touched: list[Touched] = []
    at = _HEAD
    for place in range(at, at + SLOT_WORDS * slots, SLOT_WORDS):
        mask = words[place + 1]
        if words[place] is None:  # a leaf says where it is
            touched.append((place, 0, 0))
        else:
            touched.append((place, 0, FLOAT * block if mask == WHOLE else mask + 1))
    at += SLOT_WORDS * slots
    for place in range(at, at + LEAF_WORDS * leaves, LEAF_WORDS):
        _note_leaf(words, place, total, block, touched)
    at += LEAF_WORDS * leaves
    _note_sums(words, at, at + code, touched)
    at += code
    for place in range(at, at + LEAF_WORDS * stores, LEAF_WORDS):
        touched += [(place + _BUFFER, 0, 0), (place + _ADDRESS, *_reach(words, place, total))]
    if at + LEAF_WORDS * stores != len(words):
        raise OutOfReach(f"vector code of {at + LEAF_WORDS * stores} words, got {len(words)}")
    return touched


def _note_leaf(words: Sequence[Any], at: int, total: int, block: int, touched: list[Touched]) -> None:
    kind = words[at]
    filled = words[at + _FILLED] if kind in (SCALAR, TILED) else 0 if kind == ADVANCES else block
    touched.append((at + _BUFFER, 0, FLOAT * filled))
    touched.append((at + _ADDRESS, *_reach(words, at, total)))


def _reach(words: Sequence[Any], at: int, total: int) -> tuple[int, int]:
    """The bytes of the array of a leaf or a store."""
    kind = words[at]
    if kind == ADVANCES:
        return 0, FLOAT * total
    if kind == SCALAR:
        return 0, FLOAT
    if kind == TILED:
        return 0, FLOAT * words[at + _STRIDES - 1]
    if kind not in (GATHERED, TRUTHS):
        raise OutOfReach(f"vector code has no leaf of kind {kind}")
    first, last, count, item = 0, 0, 1, FLOAT if kind == GATHERED else 1
    for size, stride in zip(words[at + _SIZES : at + _STRIDES], words[at + _STRIDES : at + LEAF_WORDS], strict=True):
        reach, count = (size - 1) * stride, count * size
        if reach < 0:
            first += reach
        else:
            last += reach
    if count != total:
        raise OutOfReach(f"vector code of {total} elements reads an array as {count}")
    return item * first, item * (last + 1)


def _note_sums(words: Sequence[Any], at: int, end: int, touched: list[Touched]) -> None:
    """Where rows are added up."""
    while at < end:
        if words[at] == COLUMN_SUM:
            touched.append((at + 2, 0, FLOAT * words[at + 4]))
        at += words[at + 1]
