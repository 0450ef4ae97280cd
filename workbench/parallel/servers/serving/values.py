"""What a server holds, in its scope: parameters and their state, and the gradients that came for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.api.executor import Executor
from workbench.framework.program.program import Program
from workbench.framework.values.rows import Rows, concat
from workbench.framework.values.spec import Spec
from workbench.parallel.servers.serving.blocks import LR_COUNTER, ROW_NUMBERS, ROW_VALUES, TRAINER_ID, Duty, updates
from workbench.runtime.storage.scope import Scope

Pushed = Mapping[str, "np.ndarray | Rows"]
"""Gradients by their names at the server."""


class Values:
    """The values of one server, and its updates.

    Args:
        executor: runs them. scope: where they are.
    """

    def __init__(self, duty: Duty, executor: Executor, scope: Scope) -> None:
        self._duty, self._executor, self._scope = duty, executor, scope
        self._programs: dict[tuple[object, ...], Program] = {}
        self._rates = _outputs(duty)

    def array(self, name: str) -> np.ndarray:
        """The storage of a variable, to be read before the next update.

        Raises:
            InvalidArgument: there is none of that name. PreconditionNotMet: it has no value.
        """
        held = self._scope.find_var(name)
        if held is None:
            raise InvalidArgument(f"no variable {name[:200]!r} lives at {self._duty.endpoint}")
        if not held.tensor.initialized:
            raise PreconditionNotMet(
                f"variable {name!r} at {self._duty.endpoint} has no value; run the server's startup program first"
            )
        array: np.ndarray = held.tensor.array
        return array

    def has(self, name: str) -> bool:
        """Whether a variable has a value."""
        held = self._scope.find_var(name)
        return held is not None and held.tensor.initialized

    def put(self, name: str, value: np.ndarray) -> None:
        """Give a variable a value."""
        self._scope.root.var(name).get_tensor().set(value)

    def remember(self, name: str, trainer: int) -> None:
        """Keep a parameter as a trainer has it now, where late gradients are corrected (T-12)."""
        kept = f"{name}.trainer_{trainer}_bak"
        if self.has(kept):
            self.put(kept, self.array(name))

    def rows(self, table: str, numbers: np.ndarray) -> np.ndarray:
        """Rows of a table.

        Raises:
            InvalidArgument: no such table, or a row that it does not have.
        """
        held = self._table(table)
        require_rows(table, numbers, held.shape[0])
        return np.take(held, numbers, axis=0, mode="clip")

    def rows_nbytes(self, table: str, numbers: np.ndarray) -> int:
        """Bytes that rows of a table have; raises InvalidArgument if there is no such table."""
        return numbers.size * self._table(table)[:1].nbytes

    def _table(self, name: str) -> np.ndarray:
        held = self.array(name)
        if held.ndim == 0:
            raise InvalidArgument(f"variable {name!r} at {self._duty.endpoint} has no rows: it is one number")
        return held

    def fits(self, gradient: str, value: np.ndarray | Rows) -> None:
        """A gradient is of the shape and dtype of its parameter.

        Raises:
            InvalidArgument: it is not.
        """
        spec = self._duty.spec_of(gradient)
        if isinstance(value, Rows) != (gradient in self._duty.tables):
            wanted = "rows" if gradient in self._duty.tables else "an array"
            raise InvalidArgument(f"gradient {gradient!r} is pushed as {wanted}")
        if isinstance(value, Rows):
            require_rows(gradient, value.rows, spec.shape[0])
        if tuple(value.shape) != spec.shape or value.dtype != spec.dtype.numpy:
            raise InvalidArgument(
                f"gradient {gradient!r} does not fit\n  expected: {spec}\n  got:      {value.dtype}{list(value.shape)}"
            )

    # Updates

    @contextmanager
    def unless_it_fails(self, names: Iterable[str]) -> Iterator[None]:
        """What changes of variables of one number, and by the schedule, is put back when the step it is for fails."""
        schedule = self._duty.schedule
        scheduled = [] if schedule is None else [name for op in schedule.ops for name in op.output_arg_names]
        before = {name: np.array(self.array(name)) for name in dict.fromkeys([*names, *scheduled]) if self.has(name)}
        try:
            yield
        except BaseException:
            for name, value in before.items():
                self.put(name, value)
            raise

    def keep(self, pushed: Pushed, trainer: int) -> dict[str, np.ndarray | Rows]:
        """What one trainer pushed to a synchronous step, put where the step reads it: others may yet be under way."""
        duty, kept = self._duty, dict(pushed)
        for name, value in pushed.items():
            if not isinstance(value, Rows):
                kept[name] = self._take(duty.incoming(name, trainer), value, duty.spec_of(name))
        return kept

    def step(self, parts: Sequence[Pushed]) -> None:
        """One synchronous step: the mean over the trainers of what they pushed, then the updates (T-7).

        Args:
            parts: of each trainer, what `keep` gave; one that has left contributes nothing to the sum.
        """
        duty = self._duty
        names = [name for name in duty.blocks if any(name in part for part in parts)]
        sparse = [name for name in names if name in duty.tables]
        given = []
        for name in names:
            for trainer, part in enumerate(parts) if name not in duty.tables else ():
                given.append(duty.incoming(name, trainer))
                self._take(given[-1], part.get(name), duty.spec_of(name))
        feed: dict[str, np.ndarray] = {}
        for name in sparse:
            total = concat(np, [rows for part in parts if isinstance(rows := part.get(name), Rows)])
            feed |= _fed(name, total.scale(total.dtype.type(1 / duty.trainers)))
        self._run(("step", *names), names, given, sparse, feed, with_schedule=True)

    def apply(self, pushed: Pushed, trainer: int) -> None:
        """Updates by what one trainer pushed, in full: nothing is divided by the number of trainers (T-7)."""
        self.put(TRAINER_ID, np.array([trainer], np.int64))
        duty = self._duty
        names = [name for name in duty.blocks if name in pushed]
        sparse = [name for name in names if name in duty.tables]
        given: list[str] = []
        feed: dict[str, np.ndarray] = {}
        for name in names:
            value = pushed[name]
            if isinstance(value, Rows):
                feed |= _fed(name, value)
            else:
                given.append(name)
                self._take(name, value, duty.spec_of(name))
        given.append(TRAINER_ID)
        self._run(("apply", *names), names, given, sparse, feed, with_schedule=False)

    def advance(self, counter: str, steps: np.ndarray | None) -> None:
        """The learning rate of so many steps further of one trainer, or as it is now."""
        if self._duty.schedule is not None:
            if steps is not None and self.has(counter) and counter != LR_COUNTER:
                self.put(counter, self.array(counter) + steps)
            self._run(("rate",), [], [], [], {}, with_schedule=True)

    @property
    def has_rate(self) -> bool:
        """Whether the learning rate of a schedule has been computed."""
        return all(map(self.has, self._rates))

    def _take(self, name: str, value: np.ndarray | Rows | None, spec: Spec) -> np.ndarray:
        """The storage of a gradient, with its value in it."""
        holder = self._scope.root.var(name).get_tensor()
        if not holder.initialized or value is None:
            holder.set(np.zeros(spec.shape, spec.dtype.numpy))
            holder.is_fixed = True
        if isinstance(value, np.ndarray) and value is not holder.array:
            holder.set(value)
        array: np.ndarray = holder.array
        return array

    def _run(
        self,
        key: tuple[object, ...],
        names: Sequence[str],
        given: Sequence[str],
        sparse: Sequence[str],
        feed: Mapping[str, np.ndarray],
        with_schedule: bool,
    ) -> None:
        duty = self._duty
        program = self._programs.get(key)
        if program is None:
            blocks = [duty.schedule] if with_schedule and duty.schedule is not None else []
            blocks += dict.fromkeys(duty.blocks[name] for name in names)
            program = self._programs[key] = updates(duty, blocks, given, sparse, self._rates)
        self._executor.run(program, feed=dict(feed), fetch_list=[], scope=self._scope)


def _fed(gradient: str, rows: Rows) -> dict[str, np.ndarray]:
    return {gradient + ROW_NUMBERS: rows.rows, gradient + ROW_VALUES: rows.values}


def require_rows(name: str, numbers: np.ndarray, height: int) -> None:
    """Numbers of rows that a table has.

    Raises:
        InvalidArgument: one it does not have, or no list of whole numbers.
    """
    if numbers.ndim != 1 or numbers.dtype != np.int64:
        raise InvalidArgument(f"rows of {name!r} are named by int64 numbers in a list, got {numbers.dtype}")
    if numbers.size and (numbers.min() < 0 or numbers.max() >= height):
        wrong = int(numbers.min() if numbers.min() < 0 else numbers.max())
        raise InvalidArgument(f"{name!r} has no row {wrong}\n  expected: 0 <= row < {height}\n  got:      {wrong}")


def _outputs(duty: Duty) -> set[str]:
    """What the block of the learning rate makes for the others."""
    if duty.schedule is None:
        return set()
    written = {name for op in duty.schedule.ops for name in op.output_arg_names} - {LR_COUNTER}
    read = {name for block in duty.blocks.values() for op in block.ops for name in op.input_arg_names}
    return written & read
