"""What a communicator is: collectives over a group of devices, prepared once and started every step.

A group has `size` members, each with a rank from 0 on; those in `local` belong to this process. One call acts for all
of them: it takes one array per local member, in the order of `local`. On several devices of one process `local` is
everybody; with one device per process it is one rank.

    mean = comm.all_reduce(gradients, gradients, names=["fc_0.w_0@GRAD"])     # once: checks, chooses, allocates
    ...
    handle = mean.start()                                                     # every step
    handle.wait(timeout=60.0)

Processes of one group start the same collectives in the same order. What a run reads and writes belongs to it from
`start` until `wait` has returned; only then may the collective be started again.

When something fails anywhere, `abort` makes every wait, pending or later, raise at once; what the outs hold then is
undefined. `reset` makes the group usable again, once nothing of an aborted run touches its arrays any more.

To write a communicator, implement `prepare`; one that goes on in the background, or lives in several processes, also
`_wake`, `_drain` and `_join_rows`. `tests/runtime/comm/contract.py` says what has to hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from workbench.config import FLAG_VALUES
from workbench.errors import Aborted, InvalidArgument, InvalidType
from workbench.framework.values.rows import Rows, concat
from workbench.runtime.comm.request import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    Request,
    form,
    refusal,
    require_array,
    require_count,
    require_rank,
    require_same_form,
    require_sum,
    sum_order,
    titled,
)
from workbench.runtime.comm.sum_row import SumRow


def peer_patience() -> float:
    """Seconds that a group waits for its members unless it is told otherwise.

    Ten minutes are more than a rank takes that evaluates or saves alone, and what a person waits for at most.
    """
    return float(FLAG_VALUES["FLAGS_peer_timeout"])


RESET_PATIENCE = 10.0  # seconds a reset gives members to come back from an aborted run

Call = Callable[[], Any]


class Handle(ABC):
    """One run of a collective, from `start` on."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether the outs are filled: `wait` would return at once."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> None:
        """Return when the outs are filled.

        Args:
            timeout: seconds; None waits until it is done, fails or is aborted.

        Raises:
            ExecutionTimeout: not done in time; the message names the members that are missing. The run goes on: wait
                again, or abort the group.
            Aborted: the group was aborted, by `abort` or because a member failed, whose error is then the cause.
        """


class Finished(Handle):
    """The handle of a run that is over when `start` returns."""

    def __init__(self, collective: PreparedCollective) -> None:
        self._collective = collective

    @property
    def done(self) -> bool:
        return self._collective.comm.aborted is None

    def wait(self, timeout: float | None = None) -> None:
        self._collective.comm.require_alive(self._collective.request.title)


class PreparedCollective(ABC):
    """A collective on fixed arrays, ready to run any number of times.

    Attributes:
        comm: the communicator that prepared it.
        request: what it does.
    """

    def __init__(self, comm: Communicator, request: Request) -> None:
        self.comm, self.request = comm, request

    @property
    def kind(self) -> str:
        """`"all_reduce"`, `"reduce"`, `"broadcast"` or `"all_gather"`."""
        return self.request.kind

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that travel, as the caller gave them."""
        return self.request.names

    @property
    def nbytes(self) -> int:
        """Bytes of one member's part."""
        return self.request.nbytes

    @abstractmethod
    def start(self) -> Handle:
        """Run it on what the parts hold now.

        Raises:
            Aborted: the group was aborted.
            PreconditionNotMet: its last run is still under way.
        """

    def run(self, timeout: float | None) -> None:
        """Start it and wait for it, see `Handle.wait`; after an error the group has to be reset."""
        self.start().wait(timeout)

    def calls(self) -> list[Call] | None:
        """One run as callables to be made in order, for communicators that compute in the caller's thread; else None.

        They know nothing of `abort`: whoever puts them into a longer list looks after that.
        """
        return None

    def in_kernels(self) -> SumRow | None:
        """One run as a row of a tape, for sums over processes that kernels can take; else None."""
        return None

    def __repr__(self) -> str:
        return f"<{self.request} on {self.comm!r}>"


