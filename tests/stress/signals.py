"""Signal handlers that raise, in storms, over every kind of step: each step is applied whole or not at all.

    python -m tests.stress.signals --seconds 20

Steps that nobody disturbs tell what every device holds after n of them, bit for bit. A round begins before the first
one and arms an alarm for a random moment, while Ctrl-C and exceptions from another thread come at moments of their
own; then the devices have to hold what they held after all steps that were applied, and the next round goes on there.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import workbench as wb
from tests.parallel.models import batch, build
from tests.parallel.observe import costly_ops, held
from workbench import static
from workbench.runtime.blas import one_blas_thread

STEPS = 8  # of a round at most


class Alarm(Exception):
    """What the handler of SIGALRM raises."""


class FromOutside(Exception):
    """What another thread sends."""


class WithText(FromOutside):
    """One that says something by itself."""

    def __init__(self) -> None:
        super().__init__("it took too long")


SENT = (FromOutside, WithText, TimeoutError)


@dataclass
class Tally:
    """What has been seen.

    Attributes:
        rounds: exceptions that came. applied: of the steps they came in, those that were applied.
        torn: rounds after which the devices held the state after no whole number of steps.
        miscounted: after which the executor told another number of steps than the devices held.
        renamed: exceptions that reached the user as something else.
        deaf: after which Ctrl-C was switched off. threads: after which BLAS or NumPy was left changed.
    """

    rounds: int = 0
    applied: int = 0
    torn: int = 0
    miscounted: int = 0
    renamed: int = 0
    deaf: int = 0
    threads: int = 0

    @property
    def is_clean(self) -> bool:
        return self.rounds > 0 and not (self.torn or self.miscounted or self.renamed or self.deaf or self.threads)

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, f.name)} {f.name}" for f in fields(self))


class Disturbed:
    """A model whose steps are interrupted.

    Args:
        kind: plain (the Executor), one, two (device threads), reduce, or calls (without kernels, two threads).
        plain: no statistics and no random numbers, so that a step can be one call.
    """

    def __init__(self, kind: str, simple: bool = True) -> None:
        self.kind, self.done = kind, 0
        self.model = build(_simple if simple else _manifold, wb.optimizer.Adam(0.05))
        self.feeds = [batch(8, i) for i in range(STEPS)]
        self.begin()
        self.states = [self.state()]
        for number in range(STEPS):
            self.step(number)
            self.states.append(self.state())
        assert len({tuple(sorted(state.items())) for state in self.states}) == STEPS + 1
        begun = time.perf_counter()
        for number in range(STEPS):
            self.step(number)
        self.span = time.perf_counter() - begun

    def begin(self) -> None:
        self.model.scope = static.Scope()
        self.model.start()
        if self.kind == "plain":
            self.exe = static.Executor()
            return
        building, execution = static.BuildStrategy(), static.ExecutionStrategy()
        mode = "Reduce" if self.kind == "reduce" else "AllReduce"
        building.reduce_strategy = static.BuildStrategy.ReduceStrategy[mode]
        execution.num_threads = 2 if self.kind in ("two", "calls") else 1
        with costly_ops():
            self.exe = self.model.parallel(2, build_strategy=building, exec_strategy=execution)
            self.step(0)

    def steps(self) -> None:
        """All steps of a round."""
        while self.done < STEPS:
            self.step(self.done)
            self.done += 1

    def step(self, number: int) -> None:
        """One step; with fetches, which are copied in its commit."""
        if self.kind == "plain":
            self.exe.run(self.model.main, self.feeds[number], [self.model.loss], scope=self.model.scope)
        else:
            self.exe.run([self.model.loss], feed=self.feeds[number])

    @property
    def counted(self) -> int | None:
        return None if self.kind == "plain" else self.exe.inspection.steps

    def state(self) -> Any:
        if self.kind != "plain":
            return held(self.exe, self.model.main)
        variables = ((v.name, self.model.scope.find_var(v.name)) for v in self.model.main.persistables())
        return {name: variable.tensor.array.tobytes() for name, variable in variables if variable is not None}

    def put_back(self) -> None:
        """The state before the first step, written under the executor's nose: its replicas stay as they lie."""
        for key, data in self.states[0].items():
            name, place = key if isinstance(key, tuple) else (key, 0)
            tensor = self.model.scope.find_var(name).tensor if self.kind == "plain" else (
                self.exe.inspection.tensor(name, place)
            )  # fmt: skip
            tensor.array[...] = np.frombuffer(data, tensor.array.dtype).reshape(tensor.array.shape)


