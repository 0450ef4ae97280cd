"""The values a program is trained from: what has none gets its first one, what a changed program says otherwise gets a
new one, the rest is kept.

A cell that builds a program is edited and run again: the scope still has the values of the program before. What changed
in shape, dtype or initializer is made anew; so is the state of an optimizer of another type, and that of a parameter
which is made anew. Learning rates are those of the new program. What did not change goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InvalidArgument
from workbench.experiments.runners import Runner
from workbench.framework.notice import say
from workbench.framework.program.program import Program
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.program.variable import Parameter
from workbench.framework.values.portable import config_of
from workbench.framework.values.spec import shape_text
from workbench.optimizer.lr import LRScheduler
from workbench.runtime.storage.ownership import initial_values_of, owner_of, same_initial_value, same_program
from workbench.runtime.storage.scope import InitialValue, Owner, Scope, ScopeVariable
from workbench.runtime.undisturbed import undisturbed

_NAMED = 4  # variables that a line names; of more it gives the number


class ParameterStates(NamedTuple):
    """How a program updates a parameter.

    Attributes:
        kinds: types of the operators that write its states. states: the names of these.
    """

    kinds: tuple[str, ...]
    states: tuple[str, ...]


def updates_of(program: Program) -> dict[str, ParameterStates]:
    """How the parameters of a program are updated, by their names."""
    block = program.global_block()
    kinds: dict[str, dict[str, None]] = {}
    states: dict[str, dict[str, None]] = {}
    for op in program.all_ops():
        if not op.role & OPTIMIZE:
            continue
        for parameter, _ in op.role_vars[:1]:
            kept = [n for n in op.output_arg_names if n != parameter and n in block.vars and block.vars[n].persistable]
            if parameter in op.output_arg_names or kept:
                kinds.setdefault(parameter, {})[op.type] = None
                states.setdefault(parameter, {}).update(dict.fromkeys(kept))
    return {parameter: ParameterStates(tuple(own), tuple(states[parameter])) for parameter, own in kinds.items()}


def rates_of(program: Program) -> list[str]:
    """The variables that hold learning rates."""
    return list(dict.fromkeys(n for op in program.all_ops() for n in op.inputs.get("LearningRate", ())))


def initialise(program: Program, startup: Program, runner: Runner, scope: Scope, fresh: bool = False) -> None:
    """Bring the values of a scope to where training a program begins, and say in a line what a changed one made anew.

    Args:
        startup: what gives the program's variables their first values. runner: runs it.
        fresh: make all of them anew.
    """
    changes = Changes(program, startup, scope, fresh)
    if not (changes.anew or changes.is_built_anew):
        return
    values = _first_values(changes, runner)
    with scope.in_use():
        undisturbed(partial(changes.apply, values))
    if line := changes.line():
        say(line)


@dataclass
class Changes:
    """What of a scope is made anew for a program.

    Attributes:
        anew: the variables, each with the reason, "" where it had no value.
        is_built_anew: whether values are there that another build of the program made.
    """

    program: Program
    startup: Program
    scope: Scope
    fresh: bool
    anew: dict[str, str] = field(default_factory=dict)
    is_built_anew: bool = False

    def __post_init__(self) -> None:
        self._owner = owner_of(self.startup)
        self._initial = initial_values_of(self.startup)
        self._declared = {name: self.startup.global_block().vars[name] for name in self._initial}
        self._updates, self._rates = updates_of(self.program), rates_of(self.program)
        self._same: dict[int, bool] = {}  # by the origin of other owners
        self._restarted: list[str] = []
        if self.fresh:
            for schedule in self.program.lr_schedulers.values():
                _require_known(schedule)
        held = {name: self.scope.find_var(name) for name in self._declared}
        self._held = {name: v for name, v in held.items() if v is not None and v.tensor.initialized}
        self._before = {n: self._held[n].tensor.array.copy() for n in self._rates if n in self._held}
        for name in self._declared:
            if name not in self._held:
                self.anew[name] = ""
            elif self.fresh:
                self.anew[name] = "fresh"
            elif (why := self._why_anew(name, self._held[name])) is not None:
                self.anew[name] = why
        self.is_built_anew = any(map(self._is_of_build_before, self._held.values()))
        self._renew_states()

    # What changed

    def _is_of_other_build(self, held: ScopeVariable) -> bool:
        return held.owner is not None and held.owner.origin != self._owner.origin

    def _is_of_build_before(self, held: ScopeVariable) -> bool:
        """Whether this very program, built before, made the value, and not one that shares it on purpose."""
        return held.owner is not None and self._is_of_other_build(held) and self._is_same_program(held.owner)

    def _is_same_program(self, other: Owner) -> bool:
        if other.origin not in self._same:
            self._same[other.origin] = same_program(self._owner, other) or other.program() is None
        return self._same[other.origin]

    def _why_anew(self, name: str, held: ScopeVariable) -> str | None:
        """Why a value is not kept, None if it is."""
        if not self._is_of_other_build(held):
            return None
        is_other = not same_initial_value(held.initial, self._initial[name])
        if name in self._rates and (is_other or self._is_of_build_before(held)):
            return "rate"
        if not self._is_of_build_before(held):
            return None
        variable, array = self._declared[name], held.tensor.array
        if tuple(array.shape) != tuple(variable.shape):
            return f"{shape_text(array.shape)} → {shape_text(variable.shape)}"
        if array.dtype != variable.dtype.numpy:
            return f"{array.dtype} → {variable.dtype.name}"
        return _difference(held.initial, self._initial[name]) if is_other else None

    def _renew_states(self) -> None:
        """The states of a parameter belong together, and to its value: they are kept together, or made anew."""
        is_settled = False
        while not is_settled:
            is_settled = True
            for parameter, update in self._updates.items():
                states = [name for name in update.states if name in self._declared]
                kept = [name for name in states if name not in self.anew]
                is_cut = parameter in self.anew or len(kept) < len(states)
                if kept and (is_cut or any(self._is_of_other_kind(name, update) for name in kept)):
                    self.anew.update(dict.fromkeys(kept, "state"))
                    is_settled = False

    def _is_of_other_kind(self, name: str, update: ParameterStates) -> bool:
        held = self._held[name]
        if not self._is_of_other_build(held) or held.initial is None:
            return False
        is_known = bool(held.initial.update) or self._is_of_build_before(held)
        return is_known and held.initial.update != update.kinds

    # What becomes of it

    def apply(self, values: dict[str, np.ndarray]) -> None:
        """Write the new values, and note of all whose they are now."""
        kinds = {state: update.kinds for update in self._updates.values() for state in update.states}
        if self.is_built_anew:
            self._retire()
        for name, initial in self._initial.items():
            target = self.scope.find_var(name) or self.scope.root.var(name)
            before = target.initial
            if name in values:
                target.tensor.take(values[name])
            elif target.owner is None or not self._is_same_program(target.owner):
                continue  # set or loaded, or shared with another program, whose it stays
            schedule = self.program.lr_schedulers.get(name)
            if name in self._rates:
                self._go_on_or_restart(schedule, None if before is None else before.schedule)
            target.owner = self._owner
            target.initial = initial._replace(update=kinds.get(name, ()), schedule=schedule)

    def _retire(self) -> None:
        """States that the program does not have any more are not those of one that has them again."""
        for name, variable in self.scope.root.vars.items():
            owner, initial = variable.owner, variable.initial
            if name in self._declared or owner is None or initial is None or not initial.update:
                continue
            if owner.name == self._owner.name and self._is_same_program(owner):
                variable.initial = None

    def _go_on_or_restart(self, schedule: LRScheduler | None, before: LRScheduler | None) -> None:
        if schedule is None:
            return
        if self.fresh:
            _restart(schedule)
        elif before is not None and before is not schedule and before.last_epoch:
            if _settings_of(before) == _settings_of(schedule) and _settings_of(schedule) is not None:
                schedule.set_state_dict(before.state_dict())
            else:
                self._restarted.append(type(schedule).__name__)

    # What is said

    def line(self) -> str:
        """One line of what was kept and what was made anew; empty if there is nothing to say."""
        if not self._held or self.fresh:
            return ""
        parameters = [n for n, v in self._declared.items() if isinstance(v, Parameter)]
        anew = [name for name in parameters if name in self.anew]
        if not (self.is_built_anew or (anew and len(anew) < len(parameters))):
            return ""
        kept = len(parameters) - len(anew)
        parts = [f"kept {_count(kept, 'parameter')}"]
        if anew:
            parts[0] += f", made {len(anew)} anew: {_listed(self._with_reason(name) for name in anew)}"
        parts += [*self._said_of_rates(), *self._said_of_states(anew)]
        parts += [f"{kind} begins at its first step" for kind in dict.fromkeys(self._restarted)]
        name = self.program.name or "the program"
        return f"{name}: {'; '.join(parts)} (%train --fresh, or train(fresh=True), starts over)"

    def _with_reason(self, name: str) -> str:
        return f"{name} ({self.anew[name]})" if self.anew[name] else name

    def _said_of_rates(self) -> list[str]:
        said = []
        for name in self._rates:
            if name not in self._before or name in self.program.lr_schedulers:
                continue
            before, now = (float(array.flat[0]) for array in (self._before[name], self._array(name)))
            if before != now:
                said.append(f"learning rate {before:.7g} → {now:.7g}")
        return said

    def _array(self, name: str) -> np.ndarray:
        return self.scope.get(name).tensor.array

    def _said_of_states(self, anew: list[str]) -> list[str]:
        """Say which states of kept parameters are made anew."""
        others = {p: u for p, u in self._updates.items() if p not in anew and any(s in self.anew for s in u.states)}
        kinds = dict.fromkeys(kind for update in others.values() for kind in update.kinds)
        return [f"state of {' and '.join(kinds)} made anew for {_count(len(others), 'parameter')}"] if others else []


def _first_values(changes: Changes, runner: Runner) -> dict[str, np.ndarray]:
    """The first values of what is made anew; those that are made of kept values, of these."""
    anew, startup, scope = changes.anew, changes.startup, Scope()
    if not anew:
        return {}
    initial = initial_values_of(startup)
    needed = {name for new in anew for name in initial[new].reads if name not in anew}
    if len(anew) < len(initial):
        kept = {name for name in initial if name not in anew}
        startup = startup.keep_operators(lambda op: not kept.issuperset(op.output_arg_names))
    for name in needed:
        scope.var(name).tensor.set(changes.scope.get(name).tensor.array)
    runner.run(startup, feed=None, fetch_list=None, scope=scope)
    return {name: scope.vars[name].tensor.array for name in anew if name in scope.vars}


def _difference(before: InitialValue | None, now: InitialValue) -> str:
    """What is other in the way a first value is made."""
    if before is None:
        return "state"
    return "seed" if same_initial_value(_without_seed(before), _without_seed(now)) else "initializer"


def _without_seed(initial: InitialValue) -> InitialValue:
    ops = tuple((kind, {key: value for key, value in attrs.items() if key != "seed"}) for kind, attrs in initial.ops)
    return initial._replace(ops=ops, seed=0)


def _settings_of(schedule: LRScheduler) -> Any:
    """What a schedule was made with, None where that is not known."""
    config = config_of(schedule)
    return None if config is None else (config[0], {k: v for k, v in config[1].items() if k != "state"})


def _require_known(schedule: LRScheduler) -> None:
    """Refuse a schedule that cannot be made again.

    Raises:
        InvalidArgument: it is of a class of the user's.
    """
    if _settings_of(schedule) is None:
        raise InvalidArgument(
            f"the schedule {type(schedule).__name__} cannot be started over here; run the cell that makes it again"
        )


def _restart(schedule: LRScheduler) -> None:
    """Have a schedule begin at its first step."""
    schedule.set_state_dict(type(schedule)(**_settings_of(schedule)[1]).state_dict())


def _listed(names: Iterable[str]) -> str:
    """The first few, and how many more."""
    every = list(names)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
