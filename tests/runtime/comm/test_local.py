"""The communicator of one process, the reference."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.comm.contract import (
    FLOATS,
    INTEGERS,
    LAYOUTS,
    CommunicatorContract,
    bits,
    lay_out,
    loop_sum,
    make_values,
    owner_first,
    run,
)
from workbench.config import override
from workbench.errors import InvalidArgument
from workbench.runtime.comm import Communicator, Handle, LocalCommunicator, PreparedCollective
from workbench.runtime.comm.local import BLOCK_BYTES, LARGE_BYTES
from workbench.runtime.comm.request import Request


class TestLocal(CommunicatorContract):
    @contextmanager
    def group(self, size: int) -> Iterator[Communicator]:
        yield LocalCommunicator(size)


def zeros(count: int, shape: tuple[int, ...] = (4,), dtype: str = "float32") -> list[np.ndarray]:
    return [np.zeros(shape, dtype) for _ in range(count)]


@pytest.mark.parametrize("size", [0, -1])
def test_a_group_has_a_member(size: int) -> None:
    with pytest.raises(InvalidArgument, match=f"at least one member, got {size}"):
        LocalCommunicator(size)


class Elsewhere(Communicator):
    """Members in several processes, of which this one has some. Runs nothing."""

    def prepare(self, request: Request) -> PreparedCollective:
        return Asked(self, request)


class Asked(PreparedCollective):
    def start(self) -> Handle:
        raise NotImplementedError


@pytest.mark.parametrize("local", [(), (1, 0), (0, 0), (0, 3), (-1, 0)])
def test_local_members_are_ranks_of_the_group(local: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match="ascending ranks of a group of 3"):
        Elsewhere(3, local)


def test_the_array_of_a_root_elsewhere_is_none() -> None:
    comm, (part,) = Elsewhere(3, (1,)), zeros(1)
    for prepare in (lambda: comm.reduce([part], part, 0), lambda: comm.broadcast(part, [part], 2)):
        with pytest.raises(InvalidArgument, match=r"(?s)root's .*None: device [02] is in another process.*ndarray"):
            prepare()
    assert comm.reduce([part], None, 0).request.outs == ()
    assert comm.broadcast(None, [part], 2).nbytes == 16


# what the calls are


def test_calls_are_bound_to_the_arrays_themselves() -> None:
    parts = zeros(3)
    calls = LocalCommunicator(3).all_reduce(parts, parts).calls()
    assert calls is not None and all(type(call) is partial for call in calls)
    assert [call.func is np.add for call in calls] == [True, True, False, False]
    assert calls[0].args[0] is parts[0] and calls[0].args[1] is parts[1] and calls[0].args[2] is parts[0]


def test_calls_are_a_copy_of_the_list() -> None:
    collective = LocalCommunicator(2).all_reduce(zeros(2), zeros(2))
    collective.calls().clear()  # type: ignore[union-attr]
    assert len(collective.calls()) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_nothing_is_called_for_arrays_without_elements(shape: tuple[int, ...]) -> None:
    comm = LocalCommunicator(3)
    assert comm.all_reduce(zeros(3, shape), zeros(3, shape)).calls() == []
    assert comm.broadcast(zeros(1, shape)[0], zeros(3, shape), 0).calls() == []


def test_a_group_of_one_does_nothing_in_place_and_copies_elsewhere() -> None:
    comm, (part,), (out,) = LocalCommunicator(1), [np.arange(4.0)], [np.zeros(4)]
    assert comm.all_reduce([part], [part]).calls() == []
    assert comm.reduce([part], part, 0).calls() == []
    run(comm.all_reduce([part], [out]))
    assert out.tolist() == part.tolist()


def test_results_that_are_one_memory_are_written_once() -> None:
    """Replicas that are provably equal may be held once; a view of the same elements is the same memory."""
    comm, values = LocalCommunicator(3), make_values(3, (4, 6), "float32")
    shared = np.zeros((4, 6), "float32")
    collective = comm.all_reduce(values, [shared, shared[:], shared])
    assert len(collective.calls() or ()) == 2
    run(collective)
    assert bits(shared) == bits(loop_sum(values))

    parts = [value.copy() for value in values]
    run(comm.all_reduce(parts, [parts[0]] * 3))
    assert bits(parts[0]) == bits(loop_sum(values))
    assert [bits(p) for p in parts[1:]] == [bits(v) for v in values[1:]]


def test_read_only_results_are_refused() -> None:
    outs = zeros(2)
    outs[1].flags.writeable = False
    with pytest.raises(InvalidArgument, match=r"(?s)all_reduce of 'w': result 1 is read-only.*a writable array"):
        LocalCommunicator(2).all_reduce(zeros(2), outs, names=["w"])


def test_interleaved_memory_is_not_overlapping_memory() -> None:
    memory, values = np.zeros(12, "float32"), make_values(2, (6,), "float32")
    memory[::2] = values[0]
    outs = [memory[1::2], np.zeros(6, "float32")]
    run(LocalCommunicator(2).all_reduce([memory[::2], values[1]], outs))
    assert bits(outs[0]) == bits(outs[1]) == bits(loop_sum(values))
    assert bits(memory[::2]) == bits(values[0])


# large arrays go block by block

ELEMENTS = LARGE_BYTES // 4


@pytest.mark.parametrize("count", [ELEMENTS - 1, ELEMENTS, ELEMENTS + BLOCK_BYTES // 4, ELEMENTS + 12_345])
@pytest.mark.parametrize("in_place", [False, True])
def test_blocks_cover_everything_once(count: int, in_place: bool) -> None:
    values = make_values(3, (count,), "float32")
    parts = [value.copy() for value in values]
    outs = parts if in_place else zeros(3, (count,))
    collective = LocalCommunicator(3).all_reduce(parts, outs)
    assert (len(collective.calls() or ()) > 4) == (count >= ELEMENTS)
    run(collective)
    assert all(bits(out) == bits(loop_sum(values)) for out in outs)


def test_large_arrays_that_are_not_contiguous_are_added_whole() -> None:
    values = make_values(3, (700, 800), "float32")
    parts = [lay_out(values[0], "transposed"), lay_out(values[1], "strided"), values[2].copy()]
    collective = LocalCommunicator(3).all_reduce(parts, parts)
    assert len(collective.calls() or ()) == 4
    run(collective)
    assert all(bits(part) == bits(loop_sum(values)) for part in parts)


@pytest.mark.parametrize("root", range(4))
def test_a_large_deterministic_reduce_in_place(root: int) -> None:
    values = make_values(4, (ELEMENTS + 7,), "float32")
    parts = [value.copy() for value in values]
    with override(cpu_deterministic=True):
        run(LocalCommunicator(4).reduce(parts, parts[root], root))
    assert bits(parts[root]) == bits(loop_sum(values))


# anything goes with anything


@settings(max_examples=150)
@given(data=st.data())
def test_any_mixture_of_layouts_and_places(data: st.DataObject) -> None:
    """Every member's arrays laid out in a way of their own, some in place and some not."""
    size = data.draw(st.integers(1, 8), "size")
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3), "shape"))
    dtype = data.draw(st.sampled_from([*FLOATS, *INTEGERS]), "dtype")
    layouts = st.lists(st.sampled_from(LAYOUTS), min_size=size, max_size=size)
    values = make_values(size, shape, dtype, seed=data.draw(st.integers(0, 99), "seed"))
    parts = [lay_out(value, layout) for value, layout in zip(values, data.draw(layouts, "parts"))]
    outs = [lay_out(value, layout) for value, layout in zip(values, data.draw(layouts, "outs"))]
    places = data.draw(st.lists(st.booleans(), min_size=size, max_size=size), "in place")
    outs = [part if here else out for here, part, out in zip(places, parts, outs)]
    root = data.draw(st.integers(0, size - 1), "root")
    comm = LocalCommunicator(size)

    run(comm.reduce(parts, np.empty(shape, dtype), root))
    assert [bits(part) for part in parts] == [bits(value) for value in values]
    run(comm.all_reduce(parts, outs))
    assert {bits(out) for out in outs} == {bits(loop_sum(values))}
    assert all(bits(part) == bits(value) for here, part, value in zip(places, parts, values) if not here)

    parts = [lay_out(value, "plain") for value in values]
    run(comm.reduce(parts, parts[root], root))
    assert bits(parts[root]) == bits(loop_sum(owner_first(values, root)))


def test_an_abort_from_another_thread_is_seen() -> None:
    comm, parts = LocalCommunicator(2), zeros(2)
    handle = comm.all_reduce(parts, parts).start()
    assert handle.done
    other = threading.Thread(target=comm.abort, args=("device 1 failed",))
    other.start()
    other.join()
    assert not handle.done
    with pytest.raises(RuntimeError, match="all_reduce was given up: device 1 failed"):
        handle.wait()
