"""Runs rows of real programs with every operand between fences: `python -m tests.native.fences`.

A fence is a page that nobody may touch. Each row is written once more with all it points to in memory of its own, as
long as the kernel declares to reach; it ends at a fence in a first run and begins behind one in a second. A kernel
that reaches further than it declares ends the process; its name is the last one printed.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

import workbench as wb
from tests.fuzz.both import run
from tests.fuzz.corpus import MODELS, Seed, seed, seeds
from tests.fuzz.mutate import Mutant
from tests.native.kernels.test_convolutions import check, geometry
from tests.native.one_row import kernels, run_tape
from workbench import static
from workbench.framework.program.guard import static_mode
from workbench.framework.text.serialize import program_from_dict, program_to_dict
from workbench.runtime.footprint import footprint_of, kernel_for
from workbench.runtime.native.tape import Pointer, Tape, pointer

PAGE = mmap.PAGESIZE
APART = {"wait", "signal", "block", "unless", "look_up", "hand_in", "sum_processes"}  # between threads, or processes
APART |= {"repeat", "go_back", "choose", "keep", "give_back"}  # walk other tapes, or go where loops keep things
MOST = 60  # rows of a kernel

Row = tuple[str, tuple[Any, ...]]


class Fenced:
    """Memory between two fences."""

    def __init__(self, nbytes: int, at_end: bool) -> None:
        inside = -(-max(nbytes, 1) // PAGE) * PAGE
        self._map = mmap.mmap(-1, inside + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self._map, np.uint8)
        begin = pointer(whole).address
        protect = ctypes.CDLL(None).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert protect(begin, PAGE, 0) == 0 and protect(begin + PAGE + inside, PAGE, 0) == 0
        first = PAGE + (inside - nbytes if at_end else 0)
        self.bytes = whole[first : first + nbytes]


@contextmanager
def noted(rows: dict[str, list[Row]]) -> Iterator[None]:
    """All rows that are written inside, with copies of what they point to."""
    write = Tape.row

    def row(tape: Tape, kernel: str, *arguments: Any) -> None:
        kernel = kernel_for(kernel, arguments)
        write(tape, kernel, *arguments)
        if kernel not in APART and len(rows.setdefault(kernel, [])) < MOST:
            rows[kernel].append((kernel, tuple(_copied(kernel, arguments))))

    with mock.patch.object(Tape, "row", row):
        yield


def _copied(kernel: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Arguments with (first byte, contents) in place of pointers."""
    copies = list(arguments)
    for index, first, end in footprint_of(kernel).touched(*arguments):
        if arguments[index] is not None:
            copies[index] = first, _contents(arguments[index], first, end)
    return copies


def _contents(given: Any, first: int, end: int) -> bytes:
    at = given if isinstance(given, Pointer) else pointer(given)
    return ctypes.string_at(at.address + first, max(end - first, 0))


def run_fenced(row: Row, at_end: bool) -> None:
    """Run a row whose operands end, or begin, at fences."""
    kernel, arguments = row
    words, held = list(arguments), []
    for index, given in enumerate(arguments):
        if isinstance(given, tuple):
            first, contents = given
            memory = Fenced(len(contents), at_end)
            memory.bytes[...] = np.frombuffer(contents, np.uint8)
            held.append(memory)
            words[index] = pointer(memory.bytes).address - first
    tape = Tape(kernels())
    letters = tape.kernels.arguments[kernel]
    if letters != "*":
        words = [_as_word(w, letter) for w, letter in zip(words, letters, strict=True)]
    words = [0 if w is None else w for w in words]
    tape.words.extend((tape.kernels.addresses[kernel], 2 + len(words), *words))
    run_tape(tape)


def _as_word(word: Any, letter: str) -> Any:
    return int(np.float64(word).view(np.int64)) if letter == "f" else word


GEOMETRIES = (
    geometry(16, 2, (8, 9), 7, (3, 3)), geometry(17, 1, (5, 5), 3, (5, 5), pads=((2, 1), (3, 0))),
    geometry(2, 3, (8, 20), 35, (3, 5)), geometry(2, 2, (7, 33), 5, (3, 3), pads=((1, 1), (1, 1)), groups=2),
    geometry(2, 3, (9, 9), 4, (2, 3), strides=(2, 2)), geometry(3, 4, (5, 6), 5, (1, 1)),
    geometry(4, 32, (3, 3), 16, (3, 3), strides=(2, 2), pads=((1, 1), (1, 1))), geometry(5, 64, (2, 2), 72, (1, 1)),
)  # fmt: skip
TILED = (
    geometry(3, 4, (5, 9), 8, (3, 3), pads=((1, 1), (1, 1))),
    geometry(1, 8, (12, 35), 20, (3, 3), pads=((0, 2), (3, 0))),
)  # fmt: skip
POOLED = ((2, 3, 8, 32), (1, 2, 9, 33), (3, 2, 6, 10))


def pooled(shape: tuple[int, ...]) -> Seed:
    """Maxima of windows side by side, and their gradient."""
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        x = static.data("x", shape)
        x.stop_gradient = False
        static.gradients(wb.sum(wb.nn.functional.max_pool2d(x, 2, 2)), x)
    return Seed(str(shape), program_to_dict(program), {"x": np.random.default_rng(0).random(shape, np.float32)})


