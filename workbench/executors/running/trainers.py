"""The processes that train together, as the engine of each of them sees it.

They begin with the values of trainer 0, add up the gradients of all devices of all of them, and apply a step on all or
on none: what keeps one of them from applying it makes the others raise `PeerFailed`.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from workbench.config import get_flag
from workbench.errors import InvalidArgument, PreconditionNotMet, Unavailable
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.spec import EngineSpec
from workbench.framework.values.dtype import as_dtype
from workbench.graph.settings import Settings
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.comm.mpi.devices import MpiCommunicator
from workbench.runtime.comm.mpi.exchange.vote import Ballot
from workbench.runtime.comm.mpi.group import ProcessGroup
from workbench.runtime.comm.mpi.lending import lent_groups
from workbench.runtime.comm.mpi.world import is_started_by_mpi, world

_COMPARED, _COMPARED_AGAIN = 16, 1024  # parameters are compared at steps 16, 32, 64 …, and then at every 1024th
_RESET = 60.0  # seconds the others have for coming back from a step that was discarded


def has_others(build: BuildStrategy) -> bool:
    """Whether there are processes that this one trains together with."""
    return build.trainers > 1 and not get_flag("FLAGS_allow_lonely_trainer") and is_started_by_mpi()


def group_of(build: BuildStrategy, patience: float) -> ProcessGroup | None:
    """The processes that train together; None if this one trains alone, or if there is no such group.

    Args:
        patience: seconds the others have for coming, where none of them has met yet.

    Raises:
        InvalidArgument: the strategy says another number of them, or another one of them, than there is.
    """
    if not has_others(build):
        return None
    group = world(patience)
    given, there = (build.trainers, build.trainer_id), (group.size, group.rank)
    if given != there:
        raise InvalidArgument(
            "the trainers are not the processes that were started\n"
            f"  expected: num_trainers={there[0]}, trainer_id={there[1]}, as mpiexec has started them\n"
            f"  got:      num_trainers={given[0]}, trainer_id={given[1]}"
        )
    return group


class Trainers:
    """Of one engine; all processes make it together.

    Args:
        world: the processes; the engine borrows a group of them, which waits as long as a step may for a device.

    Attributes:
        comm: the devices of all of them.

    Raises:
        InvalidArgument: the programs or how they are run differ; shows the first line that does.
    """

    def __init__(self, world: ProcessGroup, spec: EngineSpec, settings: Settings) -> None:
        lent = lent_groups(world)
        self._group = lent.borrow(spec.execution.timeout)
        weakref.finalize(self, lent.give_back, self._group).atexit = False
        self._program = spec.program
        self._require_the_same(spec, settings)
        self.comm = MpiCommunicator(self._group, len(spec.places))
        self._ballot = Ballot(self._group.channel)
        # a transpiled startup program has seen to it
        self._is_shared = spec.begins_replicated or not spec.data_parallel
        self._is_told = False

    def stop_when(self, is_stopped: Any) -> None:
        """Have every wait for the others end when this says so."""
        self._group.channel.is_stopped = is_stopped

    # Beginning

    def _require_the_same(self, spec: EngineSpec, settings: Settings) -> None:
        text = "\n".join(_lines_of(spec, settings)).encode()
        digests = self._gathered(hashlib.sha256(text).digest())
        if len(set(digests)) == 1:
            return
        texts = [row.decode().split("\n") for row in self._gathered(text)]
        other = next(rank for rank, digest in enumerate(digests) if digest != digests[0])
        names = self._group.member(0), self._group.member(other)
        raise InvalidArgument(_first_difference(names, texts[0], texts[other]))

    def _gathered(self, data: bytes) -> list[bytes]:
        """The bytes of all processes."""
        sizes = self._group.all_gather(np.array(len(data), np.int64)).wait()
        assert sizes is not None
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        rows = self._group.all_gather(padded).wait()
        assert rows is not None
        return [row[:size].tobytes() for row, size in zip(rows, sizes)]

    def begin(self, replicas: Replicas) -> None:
        """A step begins; before the first one everybody gets the values of trainer 0.

        Raises:
            PeerFailed: another trainer has failed in this step.
            Unavailable: after a step that was discarded not all of them have come back.
        """
        channel = self._group.channel
        if channel.failure is not None:
            if not self._is_told:
                channel.require_alive("the step")  # seen when the last one was already agreed upon: it is of this one
            self._group.reset(_RESET)
            self._is_told = False
        if not self._is_shared:
            self._share(replicas)
            self._is_shared = True

    def compare(self, replicas: Replicas, step: int) -> None:
        """See now and then that all trainers hold the same parameters; a step keeps them apart once they are.

        Args:
            step: the one that begins; all are at the same.

        Raises:
            PreconditionNotMet: on all of them, if a parameter differs; names it and the trainers.
        """
        if step < _COMPARED or (step & (step - 1) and step % _COMPARED_AGAIN):
            return
        names = sorted(parameter.name for parameter in self._program.all_parameters() if parameter.trainable)
        held = [(name, tensor.array) for name in names if (tensor := replicas.find(name, 0)) is not None]
        sums = np.array([crc32(np.ascontiguousarray(array).view(np.uint8).data) for _, array in held], np.int64)
        told = self._group.all_gather(sums, names=["checksums of the parameters"]).wait()
        assert told is not None
        for rank, at in zip(*np.nonzero(told != told[0])):
            one, first = self._group.member(int(rank)), self._group.member(0)
            raise PreconditionNotMet(
                f"{one} holds another {held[at][0]!r} than {first} before step {step}\n"
                "  something changed it on some of the trainers only; set values, load files and set learning rates on "
                "all of them alike, or make a new executor, which begins with the values of trainer 0"
            )

    def _share(self, replicas: Replicas) -> None:
        """The values of trainer 0, for everybody: all of them come before the first is put in place."""
        names = sorted(variable.name for variable in self._program.persistables())
        own = [(name, tensor.array) for name in names if (tensor := replicas.find(name, 0)) is not None]
        told = json.dumps([[name, str(array.dtype), array.shape] for name, array in own]).encode()
        size = np.array(len(told), np.int64)
        self._group.broadcast(size, 0).wait()
        text = np.zeros(int(size), np.uint8)
        if self._group.rank == 0:
            text[:] = np.frombuffer(told, np.uint8)
        self._group.broadcast(text, 0, ["the list of variables"]).wait()
        mine = dict(own)
        received = {}
        for name, dtype, shape in json.loads(text.tobytes()):
            value = np.empty(shape, as_dtype(dtype).numpy)
            if self._group.rank == 0:
                value[...] = mine[name]
            self._group.broadcast(value, 0, [name]).wait()
            received[name] = value
        for name, value in received.items() if self._group.rank else ():
            replicas.make(name, 0).take(value)

    # Every step

    def rows_of_all(self, rows: int) -> int:
        """How many rows all trainers have in this step, by how many this one has."""
        total = self._group.all_reduce(np.array(rows, np.int64), names=["the number of rows"]).wait()
        assert total is not None
        return int(total)

    @property
    def ballot(self) -> np.ndarray:
        """What kernels vote by, see `words.window`."""
        return self._group.channel.state

    def prepare_vote(self) -> None:
        """A step begins, another one than the last that was voted on."""
        self._ballot.prepare()

    def agree(self) -> None:
        """Return when all are ready to apply the step; whatever it raises, `settle` is to be called then."""
        self._ballot.agree(self._group.timeout)

    def settle(self, error: BaseException) -> None:
        """Learn what has become of the vote, see `Ballot.settle`.

        Raises:
            Unavailable: trainer 0 does not tell.
        """
        self._ballot.settle(error)
        self._group.channel.forget_cause()
        if self._ballot.is_open:
            how = "is gone and did not tell" if self._group.channel.window.state_of(0) == "gone" else "did not tell"
            raise Unavailable(
                f"{self._group.member(0)} {how} whether the step is applied: it has not been applied here, but others "
                "may have; load all parameters again"
            ) from error

    @property
    def is_agreed(self) -> bool:
        """Whether all have agreed to apply the step under way."""
        return self._ballot.is_agreed

    def fail(self, error: BaseException) -> None:
        """The step is not applied here, and the user is told why: tell the others."""
        self._is_told = True
        self._group.abort(_told(error))
        self._group.channel.forget_cause()  # its frames hold the executor, which goes when nobody wants it


def _told(error: BaseException) -> str:
    """What the others are told of an error."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _lines_of(spec: EngineSpec, settings: Settings) -> list[str]:
    """All that has to be the same on all trainers, line by line."""
    program = spec.program
    decided = {k: v for k, v in vars(settings).items() if k not in ("trainer_id", "debug_graphviz_path", "passes")}
    lines = [f"{key} = {value}" for key, value in decided.items()]
    lines += [f"pass {getattr(p, 'name', type(p).__name__)}" for p in settings.passes]
    lines += [f"{len(spec.places)} devices", f"loss {spec.loss_name}"]
    return [*lines, *program.to_string().split("\n")[1:]]


def _first_difference(names: Sequence[str], one: Sequence[str], other: Sequence[str]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    differing = [lines[at].strip() if at < len(lines) else "(nothing more)" for lines in (one, other)]
    return (
        "the trainers run different programs; the first line that differs:\n"
        f"  {names[0]}: {differing[0]}\n  {names[1]}: {differing[1]}"
    )