class Communicator(ABC):
    """A group of devices that exchange arrays.

    Args:
        size: number of members, in all processes.
        local: ranks of the members in this process, ascending; all of them unless given.

    Raises:
        InvalidArgument: no member, or ranks that are not ascending ones of the group.
    """

    patience = 600.0
    """Seconds a collective of a step may take."""

    computes_here = False
    """Whether collectives are sums and copies within this process's memory, done when they return."""

    def __init__(self, size: int, local: Sequence[int] | None = None) -> None:
        if size < 1:
            raise InvalidArgument(f"a group of devices has at least one member, got {size}")
        ranks = tuple(range(size)) if local is None else tuple(local)
        if not ranks or sorted(set(ranks)) != list(ranks) or ranks[0] < 0 or ranks[-1] >= size:
            raise InvalidArgument(f"local members are ascending ranks of a group of {size}, got {list(ranks)}")
        self.size, self.local = size, ranks
        self._reason: str | None = None
        self._cause: BaseException | None = None

    def member(self, rank: int) -> str:
        """How messages name a member."""
        return f"device {rank}"

    @property
    def here(self) -> Communicator:
        """The group of those of its devices that are in this process, numbered from 0."""
        return self

    # collectives

    def all_reduce(
        self, parts: Sequence[Any], outs: Sequence[Any], op: str = "sum", names: Sequence[str] = ()
    ) -> PreparedCollective:
        """Prepare: every member gets ((part0 + part1) + part2) + …, added in the arrays' dtype, the same bits (G-30).

        Args:
            parts, outs: one array per local member, all of one shape and dtype. outs[i] is the very memory of
                parts[i], or touches no part, which then stays as it is. Several outs may be one memory.
            op: `"sum"`.
            names: the variables, for messages and events.

        Raises:
            InvalidArgument, InvalidType: arrays that do not fit together, or cannot be added, or overlap.
        """
        title = titled(ALL_REDUCE, names)
        self._check_parts(title, parts)
        require_sum(title, op, parts[0].dtype)
        self._check_outs(title, outs, self.local, parts[0].shape, parts[0].dtype)
        order = tuple(range(self.size))
        return self.prepare(Request(ALL_REDUCE, tuple(parts), tuple(outs), order=order, names=tuple(names)))

    def reduce(self, parts: Sequence[Any], out: Any, root: int, names: Sequence[str] = ()) -> PreparedCollective:
        """Prepare: the root gets its own part, plus those of the others in the order of their ranks (G-31).

        With `FLAGS_cpu_deterministic`, read when this is called, the sum is that of `all_reduce`.

        Args:
            parts: one array per local member, all of one shape and dtype; only the root's may change.
            out: for the root: the memory of its part, or one that touches no part. None where the root is in
                another process.
            root: a rank.
            names: the variables, for messages and events.

        Raises:
            InvalidArgument, InvalidType: see `all_reduce`; or an unknown rank.
        """
        title = titled(REDUCE, names)
        require_rank(title, root, self.size)
        self._check_parts(title, parts)
        require_sum(title, "sum", parts[0].dtype)
        outs = self._only_at(title, "result", root, out)
        self._check_outs(title, outs, (root,) * len(outs), parts[0].shape, parts[0].dtype)
        order = sum_order(self.size, root)
        return self.prepare(Request(REDUCE, tuple(parts), outs, root, order, tuple(names)))

    def reduce_everywhere(
        self, parts: Sequence[Any], out: Any, place: int, first: int, names: Sequence[str] = ()
    ) -> PreparedCollective:
        """Prepare: one device of every process gets the sum that `reduce` gives the device `first`.

        So the processes keep what is made of it equal by themselves, and need not exchange it.

        Args:
            parts: one array per local member. out: for the device `place` of this process, numbered from 0.
            first: the rank whose part is added first.
        """
        return self.reduce(parts, out, self.local[place], names)

    def broadcast(self, part: Any, outs: Sequence[Any], root: int, names: Sequence[str] = ()) -> PreparedCollective:
        """Prepare: every member gets the root's part. Any dtype.

        Args:
            part: the root's array; None where the root is in another process.
            outs: one array per local member, each the memory of the part or one that does not touch it; the root's
                may be None.
            root: a rank.
            names: the variables, for messages and events.

        Raises:
            InvalidArgument, InvalidType: arrays that do not fit together or overlap; an unknown rank.
        """
        title = titled(BROADCAST, names)
        require_rank(title, root, self.size)
        require_count(title, "result", outs, self._members)
        parts = self._only_at(title, "part", root, part)
        wanted = [rank for rank, out in zip(self.local, outs) if out is not None or rank != root]
        given = tuple(out for rank, out in zip(self.local, outs) if rank in wanted)
        like = (*parts, *given)[0]
        require_array(title, f"the part of {self.member(root)}" if parts else "the first result", like)
        self._check_outs(title, given, wanted, like.shape, like.dtype)
        return self.prepare(Request(BROADCAST, parts, given, root, names=tuple(names)))

    def all_gather(self, parts: Sequence[Any], outs: Sequence[Any], names: Sequence[str] = ()) -> PreparedCollective:
        """Prepare: every member gets all parts, stacked in the order of the ranks. Any dtype.

        Args:
            parts: one array per local member, all of one shape and dtype.
            outs: arrays `[size, *shape of a part]`, one per local member; where one touches a part, the part is
                its own row of it.
            names: the variables, for messages and events.

        Raises:
            InvalidArgument, InvalidType: arrays that do not fit together or overlap.
        """
        title = titled(ALL_GATHER, names)
        self._check_parts(title, parts)
        self._check_outs(title, outs, self.local, (self.size, *parts[0].shape), parts[0].dtype)
        return self.prepare(Request(ALL_GATHER, tuple(parts), tuple(outs), names=tuple(names)))

    def gather_rows(self, parts: Sequence[Rows], timeout: float | None = None, names: Sequence[str] = ()) -> Rows:
        """The sparse gradients of all members as one: rows and values in the order of the ranks, not merged (G-32).

        Not prepared: how many rows there are is known only when they come.

        Args:
            parts: one sparse gradient per local member, of one table and dtype.
            timeout: seconds to wait for other processes.
            names: the variables, for messages.

        Raises:
            InvalidArgument, InvalidType: gradients of several tables, or dense ones.
            Aborted, ExecutionTimeout: see `Handle.wait`.
        """
        title = titled("gather_rows", names)
        require_count(title, "part", parts, self._members)
        for part, member in zip(parts, self._members):
            if not isinstance(part, Rows):
                raise InvalidType(refusal(title, f"the part of {member} is dense", "Rows", type(part).__name__))
            if part.shape != parts[0].shape or part.dtype != parts[0].dtype:
                expected = f"{form(parts[0].shape, parts[0].dtype)}, as of {self.member(self.local[0])}"
                got = form(part.shape, part.dtype)
                raise InvalidArgument(refusal(title, f"the part of {member} is of another table", expected, got))
        self.require_alive(title)
        return self._join_rows(parts, title, timeout)

    @abstractmethod
    def prepare(self, request: Request) -> PreparedCollective:
        """The collective for a request whose shapes and dtypes are checked.

        Raises:
            InvalidArgument: arrays this communicator cannot use, or that overlap.
        """

    # failure

    @property
    def aborted(self) -> str | None:
        """Why the group was aborted, None if it was not."""
        return self._reason

    def abort(self, reason: str, cause: BaseException | None = None) -> None:
        """Make every wait, pending or later, and every start raise `Aborted` at once. For any thread.

        Args:
            reason: what failed, for the messages; the first one counts.
            cause: the exception behind it.
        """
        if self._reason is None:
            self._cause, self._reason = cause, reason
        self._wake()

    def reset(self, timeout: float = RESET_PATIENCE) -> None:
        """Make an aborted group usable again; nothing if it was not aborted.

        Args:
            timeout: seconds for members that are still busy with an aborted run.

        Raises:
            Unavailable: a member did not come back, or this kind of group has to be made anew; the group stays
                aborted.
        """
        if self._reason is not None:
            self._drain(timeout)
            self._reason = self._cause = None

    def require_alive(self, title: str) -> None:
        """Refuse to go on with a collective, named by its title, if the group was aborted.

        Raises:
            Aborted: it was.
        """
        if self._reason is not None:
            raise Aborted(f"{title} was given up: {self._reason}") from self._cause

    # nothing to do where a run is over when `start` returns

    def _wake(self) -> None:  # noqa: B027
        """Let pending waits see that the group is aborted."""

    def _drain(self, timeout: float) -> None:  # noqa: B027
        """Return when nothing of an aborted run touches its arrays any more; else raise Unavailable."""

    def _join_rows(self, parts: Sequence[Rows], title: str, timeout: float | None) -> Rows:
        return concat(np, parts)  # right where all members are local and on the CPU

    # checks

    @cached_property
    def _members(self) -> list[str]:
        return [self.member(rank) for rank in self.local]

    def _check_parts(self, title: str, parts: Sequence[Any]) -> None:
        members = self._members
        require_count(title, "part", parts, members)
        require_array(title, f"the part of {members[0]}", parts[0])
        require_same_form(title, "part", parts, members, f"as of {members[0]}", (parts[0].shape, parts[0].dtype))

    def _check_outs(self, title: str, outs: Sequence[Any], ranks: Sequence[int], shape: Any, dtype: Any) -> None:
        members = [self.member(rank) for rank in ranks]
        require_count(title, "result", outs, members)
        require_same_form(title, "result", outs, members, "as the parts say", (shape, dtype))

    def _only_at(self, title: str, what: str, root: int, array: Any) -> tuple[Any, ...]:
        """An array that only the root has: given exactly where the root is."""
        if (array is not None) != (root in self.local):
            where = "in this process" if root in self.local else "in another process"
            expected = f"{'an array' if root in self.local else 'None'}: {self.member(root)} is {where}"
            raise InvalidArgument(refusal(title, f"the root's {what}", expected, type(array).__name__))
        return () if array is None else (array,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size})"
