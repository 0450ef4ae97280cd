"""A server at work: takes what trainers ask, one request after the other, until all of them have left."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench import events
from workbench.checkpoint.files import write_tensors
from workbench.checkpoint.parts import part_of
from workbench.errors import EnforceNotMet, InvalidArgument, PeerFailed, PeerTimeout, PreconditionNotMet, one_of
from workbench.framework.values.rows import Rows
from workbench.parallel.servers.serving.blocks import LR_COUNTER, ROW_NUMBERS, ROW_VALUES, Duty
from workbench.parallel.servers.serving.changes import RowChanges
from workbench.parallel.servers.serving.members import TrainerMembers
from workbench.parallel.servers.serving.values import Values
from workbench.parallel.servers.transports.process import own_process
from workbench.runtime.servers.messages import MAX_BYTES, Message
from workbench.runtime.servers.transport import Listener, Question

_LOOK = 0.05  # seconds between looks at the clock, and at the keyboard
_LOOK_FOR_TRAINERS = 0.5  # seconds between looks at whether their processes are there
Arrays = Mapping[str, np.ndarray]


class Push(NamedTuple):
    """What a trainer gives in one step.

    Attributes:
        gradients: by their names at the server. steps: by how many a trainer's counter moves on. rates: learning
            rates.
    """

    gradients: dict[str, np.ndarray | Rows]
    steps: dict[str, np.ndarray]
    rates: dict[str, np.ndarray]


class StateKeeper(Protocol):
    """Keeps a server's state in a file."""

    def restore(self, server: ParameterServer) -> None:
        """Go on where the file is, if there is one."""

    def stepped(self, server: ParameterServer) -> None:
        """A step was applied."""

    def save(self, server: ParameterServer) -> None:
        """Write the file."""


