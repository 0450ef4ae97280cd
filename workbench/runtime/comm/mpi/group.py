"""Process groups over MPI: collectives on NumPy arrays between the processes that `mpiexec` has started.

    group = world()                                  # all processes; see `mpi/world.py`
    total = group.all_reduce(gradient).wait()        # an array, the same bits on every process
    work = group.all_reduce(gradient, out=gradient)  # goes on while this process does something else …
    work.wait(timeout=60.0)                          # … or waits; at most so long, and Ctrl-C is answered
    halves = group.subgroup([0, 1])                  # called by every process of `group`; None where it is no member

What `DataParallel`, `wb.distributed` and executors of several trainers stand on is exactly this: `ProcessGroup` with
its `GroupWork`, and `MpiCommunicator` (`devices`) for devices, which keeps the contract of `base`. mpi4py is
imported when `world` is called, never before.

- Every process of a group starts the same collectives in the same order; if not, all of them raise and are told what
  each one does.
- Sums are taken in the order of the ranks, each step rounded to the arrays' dtype: bits do not depend on timing, on
  the sizes chosen for messages, or on which process has which devices.
- Arrays are any NumPy arrays of float16, float32, float64, bfloat16, integers or bool; what is read and written
  belongs to the collective until `wait` returns.
- Every wait polls: a deadline (`PeerTimeout`, which names the missing ranks; one may wait again), another process that
  gave up or is gone (`PeerFailed`, which names it and what it said), Ctrl-C.
- After a failure all processes call `reset`, or end. `abort` is how one that fails tells the others.

Objects travel as arrays of bytes: JSON, made by who sends them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.values.dtype import as_dtype
from workbench.runtime.comm.base import RESET_PATIENCE, peer_patience
from workbench.runtime.comm.mpi.exchange.channel import Channel, CollectiveRun
from workbench.runtime.comm.mpi.exchange.messages import Messages, Receipt
from workbench.runtime.comm.mpi.exchange.rounds import Copying, Folding, Rounds, Source, Taking
from workbench.runtime.comm.mpi.exchange.threads import Waiting, mark_of_thread
from workbench.runtime.comm.mpi.memory.relay import begin_relaying
from workbench.runtime.comm.mpi.memory.window import Window
from workbench.runtime.comm.request import form, refusal, require_array, require_rank
from workbench.runtime.devices import processors

_UFUNCS = {"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


_OUTSIDE = nullcontext()  # of a message, which has a tag: threads may wait for several at once


class GroupWork:
    """A collective or a message under way.

    Attributes:
        result: the array that is filled, None if this process gets nothing.
    """

    def __init__(
        self,
        run: CollectiveRun | Receipt,
        result: np.ndarray | None,
        patience: float,
        waiting: AbstractContextManager[None] = _OUTSIDE,
    ) -> None:
        self._run, self.result, self._patience, self._waiting = run, result, patience, waiting

    @property
    def done(self) -> bool:
        """Whether it is over: `wait` would return at once. Asking lets it go on."""
        return self._run.done

    def wait(self, timeout: float | None = None) -> np.ndarray | None:
        """Return the result when it is there.

        Args:
            timeout: seconds; the group's deadline unless given.

        Raises:
            PeerTimeout: not done in time; names the ranks that are missing. It goes on: wait again, or abort.
            PeerFailed: another process failed; Aborted: this one has aborted the group.
            PreconditionNotMet: the processes are at different collectives.
        """
        with self._waiting:
            self._run.wait(self._patience if timeout is None else timeout)
        return self.result


class ProcessGroup:
    """Some of the processes that MPI has started; `world` and `subgroup` make groups.

    Args:
        comm: a communicator of mpi4py, this group's own, all of whose processes make the group together.
        ranks: what the processes are called in messages, by rank in the group: their ranks in the world.
        timeout: seconds that waits take at most; `FLAGS_peer_timeout` unless given.

    Attributes:
        ranks, timeout: see above.
        processors: how many this one may take while the others on this machine take as many.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], timeout: float | None = None) -> None:
        self._comm, self.ranks = comm, tuple(ranks)
        self.timeout = peer_patience() if timeout is None else timeout
        window = Window(comm)
        beside, cores = len(window.nodes.beside(comm.rank)), window.nodes.processors
        self.processors = min(processors(), max(1, cores // beside))
        crowded = beside > cores
        self.channel = Channel(window, [self.member(rank) for rank in range(comm.size)], crowded)
        self._relay = begin_relaying(window, self.channel.give_up)
        self._meeting: GroupWork | None = None
        groups.add(self)

    @cached_property
    def rank(self) -> int:
        """This process's number in the group."""
        return int(self._comm.rank)

    @cached_property
    def size(self) -> int:
        """How many processes there are."""
        return int(self._comm.size)

    def member(self, rank: int) -> str:
        """What a process is called in messages: `rank 3`, by its number in the world."""
        return f"rank {self.ranks[rank]}"

    # Collectives. `names` are the variables, for messages.

    def all_reduce(
        self, array: np.ndarray, out: np.ndarray | None = None, op: str = "sum", names: Sequence[str] = ()
    ) -> GroupWork:
        """The arrays of all processes joined, for every one.

        Args:
            array: of one shape and dtype everywhere. out: gets the result, may be `array`; a new array unless given.
            op: `"sum"`, `"prod"`, `"max"`, `"min"`, or `"avg"` (of floats only): (a0 + a1) + a2 …
        """
        title = _titled("all_reduce", array, names, op)
        ufunc, divisor = self._joining(title, op, array)
        out = _result(title, out, array.shape, array.dtype)
        flat = _flat(out)
        fold = Folding([Source(rank, 0) for rank in range(self.size)], ufunc, [flat], divisor)
        return self._start(title, [_flat(array)], 1, fold, out)

    def reduce(
        self, array: np.ndarray, root: int, out: np.ndarray | None = None, op: str = "sum", names: Sequence[str] = ()
    ) -> GroupWork:
        """The arrays of all processes joined, for one of them; see `all_reduce`. The others' result is None."""
        title = f"{_titled('reduce', array, names, op)} to {self._named_root('reduce', root)}"
        ufunc, divisor = self._joining(title, op, array)
        order = [Source(rank, 0) for rank in range(self.size)]
        if self.rank != root:
            return self._start(title, [_flat(array)], 1, Folding(order, ufunc, []), None)
        out = _result(title, out, array.shape, array.dtype)
        flat = _flat(out)
        return self._start(title, [_flat(array)], 1, Folding(order, ufunc, [flat], divisor), out)

    def broadcast(self, array: np.ndarray, root: int, names: Sequence[str] = ()) -> GroupWork:
        """One process's array into those of the others, which have its shape and dtype."""
        title = f"{_titled('broadcast', array, names)} from {self._named_root('broadcast', root)}"
        if self.rank == root:
            return self._start(title, [_flat(array)], 1, Copying([]), array, like=array)
        flat = _flat(_result(title, array, array.shape, array.dtype))
        return self._start(title, [], 1, Copying([(Source(root, 0), flat)]), array, like=array)

    def all_gather(self, array: np.ndarray, out: np.ndarray | None = None, names: Sequence[str] = ()) -> GroupWork:
        """The arrays of all processes, stacked: `[size, *shape]`, for every one."""
        title = _titled("all_gather", array, names)
        out = _result(title, out, (self.size, *array.shape), array.dtype)
        flat = _flat(out)
        rows = flat.reshape(self.size, -1) if flat.size else [flat] * self.size
        return self._start(title, [_flat(array)], 1, Copying(_targets(rows, 0)), out)

    def reduce_scatter(
        self, array: np.ndarray, out: np.ndarray | None = None, op: str = "sum", names: Sequence[str] = ()
    ) -> GroupWork:
        """Of arrays `[size, …]`, the rows of this process's number of all processes, joined; see `all_reduce`."""
        title = _titled("reduce_scatter", array, names, op)
        self._require_rows(title, array)
        ufunc, divisor = self._joining(title, op, array)
        out = _result(title, out, array.shape[1:], array.dtype)
        flat = _flat(out)
        fold = Folding([Source(rank, self.rank) for rank in range(self.size)], ufunc, [flat], divisor)
        return self._start(title, _rows(array), self.size, fold, out)

    def scatter(self, array: np.ndarray | None, out: np.ndarray, root: int, names: Sequence[str] = ()) -> GroupWork:
        """The rows of the root's array `[size, …]`, one for each process.

        Args:
            array: what is divided; only looked at on the root. out: gets this process's row.
        """
        title = f"{_titled('scatter', out, names)} from {self._named_root('scatter', root)}"
        flat = _flat(_result(title, out, out.shape, out.dtype))
        pieces: list[np.ndarray] = []
        if self.rank == root:
            require_array(title, "what is divided", array)
            assert array is not None
            _require_form(title, "what is divided", array, (self.size, *out.shape), out.dtype)
            pieces = _rows(array)
        taking = Copying([(Source(root, self.rank), flat)])
        return self._start(title, pieces, self.size, taking, out, like=out)

    def all_to_all(self, array: np.ndarray, out: np.ndarray | None = None, names: Sequence[str] = ()) -> GroupWork:
        """Of arrays `[size, …]`, row j goes to process j: `[size, …]`, the rows in the order they come from."""
        title = _titled("all_to_all", array, names)
        self._require_rows(title, array)
        out = _result(title, out, array.shape, array.dtype)
        flat = _flat(out)
        rows = flat.reshape(self.size, -1) if flat.size else [flat] * self.size
        return self._start(title, _rows(array), self.size, Copying(_targets(rows, self.rank)), out)

    def barrier(self) -> GroupWork:
        """Done when every process has come to it."""
        return self._start("barrier", [], 1, Copying([]), None)

    # Messages

    def send(self, array: np.ndarray, to: int, tag: int = 0) -> GroupWork:
        """Send an array to another process; done when it may be changed again.

        Args:
            to: a rank of the group, not this one. tag: the receiver asks for the same.
        """
        return self._message("send", array, to, tag)

    def receive(self, out: np.ndarray, source: int, tag: int = 0) -> GroupWork:
        """Receive an array of the shape and dtype of `out` from another process; see `send`.

        Raises, when it is waited for:
            InvalidArgument: another shape or dtype came.
        """
        return self._message("receive", out, source, tag)

    def _message(self, kind: str, array: np.ndarray, other: int, tag: int) -> GroupWork:
        title = _titled(kind, array, ())
        if require_rank(title, other, self.size) == self.rank:
            raise InvalidArgument(refusal(title, "a process does not write to itself", "another rank", other))
        self.channel.require_alive(title)
        messages = self._messages
        make = messages.send if kind == "send" else messages.receive
        where = f"{title} {'to' if kind == 'send' else 'from'} {self.member(other)}"
        return GroupWork(make(array, other, tag, where), None if kind == "send" else array, self.timeout)

    @cached_property
    def _messages(self) -> Messages:
        return Messages(self._comm, self.channel)

    # Groups within groups

    def subgroup(self, ranks: Sequence[int], timeout: float | None = None) -> ProcessGroup | None:
        """A group of some of these processes; every process of this one calls it, with the same ranks.

        Args:
            ranks: of this group, each once; their order is that of the new ranks.
            timeout: the deadline of the new group in seconds, this one's unless given.

        Returns:
            None where this process is no member.

        Raises:
            InvalidArgument: a rank is unknown or there twice. PeerTimeout, PeerFailed: not all have come.
            PreconditionNotMet: the processes name different ranks.
        """
        chosen = [require_rank("subgroup", rank, self.size) for rank in ranks]
        if not chosen or len(set(chosen)) != len(chosen):
            raise InvalidArgument(refusal("subgroup", "ranks of this group, each once", "at least one", list(ranks)))
        title = f"subgroup of {', '.join(self.member(rank) for rank in chosen)}"
        self._start(title, [], 1, Copying([]), None).wait()
        return self._divided(chosen, timeout)

    def _divided(self, chosen: Sequence[int], timeout: float | None) -> ProcessGroup | None:
        """The group of the chosen, once all processes have met for it."""
        color = 0 if self.rank in chosen else 1
        comm = self._comm.Split(color, chosen.index(self.rank) if color == 0 else self.rank)
        if color:
            comm.Free()
            return None
        return ProcessGroup(comm, [self.ranks[r] for r in chosen], self.timeout if timeout is None else timeout)

    def own(self, timeout: float | None = None) -> ProcessGroup:
        """Another group of the same processes, with collectives and failures of its own; see `subgroup`.

        Its deadline holds from here on: for the others who are to make it, too. Who has waited for them in vain and
        calls again goes on waiting where it was.
        """
        self._meeting = self._meeting or self._start("a group of its own", [], 1, Copying([]), None)
        self._meeting.wait(timeout)
        self._meeting = None
        own = self._divided(range(self.size), timeout)
        assert own is not None
        return own

    # Failure

    @property
    def aborted(self) -> str | None:
        """Why the group goes no further, None if all is well. Looks at what the other processes say."""
        self.channel.look()
        return self.channel.failure

    def abort(self, reason: str, cause: BaseException | None = None) -> None:
        """Make every wait of every process raise: `PeerFailed` with this reason on the others. For any thread."""
        self.channel.give_up(reason, cause)

    def reset(self, timeout: float = RESET_PATIENCE) -> None:
        """Begin anew after a failure, together with all others; nothing if there was none.

        Raises:
            Unavailable: not all have come, or one is gone; the group stays aborted.
        """
        if self.aborted is not None:
            self.channel.reset(timeout)
            self._meeting = None

    def end(self) -> None:
        """This process takes part in nothing any more: whoever waits for it raises, and is told so."""
        self._start("the end of the process", [], 1, Copying([]), None)

    def close(self) -> None:
        """Give the group's memory back; all processes do it together, and use it no more."""
        self.barrier().wait()
        groups.discard(self)
        self._comm.Barrier()  # nobody changes a word any more
        if self._relay is not None:
            self._relay.close()
        self.channel.window.free()
        self._comm.Free()

    # How collectives are started

    def _start(
        self,
        title: str,
        pieces: Sequence[np.ndarray],
        most: int,
        taking: Taking,
        out: np.ndarray | None,
        like: np.ndarray | None = None,
    ) -> GroupWork:
        piece = pieces[0] if pieces else like.reshape(-1) if like is not None else _NOTHING
        threads = self.channel.threads
        conflict = threads.conflict(title)
        if conflict is not None:
            error = PreconditionNotMet(conflict)
            self.abort(conflict, error)
            raise error
        window, thread = self.channel.window, mark_of_thread()
        rounds = Rounds(window, pieces, most, piece.size, piece.dtype, taking, title, thread)
        return GroupWork(self.channel.start(rounds, title), out, self.timeout, Waiting(threads, title))

    def _joining(self, title: str, op: str, array: np.ndarray) -> tuple[Any, int]:
        """How arrays are joined, and what the result is divided by."""
        require_array(title, "what is joined", array)
        if op not in _UFUNCS:
            known = ", ".join(map(repr, _UFUNCS))
            raise InvalidArgument(refusal(title, "unknown operation", f"one of {known}", repr(op)))
        kind = as_dtype(array.dtype)
        if not kind.is_float and (op == "avg" or not kind.is_integer):
            expected = "floats" if op == "avg" else "floats or integers"
            raise InvalidType(refusal(title, f"{op} is taken of numbers", expected, kind))
        return _UFUNCS[op], self.size if op == "avg" else 1

    def _named_root(self, what: str, root: int) -> str:
        return self.member(require_rank(what, root, self.size))

    def _require_rows(self, title: str, array: np.ndarray) -> None:
        if array.ndim == 0 or array.shape[0] != self.size:
            got = form(array.shape, array.dtype)
            raise InvalidArgument(refusal(title, "one row for every process", f"[{self.size}, …]", got))

    def __repr__(self) -> str:
        return f"ProcessGroup(rank {self.rank} of {self.size})"


_NOTHING = np.empty(0, np.uint8)
groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()
"""Those this process is in."""


def _titled(kind: str, array: Any, names: Sequence[str], op: str = "") -> str:
    require_array(kind, "what travels", array)
    of = f" of {', '.join(map(repr, names[:1]))}" if names else ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{kind}{of}{more} ({form(array.shape, array.dtype)}{', ' + op if op else ''})"


def _flat(array: np.ndarray) -> np.ndarray:
    """The elements in a row: of a contiguous array the very memory."""
    return array.reshape(-1)


def _rows(array: np.ndarray) -> list[np.ndarray]:
    return [row.reshape(-1) for row in array]


def _targets(rows: Sequence[np.ndarray] | np.ndarray, piece: int) -> list[tuple[Source, np.ndarray]]:
    return [(Source(rank, piece), row) for rank, row in enumerate(rows)]


def _result(title: str, out: np.ndarray | None, shape: Sequence[int], dtype: Any) -> np.ndarray:
    if out is None:
        return np.empty(shape, dtype)
    require_array(title, "the result", out)
    _require_form(title, "the result", out, shape, dtype)
    if not out.flags.writeable or not out.flags.c_contiguous:
        got = "read-only" if not out.flags.writeable else f"strides {list(out.strides)}"
        raise InvalidArgument(refusal(title, "the result cannot be filled", "a writable, contiguous array", got))
    return out


def _require_form(title: str, what: str, array: np.ndarray, shape: Sequence[int], dtype: Any) -> None:
    if array.shape != tuple(shape) or array.dtype != dtype:
        text = refusal(title, f"{what} does not fit", form(shape, dtype), form(array.shape, array.dtype))
        raise InvalidArgument(text)
