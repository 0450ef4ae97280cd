"""The processes of a cluster: started under MPI through ipyparallel, asked all at once, replaced when one is lost.

What is asked and answered is JSON and the bytes of arrays (see `rank_calls`); ipyparallel carries it, on this machine
only, signed with a key that only this user can read.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from workbench import between
from workbench.errors import Unavailable
from workbench.parallel.cluster.rank_calls import call, message, unpacked
from workbench.parallel.cluster.rank_errors import RankLost, first_cause, has_failed
from workbench.parallel.launch.mpiexec import environment, find_launcher
from workbench.version import RESTART, installing

Asked: TypeAlias = Sequence[Any]  # what is to come of every rank

START_PATIENCE = 120.0  # seconds for the ranks to come up
FAREWELL = 5.0  # seconds for the other ranks to notice that one has failed, before they are interrupted
_POLL = 0.002
_LOOK = 0.05
_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node \S+ exited on\s+signal (\d+)")
_ENDED = re.compile(r"Process name: \[\S+?,(\d+)\]\s+Exit code:\s+(\d+)")

# A kernel that is killed cleans nothing up: beside each process that it starts a shell looks whether it still lives.
_WHILE_IT_LIVES = "((while kill -0 {}; do sleep 1; kill -0 $$ || exit; done; kill $$) </dev/null >/dev/null 2>&1 &);"


class Engines:
    """So many ranks under one mpiexec, listening on this machine only.

    Args:
        count: how many.

    Raises:
        Unavailable: no mpi4py, no mpiexec or no ipyparallel; or they did not come up.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._sending = threading.Lock()  # the client's sockets take one thread at a time
        self._lost: tuple[int | None, str] | None = None  # which rank died, and how, until there are new ones
        self._folder = TemporaryDirectory(prefix="workbench-ranks-")
        self._errors = Path(self._folder.name) / "mpiexec.err"  # ipyparallel clears its own copy away too soon
        self._cluster, self._client = self._started()

    def _started(self) -> tuple[Any, Any]:
        ipyparallel, launcher = _ipyparallel(), find_launcher()
        self._errors.touch()
        config = _config(launcher.path, self._errors)
        with _surroundings():
            cluster = ipyparallel.Cluster(engines="mpi", n=self.count, config=config, log_level=logging.CRITICAL)
            try:
                cluster.start_cluster_sync()
                client = cluster.connect_client_sync()
                _await_ranks(client, self.count)
            except BaseException:
                cluster.stop_cluster_sync()
                raise
        return cluster, client

    def restart(self) -> None:
        """End all ranks and start as many new ones.

        Raises:
            Unavailable: they did not come up, or the cluster was closed.
        """
        self.require_open()
        with _surroundings(), self._sending:
            self._cluster.stop_engines_sync()
            self._await_farewell()
            self._errors.write_text("")
            self._cluster.start_engines_sync(self.count)
        self._lost = None
        _await_ranks(self._client, self.count)

    def _await_farewell(self) -> None:
        """Until the client knows that those that were are gone, or it would take them for the new ones."""
        deadline = time.monotonic() + START_PATIENCE
        while self._client.ids and time.monotonic() < deadline:
            time.sleep(_LOOK)

    def close(self) -> None:
        """End all ranks; nothing happens a second time."""
        if self._client is not None:
            with _surroundings(), self._sending:
                self._client.close()
                self._cluster.stop_cluster_sync()
            self._client = None
            self._folder.cleanup()

    @property
    def closed(self) -> bool:
        """Whether the ranks were ended for good."""
        return self._client is None

    @property
    def alive(self) -> bool:
        """Whether every rank is there."""
        return self._client is not None and len(self._client.ids) == self.count

    def ask(self, function: Callable[..., Any], arguments: Sequence[Sequence[Any]], timeout: float) -> list[Any]:
        """Call a function of a module in every rank at once, and wait for what they say; see `send` and `answers`."""
        return self.answers(self.send(function, arguments), timeout)

    def send(self, function: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> Asked:
        """Have a function of a module called in every rank, after what was asked of them before; do not wait.

        Args:
            arguments: of each rank's call; arrays and plain values.

        Raises:
            RankLost: a rank has died; names it and the signal. InvalidType: an argument that is no data.
        """
        self.require_alive()
        written = [message(function, given) for given in arguments]
        with self._sending:
            ids = sorted(self._client.ids)
            try:
                return [self._client[i].apply_async(call, *given) for i, given in zip(ids, written, strict=True)]
            except (LookupError, ValueError, _no_engines()) as error:  # one has gone between the look and the call
                raise self._loss() from error

    def answers(self, asked: Asked, timeout: float) -> list[Any]:
        """Wait for what the ranks say.

        Args:
            timeout: seconds.

        Returns:
            what the calls returned, by rank.

        Raises:
            RankLost: a rank has died; names it and the signal. TimeoutError: not all have answered; they are
                interrupted. Exception: what the first rank that failed has raised, named.
        """
        try:
            self._await(asked, timeout)
        except BaseException:
            self._interrupt_late(asked)
            raise
        if all(answer.ready() and answer.successful() for answer in asked):
            return [unpacked(answer.get()) for answer in asked]
        raise self._loss() if not self.alive else first_cause(asked)

    def _await(self, answers: Asked, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not all(answer.ready() for answer in answers):
            self.require_open()  # answers of ranks that another thread has closed never come
            now = time.monotonic()
            if any(map(has_failed, answers)):
                deadline = min(deadline, now + FAREWELL)
            if now >= deadline:
                if any(map(has_failed, answers)):
                    self._interrupt_late(answers)
                    return
                late = [str(rank) for rank, answer in enumerate(answers) if not answer.ready()]
                raise TimeoutError(f"no answer from rank {', '.join(late)} within {timeout:g} s")
            between.rest(_POLL)

    def require_alive(self) -> None:
        """Raises: RankLost: one is gone. Unavailable: the cluster was closed."""
        self.require_open()
        if not self.alive:
            raise self._loss()

    def require_open(self) -> None:
        """Raises: Unavailable: the cluster was closed."""
        if self.closed:
            raise Unavailable("this cluster was closed; wb.distributed.cluster(n) starts another one")

    def interrupt(self) -> None:
        """Ctrl-C in every rank that is there; what it waits for ends."""
        if self._client is not None and self._client.ids:
            with self._sending:
                self._client.send_signal(signal.SIGINT, block=False)

    def _interrupt_late(self, asked: Asked) -> None:
        """The same in those that have not answered; one that has might lose what it is asked next."""
        if self.alive:
            late = [i for i, answer in zip(sorted(self._client.ids), asked) if not answer.ready()]
            with self._sending, suppress(LookupError, _no_engines()):  # one that has gone needs no signal
                for i in late:
                    self._client.send_signal(signal.SIGINT, targets=i, block=False)

    def _loss(self) -> RankLost:
        if self._lost is None:
            self._lost = self._awaited_loss()
        return RankLost(*self._lost)

    def _awaited_loss(self) -> tuple[int | None, str]:
        deadline = time.monotonic() + FAREWELL
        while time.monotonic() < deadline:  # mpiexec writes it down a moment later
            told = self._told()
            if told is not None:
                return told
            time.sleep(_LOOK)
        return None, "is gone, and mpiexec did not say which"

    def _told(self) -> tuple[int, str] | None:
        """What mpiexec has written about the rank that died first: which, and how."""
        text = self._errors.read_text(errors="replace")
        killed, ended = _KILLED.findall(text), _ENDED.findall(text)
        if killed:
            rank, number = killed[-1]
            return int(rank), f"was ended by {signal.Signals(int(number)).name}"
        return (int(ended[-1][0]), f"ended with exit code {ended[-1][1]}") if ended else None


def _await_ranks(client: Any, count: int) -> None:
    """Raises: Unavailable: they did not come up."""
    import ipyparallel

    try:
        client.wait_for_engines(count, timeout=START_PATIENCE, interactive=False)
    except (TimeoutError, ipyparallel.error.TimeoutError, ipyparallel.error.EngineError) as error:
        raise Unavailable(f"{count} ranks did not come up within {START_PATIENCE:g} s: {error}") from error


def _no_engines() -> type[Exception]:
    return _ipyparallel().error.NoEnginesRegistered


def _ipyparallel() -> Any:
    try:
        import ipyparallel
        import mpi4py  # noqa: F401  (the ranks need it)
    except ImportError as error:
        raise Unavailable(
            f"a cluster needs ipyparallel and mpi4py, which cannot be loaded: {error}\n  {installing('processes')}"
            f"\n  {RESTART}"
        ) from error
    return ipyparallel


def _config(mpiexec: str, errors: Path) -> Any:
    """Settings of ipyparallel: whose mpiexec, where its complaints are written; all ends with this process."""
    from ipyparallel.cluster.launcher import ipcontroller_cmd_argv
    from traitlets.config import Config

    config = Config()
    watched = f"{_WHILE_IT_LIVES.format(os.getpid())} exec "
    config.MPIEngineSetLauncher.mpi_cmd = ["/bin/sh", "-c", watched + '"$@" 2>>"$0"', str(errors), mpiexec]
    controller = ["/bin/sh", "-c", watched + '"$@"', "sh", *ipcontroller_cmd_argv]
    config.LocalControllerLauncher.controller_cmd = controller
    config.Cluster.send_engines_connection_env = True
    config.Cluster.delay = 0.0  # seconds for the controller, of which the connection is known before engines start
    return config


@contextmanager
def _surroundings() -> Iterator[None]:
    """The variables mpiexec needs, for as long as it is started."""
    before = dict(os.environ)
    os.environ.update(environment())
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