def _simple() -> Any:
    x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
    h = static.nn.fc(static.nn.fc(x, 8, activation="relu"), 8, activation="tanh")
    return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))


def _manifold() -> Any:
    x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
    h = wb.nn.functional.dropout(static.nn.batch_norm(static.nn.fc(x, 8, activation="relu")), 0.3)
    return wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), y))


class Storm:
    """Ctrl-C and exceptions from another thread, while it is on."""

    def __init__(self, span: float, outside: bool) -> None:
        self._span, self._outside = span, outside
        self._main, self.on, self._over = threading.get_ident(), False, False
        self._thread = threading.Thread(target=self._blow, daemon=True)
        self._pick = random.Random(7)

    def __enter__(self) -> Storm:
        self._handlers = [signal.signal(signal.SIGALRM, self._alarm), signal.signal(signal.SIGINT, self.press)]
        self.press_as_set = signal.getsignal(signal.SIGINT)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._thread.join(10)
        signal.signal(signal.SIGALRM, self._handlers[0])
        signal.signal(signal.SIGINT, self._handlers[1])

    def through(self, body: Callable[[], None], moment: float) -> BaseException | None:
        """Run something in the storm, which begins after some seconds; what came out of it."""
        came = None
        try:
            try:
                self.on = True
                signal.setitimer(signal.ITIMER_REAL, moment, 0.001)
                body()
                self.on = False
            except BaseException as error:
                came = error
                self.on = False
        except BaseException as error:  # one came on the heels of another
            came = came or error
            self.on = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            time.sleep(0.0005)  # an exception may be under way
        except SENT as error:
            came = came or error
        return came

    def _alarm(self, number: int, frame: Any) -> None:
        if self.on:
            raise Alarm

    def press(self, number: int, frame: Any) -> None:
        if self.on:
            raise KeyboardInterrupt

    def _blow(self) -> None:
        send = ctypes.pythonapi.PyThreadState_SetAsyncExc
        while not self._over:
            time.sleep(self._pick.uniform(0, 2 * self._span))
            if self.on and self._outside and self._pick.random() < 0.5:
                send(ctypes.c_ulong(self._main), ctypes.py_object(self._pick.choice(SENT)))
            elif self.on:
                os.kill(os.getpid(), signal.SIGINT)


OURS = (Alarm, *SENT, KeyboardInterrupt)


def stress(kind: str, seconds: float, simple: bool = True, outside: bool = True) -> Tally:
    """Rounds for so long."""
    disturbed, tally, pick = Disturbed(kind, simple), Tally(), random.Random(3)
    blas = [library.get_num_threads() for library in one_blas_thread.libraries]
    errors, deadline = np.geterr(), time.monotonic() + seconds
    with Storm(disturbed.span, outside) as storm:
        while time.monotonic() < deadline:
            disturbed.put_back()
            disturbed.done, before = 0, disturbed.counted
            came = storm.through(disturbed.steps, pick.uniform(1e-6, disturbed.span))
            if came is None:
                continue
            _judge(disturbed, tally, before, came)
            if signal.getsignal(signal.SIGINT) != storm.press_as_set:
                tally.deaf += 1
                signal.signal(signal.SIGINT, storm.press_as_set)
            del came
            if [library.get_num_threads() for library in one_blas_thread.libraries] != blas or np.geterr() != errors:
                tally.threads += 1
                np.seterr(**errors)
    return tally


def _judge(disturbed: Disturbed, tally: Tally, before: int | None, came: BaseException) -> None:
    tally.rounds += 1
    if not isinstance(came, OURS):
        tally.renamed += 1
        if tally.renamed == 1:
            print(f"  {type(came).__name__}: {came}", file=sys.stderr)
    done, state = disturbed.done, disturbed.state()
    if state not in (disturbed.states[done], disturbed.states[min(done + 1, STEPS)]):
        tally.torn += 1
        disturbed.begin()
        return
    applied = disturbed.states.index(state)
    tally.applied += applied > done
    tally.miscounted += before is not None and disturbed.counted != before + applied


KINDS = ["plain", "one", "two", "reduce", "calls"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each kind, and of each of its two models")
    parser.add_argument("kinds", nargs="*", default=KINDS, help=", ".join(KINDS))
    given, clean = parser.parse_args(), True
    wb.enable_static()
    for kind in given.kinds:
        for simple in (True, False):
            with wb.config.override(cpu_tape=kind != "calls"):
                tally = stress(kind, given.seconds, simple)
            print(f"{kind:8} {'simple' if simple else 'manifold':8} {tally}", flush=True)
            clean &= tally.is_clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
