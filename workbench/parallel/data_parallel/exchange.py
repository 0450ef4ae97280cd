"""Gradients averaged over the processes while `backward` still computes others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import PreconditionNotMet, one_of
from workbench.framework.values import rows
from workbench.framework.values.rows import Rows
from workbench.parallel.data_parallel.buckets import Travelling, bucket_members


class ExchangeBucket:
    """Gradients that lie one after the other and travel as one array.

    Attributes:
        members: the numbers of their parameters. missing: how many have not come in this pass.
        flat: the array; None for one sparse gradient. sparse: that gradient, once it has come.
    """

    def __init__(self, members: Sequence[int], parameters: Sequence[Any], is_sparse: bool) -> None:
        self.members, self.missing = tuple(members), len(members)
        self._first = parameters[members[0]]
        self.flat: np.ndarray | None = None
        self.sparse: Any = None
        self._views: dict[int, Any] = {}
        if is_sparse:
            return
        self.flat = np.empty(sum(parameters[n].size for n in members), self._first.dtype.numpy)
        begin = 0
        for number in members:
            end = begin + parameters[number].size
            self._views[number] = self.flat[begin:end].reshape(parameters[number].shape)
            begin = end

    @property
    def title(self) -> str:
        """How messages name it."""
        more = f" and {len(self.members) - 1} more" if len(self.members) > 1 else ""
        return f"{self._first.name}{more}"

    def put(self, number: int, gradient: Any, size: int) -> None:
        """This process's part of a mean over `size` processes (rule D-3); None stands for zeros."""
        self.missing -= 1
        if self.flat is None:
            self.sparse = _sparse_part(gradient, self._first, size)
            return
        view = self._views[number]
        if gradient is None:
            view.fill(0)
        else:
            dense = gradient.to_dense(np) if isinstance(gradient, Rows) else gradient
            np.divide(dense, view.dtype.type(size), out=view, casting="unsafe")

    def mean(self, number: int) -> Any:
        """The mean of a parameter's gradient, once it has been exchanged; with memory of its own."""
        return self.sparse if self.flat is None else self._views[number].copy()