class ParameterServer:
    """One server.

    Args:
        duty: what it is there for. values: what it holds. listener: whence requests come.
        patience: seconds that trainers wait for one that has not pushed, and for one that was lost when the others
            have left.
        keeper: of its checkpoint, None if there is none.

    Attributes:
        round: how many steps of all trainers (where their gradients are added up), or of any of them, were applied.
        pushed, pulled: bytes of gradients that were taken, and of parameters that were given.
    """

    def __init__(
        self, duty: Duty, values: Values, listener: Listener, patience: float, keeper: StateKeeper | None = None
    ) -> None:
        self.duty, self.values = duty, values
        self._listener, self._patience, self._keeper = listener, patience, keeper
        self.members, self.changes = TrainerMembers(duty.trainers), RowChanges(duty, values)
        self.round = 0
        self.pushed = self.pulled = 0
        self._parts: dict[int, Push] = {}
        self._waiting: dict[int, tuple[Question, list[str]]] = {}
        self._begun = self._left = self._looked = 0.0
        self._gone: list[int] = []
        self._number = SystemRandom().getrandbits(53)  # no other server's
        self._answers: dict[str, Callable[[Question, int], None]] = {
            "join": self._join,
            "step": self._step,
            "pull": self._pull,
            "rows": self._rows,
            "leave": self._leave,
            "save": self._save,
            "part": self._write_part,
        }

    def serve(self) -> None:
        """Return when all trainers have left."""
        try:
            if self._keeper is not None:
                self._keeper.restore(self)
            while not self._is_over():
                request = self._listener.receive(_LOOK)
                if request is not None:
                    self.handle(request)
                self._look_at_the_clock()
        finally:
            self._listener.close()

    def handle(self, request: Question) -> None:
        """Answer a request, or keep it until it can be; whatever is wrong with it, nothing was applied."""
        try:
            frame = request.frame
            answer = self._answers.get(frame.kind)
            if answer is None:
                raise InvalidArgument(f"a server knows {', '.join(self._answers)}, got {frame.kind[:100]!r}")
            trainer = frame.number("trainer")
            if frame.kind != "join":
                self.members.hear(trainer, frame.number("session"))
            answer(request, trainer)
        except EnforceNotMet as error:
            request.refuse(error)
        except Exception as error:
            request.refuse(self._failed(repr(request.frame.kind[:100]), error))

    def _failed(self, what: str, error: Exception) -> PreconditionNotMet:
        return PreconditionNotMet(f"{what} failed at server {self.duty.endpoint}: {type(error).__name__}: {error}")

    # Coming and going

    def _join(self, request: Question, trainer: int) -> None:
        frame, number = request.frame, self._number
        if why := self._why_not(trainer, frame.text("program"), frame.fields.get("left")):
            request.answer(Message("another", {"why": f"server {self.duty.endpoint} {why}"}))
            return
        session = self.members.join(trainer, frame)
        self._forget(trainer)
        told = {"session": session, "sequence": self._next(trainer), "mode": self.duty.mode, "server": number}
        request.answer(Message("joined", {**told, **own_process()}))

    def _why_not(self, trainer: int, program: str, left: object) -> str:
        """Why a trainer wants the server that will be here after this one; "" if it does not."""
        if left == self._number:
            others = ", ".join(map(str, self.members.active))
            return f"still serves trainers {others}; trainer {trainer} has left it, and does not come again"
        own = self.duty.fingerprint
        if program and own and program != own:
            return (
                "serves another program: other parameters, updates, servers or number of trainers than the program of "
                f"trainer {trainer}; all processes transpile the same one"
            )
        return ""

    def _leave(self, request: Question, trainer: int) -> None:
        self.members.leave(trainer)
        self._left = time.monotonic()
        self._forget(trainer)
        request.answer(Message("left"))
        self._finish_round()

    def _forget(self, trainer: int) -> None:
        """A session is over: what it pushed to a round that is not complete goes with it."""
        self._drop(trainer)
        self._parts.pop(trainer, None)

    def _drop(self, trainer: int) -> None:
        """Forget a question that nobody waits for any more."""
        before = self._waiting.pop(trainer, None)
        if before is not None:
            before[0].refuse(PeerTimeout(f"trainer {trainer} has asked again"))

    def _is_over(self) -> bool:
        active = self.members.active
        if not active:
            return True
        lost = self._lost()
        if {*lost} == {*active}:
            self._tell_end(active, "are gone")
            return True
        if len(active) == self.duty.trainers:
            return False
        is_late = time.monotonic() > self._left + self._patience
        absent = self.members.silent(self._patience) + (self.members.never_came() if is_late else [])
        if {*absent, *lost} != {*active}:
            return False
        self._tell_end(active, f"were not heard of for {self._patience:g} s")
        return True

    def _tell_end(self, trainers: Sequence[int], why: str) -> None:
        """It ends without a farewell of some."""
        others = ", and the others have left" if len(trainers) < self.duty.trainers else ""
        lost = ", ".join(map(str, trainers))
        warnings.warn(f"server {self.duty.endpoint} ends: trainers {lost} {why}{others}", stacklevel=2)

    def _lost(self) -> list[int]:
        """Trainers whose processes have ended, where they do not come again."""
        if not self._listener.comes_again and time.monotonic() > self._looked + _LOOK_FOR_TRAINERS:
            self._looked, self._gone = time.monotonic(), self.members.gone()
        return self._gone

    # Steps

    def _next(self, trainer: int) -> int:
        """The number of the next step of a trainer: a smaller one was taken already."""
        return self.round if self.duty.adds_up else self.members.applied[trainer]

    def _step(self, request: Question, trainer: int) -> None:
        frame = request.frame
        sequence, names = frame.number("sequence"), self._wanted(frame)
        if sequence > self._next(trainer):
            raise PreconditionNotMet(
                f"trainer {trainer} pushes step {sequence}, and the server has taken {self._next(trainer)}: it was "
                "started again from an older state; start the trainers again"
            )
        if sequence < self._next(trainer):
            self._give(request, trainer, names)  # its gradients were applied: the answer was lost
            return
        if not self.duty.adds_up:
            self._apply(self._read(frame.arrays), trainer)
            self._finish(request, trainer, names)
            return
        if trainer not in self._parts:
            pushed = self._read(frame.arrays)
            pushed = pushed._replace(gradients=self.values.keep(pushed.gradients, trainer))
            self._begun = self._begun if self._parts else time.monotonic()
            self._parts[trainer] = pushed
            self.pushed += frame.nbytes
        self._drop(trainer)
        self._waiting[trainer] = request, names
        self._finish_round()

    def _finish_round(self) -> None:
        """Apply a synchronous step once all trainers that are there have pushed."""
        if not self._parts or not self._parts.keys() >= set(self.members.active):
            return
        waiting, self._waiting = self._waiting, {}
        nothing = Push({}, {}, {})
        parts = [self._parts.get(trainer, nothing) for trainer in range(self.duty.trainers)]
        self._parts = {}
        rates = dict(item for part in parts for item in part.rates.items())
        try:
            with self.values.unless_it_fails(rates):
                for name, rate in rates.items():
                    self.values.put(name, rate)
                self.values.step([part.gradients for part in parts])
        except Exception as error:
            for request, _ in waiting.values():
                request.refuse(PreconditionNotMet(f"step {self.round} could not be applied: {error}"))
            return
        self.round += 1
        self.members.applied = [self.round] * self.duty.trainers
        self._keep()  # before the answers: who has one finds its step again after a restart
        for trainer, (request, names) in waiting.items():
            try:
                self._finish(request, trainer, names)
            except Exception as error:  # the others have their answers
                request.refuse(self._failed(f"the answer to step {self.round - 1}", error))

    def _keep(self) -> None:
        """A step was applied; that it cannot be kept does not undo it."""
        try:
            if self._keeper is not None:
                self._keeper.stepped(self)
        except Exception as error:  # whatever it is, trainers wait for their answers
            warnings.warn(f"server {self.duty.endpoint} could not write its checkpoint: {error}", stacklevel=2)

    def _finish(self, request: Question, trainer: int, names: Sequence[str]) -> None:
        """Answer a step that was applied."""
        before = self.pulled
        self._give(request, trainer, names)
        if events.listening(events.Exchanged):
            sequence, pulled = request.frame.number("sequence"), self.pulled - before
            events.emit(events.Exchanged(self.duty.endpoint, sequence, trainer, request.frame.nbytes, pulled))

    def _apply(self, push: Push, trainer: int) -> None:
        """Apply what one trainer pushed, at once."""
        values = self.values
        with values.unless_it_fails([*push.rates, *push.steps]):
            for name, rate in push.rates.items():
                values.put(name, rate)
            for name, steps in push.steps.items():
                values.advance(name, steps)
            if not values.has_rate:
                values.advance("", None)
            values.apply(push.gradients, trainer)
        self.members.applied[trainer] += 1
        self.round += 1
        self.changes.note(push.gradients, self.round)
        self.pushed += sum(value.nbytes for value in push.gradients.values())
        self._keep()

    def _read(self, arrays: Arrays) -> Push:
        """What is pushed, all of which fits."""
        push = Push({}, {}, {})
        for name, array in arrays.items():
            if name.startswith(LR_COUNTER):
                push.steps[name] = _number(name, array, np.dtype(np.int64))
            elif name in self.duty.rates:
                push.rates[name] = _number(name, array, self.values.array(name).dtype)
            elif not name.endswith(ROW_VALUES):
                gradient, value = self._one(name, array, arrays)
                if gradient in push.gradients:
                    raise InvalidArgument(f"gradient {gradient!r} is pushed twice")
                self.values.fits(gradient, value)
                push.gradients[gradient] = value
        if any(n.endswith(ROW_VALUES) and n.removesuffix(ROW_VALUES) + ROW_NUMBERS not in arrays for n in arrays):
            raise InvalidArgument("values of rows are pushed without the numbers of the rows")
        return push

    def _one(self, name: str, array: np.ndarray, arrays: Arrays) -> tuple[str, np.ndarray | Rows]:
        if not name.endswith(ROW_NUMBERS):
            return self.duty.gradient_of(name), array
        plain = name.removesuffix(ROW_NUMBERS)
        gradient = self.duty.gradient_of(plain)
        values = arrays.get(plain + ROW_VALUES)
        if values is None:
            raise InvalidArgument(f"rows of gradient {plain[:100]!r} are pushed without values")
        return gradient, Rows(array, values, self.duty.spec_of(gradient).shape[0])

    # Parameters

    def _pull(self, request: Question, trainer: int) -> None:
        self._give(request, trainer, self._wanted(request.frame))

    def _wanted(self, frame: Message) -> list[str]:
        """The names of parameters that a request asks for, all of which are there."""
        names = frame.names("pull")
        for name in names:
            self.values.array(name)
        self.changes.asked(frame)
        return names

    def _give(self, request: Question, trainer: int, names: Sequence[str]) -> None:
        whole = {name: self.values.array(name) for name in names}
        told = {"sequence": self._next(trainer), "round": self.round}
        answer = Message("values", told, whole | self.changes.since(request.frame))
        self.pulled += answer.nbytes
        for name in names:
            self.values.remember(name, trainer)
        request.answer(answer)

    def _rows(self, request: Question, trainer: int) -> None:
        frame = request.frame
        nbytes = sum(self.values.rows_nbytes(name, numbers) for name, numbers in frame.arrays.items())
        if nbytes > MAX_BYTES:
            raise InvalidArgument(f"rows of {nbytes} bytes are asked for; an answer has at most {MAX_BYTES}")
        rows = {f"{name}{ROW_VALUES}": self.values.rows(name, numbers) for name, numbers in frame.arrays.items()}
        answer = Message("rows", {}, rows)
        self.pulled += answer.nbytes
        request.answer(answer)

    def _save(self, request: Question, trainer: int) -> None:
        if self._keeper is None:
            raise PreconditionNotMet(
                f"server {self.duty.endpoint} keeps no checkpoint; FLAGS_server_checkpoint names a folder for it"
            )
        self._keeper.save(self)
        request.answer(Message("saved", {"round": self.round}))

    def _write_part(self, request: Question, trainer: int) -> None:
        """Write variables into a part of a checkpoint of all servers: under other names, those that have a value."""
        frame, known = request.frame, {*self.duty.persistables()}
        folder, wanted, keys = Path(frame.text("folder")), frame.names("wanted"), frame.names("keys")
        if len(wanted) != len(keys) or not known.issuperset(wanted):
            raise InvalidArgument(f"variables of server {self.duty.endpoint} are {one_of(known)}, got {one_of(wanted)}")
        path = part_of(folder, frame.number("save"), frame.number("part"))
        if not folder.is_absolute() or not path.parent.is_dir():
            raise InvalidArgument(
                f"server {self.duty.endpoint} has no folder {path.parent}: it is to be one that all processes see"
            )
        written = {key: name for name, key in zip(wanted, keys, strict=True) if self.values.has(name)}
        write_tensors(path, {key: self.values.array(name) for key, name in written.items()})
        request.answer(Message("written", {"names": list(written.values())}))

    def _look_at_the_clock(self) -> None:
        """Tell those who wait that others do not come."""
        if not self._waiting:
            return
        lost = [one for one in self._lost() if one not in self._parts]
        if not lost and time.monotonic() < self._begun + self._patience:
            return
        missing = lost or [one for one in self.members.active if one not in self._parts]
        named = ", ".join(f"trainer {one}" for one in missing)
        why = "is gone" if lost else f"did not push within {self._patience:g} s"
        error = PeerFailed(f"step {self.round}: {named} {why}", missing)
        waiting, self._waiting = self._waiting, {}
        self._begun = time.monotonic()
        for request, _ in waiting.values():
            request.refuse(error)


def _number(name: str, array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """One number, of the dtype it is to have.

    Raises:
        InvalidArgument: it is something else.
    """
    if array.size != 1 or array.dtype != dtype:
        raise InvalidArgument(f"{name[:100]!r} is one number {dtype}, got {array.dtype}{list(array.shape)}")
    return array.reshape(1)
