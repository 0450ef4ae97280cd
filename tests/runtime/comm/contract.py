"""What every communicator has to do: the suite its tests inherit.

    class TestLocal(CommunicatorContract):
        @contextmanager
        def group(self, size):
            yield LocalCommunicator(size)

A communicator that goes on in the background inherits `AsynchronousContract` too. In a job of several processes the
suite runs in each: every process knows all members' values, hands in those of its own, and checks its own results.
Expected values come from a plain NumPy loop.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from workbench.config import override
from workbench.errors import Aborted, ExecutionTimeout, InvalidArgument, InvalidType, PreconditionNotMet, Unavailable
from workbench.framework.values.rows import Rows
from workbench.runtime.comm import Communicator, PreparedCollective

SIZES = (1, 2, 3, 4, 5)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (*map(np.dtype, ("float16", "float32", "float64")), BFLOAT16)
INTEGERS = tuple(map(np.dtype, ("int8", "int16", "int32", "int64", "uint8")))
SHAPES = ((), (0,), (3, 0, 2), (1,), (7,), (4, 6), (5, 1, 3))
LAYOUTS = ("plain", "transposed", "strided", "reversed")
PROMPT = 1.0  # seconds within which an abort is seen
PATIENCE = 30.0  # seconds after which a test gives up on a run that should end

dtypes = pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
sizes = pytest.mark.parametrize("size", SIZES)


def make_values(size: int, shape: Sequence[int], dtype: Any, seed: int = 0) -> list[np.ndarray]:
    """One array per member; floats so far apart that the order of their sum shows in its bits."""
    rng = np.random.default_rng([seed, size, *shape])
    if np.dtype(dtype).kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return [rng.integers(low, high, shape, dtype, endpoint=True) for _ in range(size)]
    if np.dtype(dtype) == np.bool_:
        return [rng.random(shape) < 0.5 for _ in range(size)]
    return [np.asarray(rng.standard_normal(shape) * 10 ** rng.uniform(-2, 2, shape)).astype(dtype) for _ in range(size)]


def lay_out(value: np.ndarray, layout: str) -> np.ndarray:
    """The same values in memory of their own, laid out in another way."""
    value = np.asarray(value)
    if layout == "transposed":
        return np.array(value.T, order="C").T
    if layout == "strided" and value.ndim:
        wide = np.empty((*value.shape[:-1], value.shape[-1] * 2 + 1), value.dtype)
        array = wide[..., 1::2]
    elif layout == "reversed" and value.ndim:
        array = np.empty(value.shape, value.dtype)[::-1]
    else:
        array = np.empty(value.shape, value.dtype)
    array[...] = value
    return array


def loop_sum(values: Sequence[np.ndarray]) -> np.ndarray:
    """((v0 + v1) + v2) + …, every step rounded to the dtype of the values."""
    total = np.array(values[0])
    for value in values[1:]:
        total = np.asarray(total + value).astype(value.dtype)
    return total


def bits(value: Any) -> tuple[Any, ...]:
    """Everything that two arrays of equal bits agree in."""
    return str(value.dtype), value.shape, np.ascontiguousarray(value).tobytes()


def owner_first(values: Sequence[np.ndarray], root: int) -> list[np.ndarray]:
    """The values in the order of rule G-31."""
    return [values[root]] + [value for rank, value in enumerate(values) if rank != root]


class _Groups:
    """How a suite gets its groups, and how it looks at a member's memory."""

    def group(self, size: int) -> AbstractContextManager[Communicator]:
        """A new group of `size` members; skips where there cannot be one."""
        raise NotImplementedError

    def to_member(self, value: np.ndarray, rank: int) -> Any:
        """An array of the member with this value: in its memory, and laid out the same."""
        return lay_out(value, _layout_of(value))

    def to_numpy(self, array: Any) -> np.ndarray:
        """What a member's array holds."""
        return np.array(array)

    def assert_sum(self, result: np.ndarray, expected: np.ndarray, where: object) -> None:
        """A sum is right: to the bit, unless the library behind a communicator chooses the order itself."""
        assert bits(result) == bits(expected), where

    def load(self, comm: Communicator, values: Sequence[np.ndarray], layout: str = "plain") -> list[Any]:
        """The local members' arrays."""
        return [self.to_member(lay_out(values[rank], layout), rank) for rank in comm.local]

    def blank(self, comm: Communicator, value: np.ndarray, layout: str = "plain") -> list[Any]:
        """Arrays of the local members to be filled; what they hold shows if they are not."""
        return self.load(comm, [np.full_like(value, 77)] * comm.size, layout)

    def held(self, arrays: Sequence[Any]) -> list[tuple[Any, ...]]:
        return [bits(self.to_numpy(array)) for array in arrays]