class GradientExchange:
    """The gradients of a model's parameters, averaged over the processes of a group.

    A `GradientReceiver`: it fills buckets in the order in which gradients come and starts to exchange each, strictly
    one after the other (rule D-8), while the walk back goes on.

    Args:
        parameters: those that are trained, in the order of their layers. sparse: the ids of those whose gradients are.
        process_group: carries it out.
        first_limit, limit: of buckets, see `bucket_members`.
        finds_unused: which parameters have no part in a loss may differ from step to step.
    """

    def __init__(
        self, parameters: Sequence[Any], sparse: Collection[int], process_group: Any, first_limit: int, limit: int,
        finds_unused: bool,
    ) -> None:  # fmt: skip
        self.leaves = {id(parameter): parameter for parameter in parameters}
        self._parameters, self._group, self._finds_unused = list(parameters), process_group, finds_unused
        self._travelling = [Travelling(p.dtype, p.size * p.dtype.itemsize, id(p) in sparse) for p in parameters]
        self._limits = first_limit, limit
        self._number = {id(parameter): number for number, parameter in enumerate(parameters)}
        self._passes = 0
        self._has_failed = False
        self._unsettle()
        self._restart()

    @property
    def ranks(self) -> Sequence[int]:
        """Of the processes, in the world."""
        return tuple(self._group.ranks)

    @property
    def buckets(self) -> list[list[str]]:
        """The names of the parameters of every bucket, in the order in which they are exchanged."""
        return [[self._parameters[n].name for n in bucket.members] for bucket in self._buckets]

    def make_ready(self) -> None:
        """Begin anew, with all other processes, if an exchange has failed.

        Raises:
            PeerFailed: it has failed elsewhere, of which this process has not been told yet.
            Unavailable: a process is gone, or does not come.
        """
        if self._group.aborted is None:
            return
        if not self._has_failed:
            self._has_failed = True
            self._group.barrier().wait()  # raises what has happened
        self._group.reset()
        self._has_failed = False
        passes, unsettled = self._group.all_reduce(np.array([self._passes, not self._is_settled]), op="max").wait()
        self._passes = int(passes)
        if unsettled:
            self._unsettle()

    # What a walk tells

    def begin(self, reached: Collection[int]) -> None:
        """See `GradientReceiver`; parameters that are not reached take part with what they have (rule D-9)."""
        self._restart()
        self._passes += 1
        unused = frozenset(n for n, parameter in enumerate(self._parameters) if id(parameter) not in reached)
        self._require_usual(unused)
        for number in sorted(unused):
            grad = self._parameters[number].grad
            self._put(number, None if grad is None else grad.array)

    def take(self, leaf: Any, total: Any) -> None:
        number = self._number[id(leaf)]
        if total is not None:
            self._used[number] = 1
        self._arrived.append(number)
        self._put(number, total)

    def go_on(self) -> None:
        if self._works:
            self._works[-1].done  # noqa: B018 (what is asked lets the exchange go on)

    def finish(self) -> Mapping[int, tuple[Any, Any]]:
        try:
            return self._means()
        except BaseException as error:
            self.give_up(error)
            raise

    def give_up(self, error: BaseException) -> None:
        """Tell the other processes, who would wait for this one's gradients."""
        self._has_failed = True
        if self._group.aborted is None:
            self._group.abort(f"backward pass {self._passes} failed with {type(error).__name__}: {error}", error)

    # Its own

    def _arrange(self, order: Sequence[int]) -> None:
        members = bucket_members(self._travelling, order, *self._limits)
        self._buckets = [ExchangeBucket(m, self._parameters, self._travelling[m[0]].is_sparse) for m in members]
        self._bucket_of = {number: bucket for bucket in self._buckets for number in bucket.members}

    def _unsettle(self) -> None:
        """The next pass is like the first: it finds out which parameters take part, and in which order they come."""
        self._is_settled = self._finds_unused
        self._tells_use = True
        self._usual_unused: frozenset[int] = frozenset()
        self._arrange(range(len(self._parameters)))

    def _restart(self) -> None:
        for bucket in self._buckets:
            bucket.missing = len(bucket.members)
        self._next = 0
        self._works: list[Any] = []
        self._arrived: list[int] = []
        self._used = np.zeros(len(self._parameters), np.int32)

    def _require_usual(self, unused: frozenset[int]) -> None:
        """The parameters that take part are those of the first pass, unless others are looked for.

        Raises:
            PreconditionNotMet: others are used; names them.
        """
        if self._finds_unused:
            return
        if not self._is_settled:
            self._usual_unused = unused
        elif unused != self._usual_unused:
            changed = one_of((self._parameters[n].name for n in unused ^ self._usual_unused), limit=5)
            error = PreconditionNotMet(
                f"backward pass {self._passes}: the loss depends on other parameters than in the first one: {changed}\n"
                "  DataParallel(find_unused_parameters=True) looks which take part in every step"
            )
            self.give_up(error)
            raise error

    def _put(self, number: int, gradient: Any) -> None:
        self._bucket_of[number].put(number, gradient, self._group.size)
        while self._next < len(self._buckets) and not self._buckets[self._next].missing:
            self._start(self._next)
            self._next += 1

    def _start(self, place: int) -> None:
        bucket = self._buckets[place]
        name = f"bucket {place} ({bucket.title}) in backward pass {self._passes}"
        if bucket.flat is None:
            bucket.sparse = self._joined(bucket.sparse, name)
        else:
            self._works.append(self._group.all_reduce(bucket.flat, out=bucket.flat, names=[name]))

    def _joined(self, part: Rows, name: str) -> Rows:
        """The sparse gradients of all processes as one, in the order of the ranks (rule G-32)."""
        counts = self._group.all_gather(np.array([len(part.rows)]), names=[name]).wait()[:, 0]
        longest = int(counts.max())
        numbers, values = np.zeros(longest, np.int64), np.zeros((longest, *part.values.shape[1:]), part.values.dtype)
        numbers[: len(part.rows)], values[: len(part.rows)] = part.rows, part.values
        all_numbers = self._group.all_gather(numbers, names=[name]).wait()
        all_values = self._group.all_gather(values, names=[name]).wait()
        parts = [Rows(n[:count], v[:count], part.height) for n, v, count in zip(all_numbers, all_values, counts)]
        return rows.concat(np, parts)

    def _means(self) -> dict[int, tuple[Any, Any]]:
        users = self._used
        if self._tells_use:
            users = self._group.all_reduce(users, names=[f"use of parameters in backward pass {self._passes}"]).wait()
        for work in self._works:
            work.wait()
        means = {
            id(parameter): (parameter, self._bucket_of[number].mean(number))
            for number, parameter in enumerate(self._parameters)
            if users[number] or not self._tells_use
        }
        if not self._is_settled:
            order = self._order_of_all()
            self._tells_use = bool((users < self._group.size).any())
            self._arrange(order)
            self._is_settled = True
        return means

    def _order_of_all(self) -> list[int]:
        """The earliest layers first, as gradients have come to the first process (rule D-7)."""
        late = [n for n in range(len(self._parameters)) if n not in set(self._arrived)]
        order = np.array(late + self._arrived[::-1], np.int64)
        self._group.broadcast(order, 0, names=["order of gradients"]).wait()
        return [int(number) for number in order]


def _sparse_part(gradient: Any, parameter: Any, size: int) -> Rows:
    dtype, shape = parameter.dtype.numpy, tuple(parameter.shape)
    if gradient is None:
        return Rows(np.empty(0, np.int64), np.empty((0, *shape[1:]), dtype), shape[0])
    if isinstance(gradient, Rows):
        return Rows(gradient.rows, np.divide(gradient.values, dtype.type(size)), gradient.height)
    return Rows(np.arange(shape[0]), np.divide(gradient, dtype.type(size)), shape[0])
