"""Ranks beside the notebook: started once, asked, interrupted, replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.errors import InvalidArgument, PreconditionNotMet, Unavailable
from workbench.parallel.cluster import rank_programs
from workbench.parallel.cluster.engines import Asked, Engines
from workbench.parallel.cluster.rank_errors import RankLost
from workbench.parallel.cluster.standing import Ranks

ASK_PATIENCE = 60.0  # seconds for an answer that needs no step


class Cluster:
    """Processes that train a program together, started and asked from this one; they listen on this machine only.

    Args:
        ranks: how many.
        devices: how many CPU devices each has.
        timeout: seconds that a step may take.

    Raises:
        InvalidArgument: a number below 1, or no seconds. Unavailable: they cannot be started; says what is missing.
    """

    def __init__(self, ranks: int, devices: int = 1, timeout: float = 600.0) -> None:
        self.size, self.devices = require_count("ranks", ranks), require_count("devices", devices)
        self.wait_at_most(timeout)
        self._holder: str | None = None  # what is being trained
        self._engines = Engines(self.size)
        self._ranks = Ranks(())
        self.ranks()

    @property
    def alive(self) -> bool:
        """Whether every rank is there."""
        return self._engines.alive

    def wait_at_most(self, timeout: float) -> None:
        """How many seconds a step may take from now on.

        Raises:
            InvalidArgument: no number above 0.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise InvalidArgument(f"a cluster takes seconds > 0 as timeout, got {timeout!r}")
        self.timeout = timeout

    def is_free_for(self, program: str) -> bool:
        """Whether the ranks train nothing but this, if anything."""
        return self.alive and self._holder in (None, program)

    @contextmanager
    def held_by(self, program: str) -> Iterator[None]:
        """Keep the ranks for the training of one program.

        Raises:
            Unavailable: the cluster was closed. PreconditionNotMet: they are kept for another one.
        """
        self._engines.require_open()
        if self._holder is not None:
            raise PreconditionNotMet(
                f"the ranks of this cluster are training {self._holder!r}; wait for that run, or stop it first"
            )
        self._holder = program
        try:
            yield
        finally:
            self._holder = None

    def ask(self, function: Any, *arguments: Any, timeout: float | None = None) -> list[Any]:
        """Call a function of a module of this package in all ranks, with the same arguments; see `Engines.ask`."""
        return self.ask_each(function, [arguments] * self.size, timeout)

    def ask_each(self, function: Any, arguments: list[Any], timeout: float | None = None) -> list[Any]:
        """The same with arguments of its own for every rank."""
        return self._engines.ask(function, arguments, self.timeout if timeout is None else timeout)

    def send_each(self, function: Any, arguments: list[Any]) -> Asked:
        """Ask without waiting, after what was asked before; `answers` waits."""
        return self._engines.send(function, arguments)

    def answers(self, asked: Asked, timeout: float) -> list[Any]:
        """What the ranks say to what was sent; see `Engines.answers`."""
        return self._engines.answers(asked, timeout)

    def ranks(self) -> Ranks:
        """Where the ranks stand, after the step in flight; also of those that are gone.

        Raises:
            Unavailable: mpi4py and mpiexec are of different MPIs, so that each rank is alone.
        """
        try:
            told = self.ask(rank_programs.standing, timeout=ASK_PATIENCE)
        except RankLost as loss:
            return self._ranks.lost(loss.rank, loss.how)
        if {one["ranks"] for one in told} != {self.size}:
            raise Unavailable(f"{self.size} ranks were started, but each is alone: mpiexec is not that of mpi4py's MPI")
        self._ranks = Ranks.told(told)
        return self._ranks

    def restart(self) -> Cluster:
        """End the ranks, whatever they do, and start as many new ones; returns the cluster.

        What they had is gone: the next run sends its program and values again.

        Raises:
            Unavailable: the cluster was closed, or the new ranks did not come up.
        """
        self._engines.restart()
        self.ranks()
        return self

    def interrupt(self) -> None:
        """End what the ranks wait for or compute; a step that is cut short is not applied on any of them."""
        self._engines.interrupt()

    def close(self) -> None:
        """End the ranks for good; nothing happens a second time."""
        self._engines.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self.alive else ", closed" if self._engines.closed else ", not all of them alive"
        ranks, devices = "rank" + "s" * (self.size > 1), "device" + "s" * (self.devices > 1)
        return f"Cluster({self.size} {ranks} of {self.devices} {devices}{state})"


def require_count(name: str, value: Any) -> int:
    """A number of ranks or devices.

    Raises:
        InvalidArgument: something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"a cluster takes a number >= 1 as {name}, got {value!r}")
    return value