def as_floats() -> Seed:
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        x = static.data("x", [4, 5], "int64")
        wb.concat([x[:, 1:3], x[:, ::2]], 1).astype("float32")
    return Seed("floats of integers", program_to_dict(program), {"x": np.arange(20).reshape(4, 5)})


def looped() -> Seed:
    """A loop and a branch, and their gradients."""
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        x = static.data("x", [4, 5])
        x.stop_gradient = False
        begin = wb.full([1], 0, "int64")
        h = static.nn.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, wb.tanh(h + x)], [begin, x])[1]
        static.gradients(wb.sum(static.nn.cond(wb.mean(h) > 0, lambda: h * x, lambda: x * 2.0)), x)
    return Seed("a loop", program_to_dict(program), {"x": np.ones((4, 5), np.float32)})


def nested() -> Seed:
    """A loop inside a loop, and its gradient."""
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        x = static.data("x", [4, 5])
        x.stop_gradient = False
        zero = wb.full([1], 0, "int64")

        def inner(i: Any, h: Any) -> Any:
            return static.nn.while_loop(lambda j, h: j < i, lambda j, h: [j + 1, wb.tanh(h + x)], [zero * 1, h])[1]

        h = static.nn.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, inner(i, h)], [zero, x])[1]
        static.gradients(wb.sum(h), x)
    return Seed("a loop inside a loop", program_to_dict(program), {"x": np.ones((4, 5), np.float32)})


def drawing() -> Seed:
    """A loop that draws random numbers, and has an op without a kernel."""
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        x = static.data("x", [5, 5])
        body = lambda i, h: [i + 1, wb.nn.functional.dropout(h, 0.3) + wb.linalg.det(h)]  # noqa: E731
        static.nn.while_loop(lambda i, h: i < 3, body, [wb.full([1], 0, "int64"), x])
    return Seed("random numbers in a loop", program_to_dict(program), {"x": np.ones((5, 5), np.float32)})


def sparse() -> Seed:
    """A table that is read twice, and the update of the rows that were read."""
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        ids = static.data("ids", [6], "int64")
        table = wb.ParamAttr("table")
        read = [static.nn.embedding(x, [9, 5], is_sparse=True, param_attr=table) for x in (ids, ids)]
        wb.optimizer.SGD(0.1).minimize(wb.mean(wb.add_n(read)))
    return Seed("rows of a table", program_to_dict(program), {"ids": np.array([3, 1, 3, 8, 3, 0])})


def updated() -> Seed:
    """A network whose parameters Adam updates as one array."""
    program = static.Program()
    with static_mode(), static.program_guard(program, static.Program()):
        x = static.data("x", [6, 5])
        hidden = static.nn.fc(x, 7, activation="tanh")
        wb.optimizer.Adam(0.1).minimize(wb.mean(wb.square(static.nn.fc(hidden, 3))))
    return Seed("Adam", program_to_dict(program), {"x": np.random.default_rng(0).random((6, 5), np.float32)})


def in_float64(chosen: Seed) -> Seed:
    """The same with float64 in place of float32."""
    document = json.loads(json.dumps(chosen.document).replace('"float32"', '"float64"'))
    given = {name: x.astype(np.float64) if x.dtype == np.float32 else x for name, x in chosen.given.items()}
    return chosen._replace(name=f"{chosen.name} in float64", document=document, given=given)


def programs() -> Iterator[Seed]:
    """All of them, in float32 and in float64."""
    for chosen in in_float32():
        yield chosen
        yield in_float64(chosen)


def in_float32() -> Iterator[Seed]:
    """Every case, its sizes known, and models."""
    with static_mode():
        yield from (make() for make in MODELS)
    for number, make in enumerate(seeds()):
        if isinstance(make, partial) and make.args[1:] == (False,) and (chosen := seed(number)) is not None:
            yield chosen
    yield from map(pooled, POOLED)
    yield as_floats()
    yield looped()
    yield nested()
    yield drawing()
    yield sparse()
    yield updated()


class _Unchanged(Mutant):
    """A program as it is."""

    def __init__(self, chosen: Seed) -> None:
        self.seed, self.form, self.source = chosen, "json", json.dumps(chosen.document)
        self.devices, self.numbers, self.changes_feed = 1, 1, False


def main() -> None:
    rows: dict[str, list[Row]] = {}
    with noted(rows):
        for chosen in programs():
            unchanged = _Unchanged(chosen)
            values = unchanged.values(program_from_dict(chosen.document))
            run(unchanged, values, _last(chosen), tape=True)
        for geo in GEOMETRIES:
            check(geo)
            check(geo, dtype=np.float64)
        for geo in TILED:
            check(geo, "winograd")
    for kernel in sorted(rows):
        print(kernel, len(rows[kernel]), flush=True)
        for row in rows[kernel]:
            run_fenced(row, at_end=True)
            run_fenced(row, at_end=False)


def _last(chosen: Seed) -> list[str]:
    operators = chosen.document["blocks"][0]["operators"]
    return [n for op in operators[-3:] for names in op["outputs"].values() for n in names][:6]


if __name__ == "__main__":
    sys.exit(main())