def _layout_of(value: np.ndarray) -> str:
    if value.flags.c_contiguous:
        return "plain"
    return "transposed" if value.flags.f_contiguous else "reversed" if value.strides[0] < 0 else "strided"


def run(collective: PreparedCollective) -> None:
    """One run to its end."""
    collective.start().wait(PATIENCE)


def variants() -> Iterator[tuple[tuple[int, ...], str, bool]]:
    """Shapes, layouts of the arrays, and whether the result replaces its member's part."""
    layouts = [(shape, "plain") for shape in SHAPES]
    layouts += [(shape, layout) for shape in ((7,), (4, 6)) for layout in LAYOUTS if layout != "plain"]
    return ((shape, layout, in_place) for shape, layout in layouts for in_place in (False, True))


class CommunicatorContract(_Groups):
    # who is in the group

    @sizes
    def test_members_have_ranks(self, size: int) -> None:
        with self.group(size) as comm:
            assert comm.size == size
            assert comm.local and set(comm.local) <= set(range(size)) and list(comm.local) == sorted(set(comm.local))
            assert len({comm.member(rank) for rank in range(size)}) == size

    # sums

    @dtypes
    @sizes
    def test_all_reduce_adds_in_the_order_of_the_ranks(self, size: int, dtype: np.dtype) -> None:
        """G-30: ((g0 + g1) + g2) + …, the same bits everywhere; parts of their own stay as they are."""
        with self.group(size) as comm:
            for shape, layout, in_place in variants():
                values = make_values(size, shape, dtype)
                parts = self.load(comm, values, layout)
                outs = parts if in_place else self.blank(comm, values[0], layout)
                run(comm.all_reduce(parts, outs))
                for out in outs:
                    self.assert_sum(self.to_numpy(out), loop_sum(values), (shape, layout, in_place))
                assert len(set(self.held(outs))) == 1, "members differ"
                if not in_place:
                    assert self.held(parts) == [bits(values[rank]) for rank in comm.local], "a part was changed"

    @dtypes
    @sizes
    def test_reduce_adds_the_owners_value_first(self, size: int, dtype: np.dtype) -> None:
        """G-31: (g_owner + g0) + g1 …; nobody else's part changes."""
        with self.group(size) as comm:
            for root in range(size):
                for shape, layout, in_place in variants():
                    self.check_reduce(comm, root, make_values(size, shape, dtype), layout, in_place)

    def check_reduce(
        self,
        comm: Communicator,
        root: int,
        values: list[np.ndarray],
        layout: str,
        in_place: bool,
        expected: np.ndarray | None = None,
    ) -> None:
        parts = self.load(comm, values, layout)
        out = self._at_root(comm, root, parts if in_place else self.blank(comm, values[0], layout))
        run(comm.reduce(parts, out, root))
        where = (root, values[0].shape, layout, in_place)
        if out is not None:
            expected = loop_sum(owner_first(values, root)) if expected is None else expected
            self.assert_sum(self.to_numpy(out), expected, where)
        for rank, part in zip(comm.local, parts):
            if part is not out:
                assert bits(self.to_numpy(part)) == bits(values[rank]), (where, "a part was changed")

    def _at_root(self, comm: Communicator, root: int, arrays: Sequence[Any]) -> Any:
        return arrays[comm.local.index(root)] if root in comm.local else None

    @sizes
    def test_a_deterministic_reduce_adds_as_all_reduce_does(self, size: int) -> None:
        """G-31, FLAGS_cpu_deterministic: from device 0 on, whoever the owner is."""
        with self.group(size) as comm, override(cpu_deterministic=True):
            for root in range(size):
                for shape, layout, in_place in variants():
                    values = make_values(size, shape, "float32")
                    self.check_reduce(comm, root, values, layout, in_place, expected=loop_sum(values))

    def test_these_values_tell_one_order_from_another(self) -> None:
        """Of the suite itself: were the order wrong, the checks above would see it."""
        for dtype in FLOATS:
            values = make_values(4, (4, 6), dtype)
            orders = [values, owner_first(values, 2), owner_first(values, 3), values[::-1]]
            assert len({bits(loop_sum(order)) for order in orders}) == len(orders), dtype

    @sizes
    def test_signed_zeros_infinities_and_nan_are_added_like_numbers(self, size: int) -> None:
        values = [np.array([-0.0, 0.0 if rank else -0.0, np.inf, np.nan, 1.0], "float32") for rank in range(size)]
        with self.group(size) as comm:
            parts, outs = self.load(comm, values), self.blank(comm, values[0])
            run(comm.all_reduce(parts, outs))
            for out in map(self.to_numpy, outs):
                assert np.array_equal(out, loop_sum(values), equal_nan=True)
                assert np.signbit(out[:2]).tolist() == [True, size == 1]

    # copies

    @pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.dtype(bool)], ids=str)
    @sizes
    def test_broadcast_gives_everybody_the_roots_value(self, size: int, dtype: np.dtype) -> None:
        with self.group(size) as comm:
            for root in range(size):
                for shape, layout, keep in variants():
                    values = make_values(size, shape, dtype)
                    part = self._at_root(comm, root, self.load(comm, values, layout))
                    outs = self.blank(comm, values[0], layout)
                    if keep and root in comm.local:
                        outs[comm.local.index(root)] = part
                    run(comm.broadcast(part, outs, root))
                    assert self.held(outs) == [bits(values[root])] * len(outs), (root, shape, layout, keep)
                    assert part is None or bits(self.to_numpy(part)) == bits(values[root])

    def test_broadcast_needs_no_result_at_the_root(self) -> None:
        with self.group(3) as comm:
            values = make_values(3, (2, 3), "float32")
            part = self._at_root(comm, 1, self.load(comm, values))
            outs = [None if rank == 1 else out for rank, out in zip(comm.local, self.blank(comm, values[0]))]
            run(comm.broadcast(part, outs, 1))
            assert all(out is None or bits(self.to_numpy(out)) == bits(values[1]) for out in outs)

    @pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, np.dtype(bool)], ids=str)
    @sizes
    def test_all_gather_stacks_the_parts_in_the_order_of_the_ranks(self, size: int, dtype: np.dtype) -> None:
        with self.group(size) as comm:
            for shape, layout, own_row in variants():
                values = make_values(size, shape, dtype)
                outs = self.blank(comm, np.stack(values))
                parts = self.load(comm, values, layout)
                if own_row:
                    parts = [out[rank : rank + 1].reshape(shape) for rank, out in zip(comm.local, outs)]
                    for rank, part in zip(comm.local, parts):
                        part[...] = self.load(comm, values)[comm.local.index(rank)]
                run(comm.all_gather(parts, outs))
                assert self.held(outs) == [bits(np.stack(values))] * len(outs), (shape, layout, own_row)
                assert self.held(parts) == [bits(values[rank]) for rank in comm.local]

    @sizes
    def test_sparse_gradients_are_joined_in_the_order_of_the_ranks(self, size: int) -> None:
        """G-32: no merging; rows that several members have stay apart, members without rows add none."""
        rows = [np.arange(rank % 3, dtype=np.int64) + rank for rank in range(size)]
        values = [make_values(1, (len(r), 4), "float32", seed=rank)[0] for rank, r in enumerate(rows)]
        with self.group(size) as comm:
            parts = [Rows(self.to_member(rows[r], r), self.to_member(values[r], r), 9) for r in comm.local]
            joined = comm.gather_rows(parts, timeout=PATIENCE)
            assert joined.height == 9
            assert self.to_numpy(joined.rows).tolist() == np.concatenate(rows).tolist()
            assert bits(self.to_numpy(joined.values)) == bits(np.concatenate(values))
            assert self.held([p.rows for p in parts]) == [bits(rows[r]) for r in comm.local]

    # prepared once, run often

    @sizes
    def test_a_prepared_collective_runs_on_what_the_parts_hold_now(self, size: int) -> None:
        with self.group(size) as comm:
            parts, outs = self.load(comm, make_values(size, (4, 6), "float32")), None
            outs = self.blank(comm, make_values(1, (4, 6), "float32")[0])
            collective = comm.all_reduce(parts, outs)
            for step in range(20):
                values = make_values(size, (4, 6), "float32", seed=step)
                self.fill(comm, parts, values)
                run(collective)
                for out in outs:
                    self.assert_sum(self.to_numpy(out), loop_sum(values), step)

    def fill(self, comm: Communicator, arrays: Sequence[Any], values: Sequence[np.ndarray]) -> None:
        for rank, array in zip(comm.local, arrays):
            array[...] = self.to_member(values[rank], rank)

    @pytest.mark.parametrize("count", [24, 300_001])
    def test_equal_values_give_equal_bits_in_every_run(self, count: int) -> None:
        with self.group(4) as comm:
            values = make_values(4, (count,), "float32")
            parts = self.load(comm, values)
            collective = comm.all_reduce(parts, parts)
            forms = set()
            for _ in range(5):
                self.fill(comm, parts, values)
                run(collective)
                forms |= set(self.held(parts))
            assert len(forms) == 1

    def test_collectives_started_together_do_not_mix(self) -> None:
        with self.group(3) as comm:
            values = [make_values(3, shape, "float32", seed=7) for shape in ((5,), (2, 3), ())]
            parts = [self.load(comm, v) for v in values]
            outs = [self.blank(comm, v[0]) for v in values]
            root_out = self._at_root(comm, 2, outs[1])
            collectives = [
                comm.all_reduce(parts[0], outs[0]),
                comm.reduce(parts[1], root_out, 2),
                comm.broadcast(self._at_root(comm, 1, parts[2]), outs[2], 1),
            ]
            for _ in range(10):
                handles = [collective.start() for collective in collectives]
                for handle in reversed(handles):
                    handle.wait(PATIENCE)
            for out in outs[0]:
                self.assert_sum(self.to_numpy(out), loop_sum(values[0]), "all_reduce")
            if root_out is not None:
                self.assert_sum(self.to_numpy(root_out), loop_sum(owner_first(values[1], 2)), "reduce")
            assert self.held(outs[2]) == [bits(values[2][1])] * len(outs[2])

    def test_large_arrays_are_added_like_small_ones(self) -> None:
        with self.group(4) as comm:
            for in_place in (False, True):
                values = make_values(4, (700_001,), "float32")
                parts = self.load(comm, values)
                outs = parts if in_place else self.blank(comm, values[0])
                run(comm.all_reduce(parts, outs))
                for out in outs:
                    self.assert_sum(self.to_numpy(out), loop_sum(values), in_place)

    def test_calls_are_one_run(self) -> None:
        """Whoever computes in the caller's thread says how: the same arithmetic as a list."""
        with self.group(3) as comm:
            values = make_values(3, (4, 6), "float32")
            parts, outs = self.load(comm, values), self.blank(comm, values[0])
            calls = comm.all_reduce(parts, outs).calls()
            if calls is None:
                return
            for _ in range(2):
                for call in calls:
                    call()
                for out in outs:
                    self.assert_sum(self.to_numpy(out), loop_sum(values), "calls")

    def test_a_collective_says_what_it_is(self) -> None:
        with self.group(2) as comm:
            parts = self.load(comm, make_values(2, (2, 3), "float32"))
            collective = comm.all_reduce(parts, parts, names=["w@GRAD", "b@GRAD"])
            assert (collective.kind, collective.names, collective.nbytes) == ("all_reduce", ("w@GRAD", "b@GRAD"), 24)
            assert "all_reduce of 'w@GRAD' and 1 more (float32[2, 3])" in repr(collective)
            handle = collective.start()
            handle.wait(PATIENCE)
            assert handle.done
            handle.wait(0.0)  # a second wait has nothing to wait for

    # refusals, at preparation

    def refused(self, kind: type[Exception], *words: str) -> Any:
        return pytest.raises(kind, match="(?s)" + ".*".join(words))

    def test_arrays_that_do_not_fit_together_are_refused(self) -> None:
        with self.group(2) as comm:
            good = self.load(comm, make_values(2, (2, 3), "float32"))
            other = self.load(comm, make_values(2, (3, 2), "float32"))
            wide = self.load(comm, make_values(2, (2, 3), "float64"))
            last = comm.member(comm.local[-1])
            if len(comm.local) > 1:
                with self.refused(InvalidArgument, "all_reduce of 'w'", last, r"float32\[2, 3\]", r"float32\[3, 2\]"):
                    comm.all_reduce([good[0], other[1]], good, names=["w"])
                with self.refused(InvalidArgument, "all_reduce of 'w'", last, r"float32\[2, 3\]", r"float64\[2, 3\]"):
                    comm.all_reduce([good[0], wide[1]], good, names=["w"])
            with self.refused(InvalidArgument, "all_reduce of 'w'", "result of", r"float32\[2, 3\]", "float64"):
                comm.all_reduce(good, wide, names=["w"])
            with self.refused(InvalidArgument, "all_gather", r"float32\[2, 2, 3\]", r"float32\[2, 3\]"):
                comm.all_gather(good, good)
            with self.refused(InvalidArgument, "one part for every member", str(len(good)), str(len(good) + 1)):
                comm.all_reduce([*good, good[0]], good)
            with self.refused(InvalidType, "is no array", "an array", "list"):
                comm.all_reduce([[1.0]] * len(good), good)

    def test_only_numbers_are_added(self) -> None:
        with self.group(2) as comm:
            flags = self.load(comm, make_values(2, (3,), bool))
            with self.refused(InvalidType, "all_reduce of 'flag'", "floats or integers", "bool"):
                comm.all_reduce(flags, flags, names=["flag"])
            with self.refused(InvalidType, "reduce", "floats or integers", "bool"):
                comm.reduce(flags, self._at_root(comm, 0, flags), 0)
            numbers = self.load(comm, make_values(2, (3,), "float32"))
            with self.refused(InvalidArgument, "unknown operation", "'sum'", "'max'"):
                comm.all_reduce(numbers, numbers, op="max")

    def test_the_root_is_a_member_and_its_array_is_given_where_it_is(self) -> None:
        with self.group(2) as comm:
            parts = self.load(comm, make_values(2, (3,), "float32"))
            for root in (-1, 2, True, 0.0, "0"):
                with self.refused(InvalidArgument, "reduce", "0 <= root < 2", repr(root)):
                    comm.reduce(parts, parts[0], root)  # type: ignore[arg-type]
                with self.refused(InvalidArgument, "broadcast", "0 <= root < 2", repr(root)):
                    comm.broadcast(parts[0], parts, root)  # type: ignore[arg-type]
            with self.refused(InvalidArgument, "root's result", comm.member(comm.local[0])):
                comm.reduce(parts, None, comm.local[0])
            with self.refused(InvalidArgument, "root's part", comm.member(comm.local[0])):
                comm.broadcast(None, parts, comm.local[0])
            if len(comm.local) > 1:
                with self.refused(InvalidType, f"the result of {comm.member(1)} is no array", "NoneType"):
                    comm.broadcast(parts[0], [parts[0], None], 0)

    def test_results_that_overlap_anything_else_are_refused(self) -> None:
        with self.group(2) as comm:
            parts = self.load(comm, make_values(2, (6,), "float32"))
            memory = self.load(comm, make_values(2, (8,), "float32"))
            ahead = [m[:6] for m in memory]
            with self.refused(InvalidArgument, "all_reduce of 'w'", "overlaps"):
                comm.all_reduce(ahead, [m[2:] for m in memory], names=["w"])
            with self.refused(InvalidArgument, "reduce", "overlaps"):
                comm.reduce(ahead, memory[0][2:], comm.local[0])
            with self.refused(InvalidArgument, "broadcast", "overlaps"):
                comm.broadcast(ahead[0], [m[2:] for m in memory], comm.local[0])
            if len(comm.local) > 1:
                with self.refused(InvalidArgument, "overlaps"):
                    comm.all_reduce(parts, [parts[1], memory[0][:6]])
                with self.refused(InvalidArgument, "reduce", "overlaps part 1"):
                    comm.reduce(parts, parts[1], comm.local[0])
                with self.refused(InvalidArgument, "overlaps another result"):
                    comm.all_reduce(parts, [memory[0][:6], memory[0][2:]])

    def test_sparse_gradients_of_several_tables_are_refused(self) -> None:
        with self.group(2) as comm:
            if len(comm.local) < 2:
                pytest.skip("every process checks its own members only")
            rows = np.array([1], np.int64)
            good = Rows(rows, np.ones((1, 4), "float32"), 9)
            last = comm.member(1)
            with self.refused(InvalidArgument, "gather_rows of 'table'", last, r"\[9, 4\]", r"\[8, 4\]"):
                comm.gather_rows([good, Rows(rows, np.ones((1, 4), "float32"), 8)], names=["table"])
            with self.refused(InvalidArgument, last, r"float32\[9, 4\]", r"float64\[9, 4\]"):
                comm.gather_rows([good, Rows(rows, np.ones((1, 4)), 9)])
            with self.refused(InvalidType, last, "dense", "Rows", "ndarray"):
                comm.gather_rows([good, np.ones((9, 4), "float32")])  # type: ignore[list-item]

    # given up

    def test_an_aborted_group_refuses_everything_until_it_is_reset(self) -> None:
        with self.group(2) as comm:
            values = make_values(2, (2, 3), "float32")
            parts, outs = self.load(comm, values), self.blank(comm, values[0])
            collective = comm.all_reduce(parts, outs, names=["w"])
            handle = collective.start()
            handle.wait(PATIENCE)
            cause = ValueError("bad label")
            comm.abort("device 1 failed in 'softmax'", cause)
            comm.abort("and then this")
            assert comm.aborted == "device 1 failed in 'softmax'"
            for use in (lambda: handle.wait(PATIENCE), collective.start):
                with self.refused(Aborted, "all_reduce of 'w'", "device 1 failed in 'softmax'") as caught:
                    use()
                assert caught.value.__cause__ is cause
            rows = Rows(np.array([0], np.int64), np.ones((1, 2), "float32"), 3)
            with self.refused(Aborted, "gather_rows", "device 1 failed"):
                comm.gather_rows([rows] * len(comm.local))
            self.start_again(comm)
            assert comm.aborted is None
            run(collective)
            for out in outs:
                self.assert_sum(self.to_numpy(out), loop_sum(values), "after a reset")

    def start_again(self, comm: Communicator) -> None:
        """Reset the group; skips the rest where that kind cannot be."""
        try:
            comm.reset()
        except Unavailable as refusal:
            assert comm.aborted is not None, "a group that cannot be reset stays aborted"
            pytest.skip(f"no reset: {refusal}")

    def test_resetting_a_healthy_group_does_nothing(self) -> None:
        with self.group(2) as comm:
            comm.reset()
            parts = self.load(comm, make_values(2, (3,), "float32"))
            run(comm.all_reduce(parts, parts))


class AsynchronousContract(_Groups):
    """What more holds where a run goes on after `start`."""

    def stall(self, comm: Communicator, rank: int) -> Callable[[], None]:
        """Keep a member from taking part in anything, an abort included, until the function returned is called."""
        raise NotImplementedError

    def fail(self, comm: Communicator, rank: int, error: Exception) -> None:
        """Let a member fail with this error in the next collective."""
        raise NotImplementedError

    def prepared(
        self, comm: Communicator, shape: Sequence[int] = (2, 3)
    ) -> tuple[PreparedCollective, list[Any], np.ndarray]:
        values = make_values(comm.size, shape, "float32")
        outs = self.blank(comm, values[0])
        return comm.all_reduce(self.load(comm, values), outs, names=["w@GRAD"]), outs, loop_sum(values)

    def test_start_does_not_wait(self) -> None:
        with self.group(3) as comm:
            collective, outs, expected = self.prepared(comm)
            assert collective.calls() is None
            release = self.stall(comm, 2)
            untouched = self.held(outs)
            handle = collective.start()
            assert not handle.done and self.held(outs) == untouched
            release()
            handle.wait(PATIENCE)
            assert handle.done
            for out in outs:
                self.assert_sum(self.to_numpy(out), expected, "late")

    def test_a_timeout_names_whom_it_waits_for_and_the_run_goes_on(self) -> None:
        with self.group(3) as comm:
            collective, outs, expected = self.prepared(comm)
            release = self.stall(comm, 1)
            handle = collective.start()
            begin = time.monotonic()
            with pytest.raises(ExecutionTimeout) as caught:
                handle.wait(0.1)
            assert 0.1 <= time.monotonic() - begin < 0.1 + PROMPT
            text = str(caught.value)
            assert "all_reduce of 'w@GRAD'" in text and "0.1 s" in text and comm.member(1) in text
            assert comm.member(0) not in text and comm.member(2) not in text
            assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, Unavailable)
            assert comm.aborted is None
            release()
            handle.wait(PATIENCE)
            for out in outs:
                self.assert_sum(self.to_numpy(out), expected, "after a timeout")

    def test_what_is_under_way_is_not_started_again(self) -> None:
        with self.group(2) as comm:
            collective, _, _ = self.prepared(comm)
            release = self.stall(comm, 0)
            handle = collective.start()
            with pytest.raises(PreconditionNotMet, match="all_reduce of 'w@GRAD'"):
                collective.start()
            release()
            handle.wait(PATIENCE)
            run(collective)

    @pytest.mark.parametrize("timeout", [None, PATIENCE])
    def test_an_abort_wakes_who_waits(self, timeout: float | None) -> None:
        with self.group(3) as comm:
            first, _, _ = self.prepared(comm)
            second, _, _ = self.prepared(comm, (4,))
            release = self.stall(comm, 2)
            handles = [first.start(), second.start()]
            aborted_at: list[float] = []

            def give_up() -> None:
                aborted_at.append(time.monotonic())
                comm.abort("device 0 failed in 'mul_grad'")

            timer = threading.Timer(0.1, give_up)
            timer.start()
            with pytest.raises(Aborted, match=r"all_reduce of 'w@GRAD'.*device 0 failed in 'mul_grad'"):
                handles[0].wait(timeout)
            assert time.monotonic() - aborted_at[0] < PROMPT
            with pytest.raises(Aborted, match="device 0 failed in 'mul_grad'"):
                handles[1].wait(timeout)  # later waits too
            timer.join()
            release()

    def test_nothing_of_an_aborted_run_is_written_after_a_reset(self) -> None:
        with self.group(3) as comm:
            collective, outs, expected = self.prepared(comm)
            release = self.stall(comm, 1)
            handle = collective.start()
            comm.abort("given up")
            with pytest.raises(Unavailable, match=comm.member(1)):
                comm.reset(timeout=0.1)
            assert comm.aborted == "given up", "a member is still busy"
            release()
            comm.reset(timeout=PATIENCE)
            untouched = self.held(self.blank(comm, expected))
            for out in outs:
                out[...] = 77
            time.sleep(0.1)
            assert self.held(outs) == untouched
            with pytest.raises(Aborted, match="given up"):
                handle.wait(0.1)  # of the run that was given up, whatever happened since
            run(collective)
            for out in outs:
                self.assert_sum(self.to_numpy(out), expected, "after a reset")

    def test_a_member_that_fails_is_named_with_its_error(self) -> None:
        with self.group(3) as comm:
            collective, outs, expected = self.prepared(comm)
            error = OSError("link down")
            self.fail(comm, 2, error)
            handle = collective.start()
            with pytest.raises(Aborted) as caught:
                handle.wait(PATIENCE)
            text = str(caught.value)
            assert "all_reduce of 'w@GRAD'" in text and comm.member(2) in text and "link down" in text
            assert caught.value.__cause__ is error
            comm.reset(timeout=PATIENCE)
            run(collective)
            for out in outs:
                self.assert_sum(self.to_numpy(out), expected, "after a failure")

    def test_a_wait_can_be_interrupted(self) -> None:
        with self.group(2) as comm:
            collective, outs, expected = self.prepared(comm)
            release = self.stall(comm, 0)
            handle = collective.start()
            sent: list[float] = []

            def interrupt() -> None:
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

            timer = threading.Timer(0.1, interrupt)
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                handle.wait(None)
            assert time.monotonic() - sent[0] < PROMPT
            timer.join()
            release()
            handle.wait(PATIENCE)
            for out in outs:
                self.assert_sum(self.to_numpy(out), expected, "after an interrupt")

    def test_sparse_gradients_wait_with_a_deadline_too(self) -> None:
        with self.group(2) as comm:
            rows = Rows(np.array([0], np.int64), np.ones((1, 2), "float32"), 3)
            release = self.stall(comm, 1)
            with pytest.raises(ExecutionTimeout, match=f"gather_rows of 'table'.*{comm.member(1)}"):
                comm.gather_rows([rows] * len(comm.local), timeout=0.1, names=["table"])
            comm.abort("given up")
            release()
            comm.reset(timeout=PATIENCE)
            assert comm.gather_rows([rows] * len(comm.local), timeout=PATIENCE).rows.tolist() == [0, 0]
