"""Optimizer: from gradients to updates of parameters, in a program (P-40 … P-48) and in dynamic mode.

In a program `minimize` = `backward` (gradients) + `apply_gradients`, which takes the parameters in the order of their
names and appends: clip, decay, then per parameter one update operator. Everything appended here has role Optimize; what
belongs to one parameter also carries `op_role_var = [P, P@GRAD]`. In dynamic mode `step` applies the same ops, in the
same order, to tensors.

State is kept per parameter and kind: in persistable variables of the program (P-6), filled by the startup program, or
in tensors with the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import workbench.ops  # noqa: F401  (registers the ops updates are made of)
from workbench.autodiff import append_backward
from workbench.errors import InvalidType, PreconditionNotMet
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.infix import Infix
from workbench.framework.op.recorder import current_recorder
from workbench.framework.program.guard import default_startup_program, program_guard, static_mode
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Parameter, Variable
from workbench.optimizer.checks import (
    Pairs,
    are_tensors,
    checked_pairs,
    checked_parameters,
    checked_rate,
)
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import Groups
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.lr.schedule import ConstantRate
from workbench.optimizer.parameter_update import ParameterUpdate
from workbench.optimizer.role import role_of
from workbench.optimizer.second_update import tell_of_second_update, updated_for
from workbench.optimizer.states import MASTER, ProgramStates, States, TensorStates
from workbench.optimizer.update_rule import UpdateRule, clipped_and_decayed


class Optimizer(UpdateRule):
    """Base class. A subclass names its update op, and its options.

    Args:
        learning_rate: a number, an `optimizer.lr` schedule read before every run or step, or a variable `[1]` that the
            program computes (see `fluid.layers.exponential_decay`).
        parameters: what to update. In a program: Parameters or names, None for every trainable one. In dynamic mode:
            tensors, such as `layer.parameters()`. Or a list of dicts, one per group: `"params"` and options of its own:
            `"learning_rate"` (a factor on the rate), `"weight_decay"`, `"grad_clip"` and those of the optimizer.
        weight_decay: a number (stands for L2Decay) or a regularizer.
        grad_clip: a `ClipGradBy…`.
        name: put before the kind in the names of states.

    Raises:
        InvalidType, InvalidArgument: an argument of the wrong kind, a negative rate.

    Example:
        >>> w = wb.create_parameter([2], "float32", default_initializer=wb.nn.initializer.Constant(1.0))
        >>> optimizer = wb.optimizer.SGD(0.5, parameters=[w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> optimizer.clear_grad()
        >>> w.numpy()
        array([0., 0.], dtype=float32)

        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> optimizer = wb.optimizer.SGD(wb.optimizer.lr.StepDecay(0.1, step_size=30), weight_decay=1e-4)
        >>> ops, pairs = optimizer.minimize(loss)
        >>> [parameter.name for parameter, gradient in pairs]
        ['fc_0.w_0', 'fc_0.b_0']
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        self._learning_rate = checked_rate(type(self).__name__, learning_rate)
        super().__init__(weight_decay, grad_clip, name)
        self._programs: dict[int, ProgramStates] = {}
        self._tensors = TensorStates()
        self._updates: dict[int, ParameterUpdate] = {}
        self._of_groups: dict[int, Optimizer] = {}
        self._groups = Groups(type(self).__name__, parameters, self.options)

    # From loss to updates

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: set[Variable | str] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators to the program of `loss`; if that fails, nothing is appended.

        In dynamic mode: update from the gradients that `loss.backward()` has computed, as `step` does.

        Args:
            loss: shape [1].
            startup_program: where states are filled; the default one if None.
            parameters: what to update instead of the constructor's.
            no_grad_set: Variables or names no gradient flows through.

        Returns:
            the update operators (none in dynamic mode), and the raw (parameter, gradient) pairs, as they were created.

        Raises:
            InvalidArgument, InvalidType: no scalar loss, nothing to update.
        """
        if not isinstance(loss, Variable):
            pairs = self._accumulated(loss, parameters)
            self._update_tensors(pairs)
            return [], pairs
        startup = startup_program if startup_program is not None else default_startup_program()
        updated = updated_for(loss)
        with self._all_or_nothing(loss.block.program, startup):
            pairs = self.backward(loss, startup, parameters, no_grad_set)
            ops = self.apply_optimize(loss, startup, pairs)
        tell_of_second_update(loss, updated.intersection(parameter.name for parameter, _ in pairs))
        return ops, pairs

    def backward(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameters: Sequence[Any] | None = None,
        no_grad_set: set[Variable | str] | None = None,
        callbacks: Sequence[Any] | None = None,
        checkpoints: Sequence[Any] | None = None,
    ) -> Pairs:
        """Append the gradient operators alone; returns (parameter, gradient) pairs in creation order.

        In dynamic mode it only returns the pairs that `loss.backward()` has left. `callbacks`, `checkpoints`: see
        `static.append_backward`.
        """
        if not isinstance(loss, Variable):
            return self._accumulated(loss, parameters)
        chosen = checked_parameters("minimize", parameters)
        if chosen is None:
            chosen = self._groups.parameters
        startup = startup_program if startup_program is not None else default_startup_program()
        with (
            unchanged_on_error(loss.block.program),
            program_guard(loss.block.program, startup),
            static_mode(),
        ):
            return append_backward(loss, chosen, no_grad_set, callbacks, checkpoints)

    def apply_optimize(self, loss: Any, startup_program: Program | None, params_grads: Pairs) -> list[Operator]:
        """Append the update operators for gradients that exist, with states filled by `startup_program`."""
        return self._apply(params_grads, startup_program)

    def apply_gradients(self, params_grads: Sequence[tuple[Any, Any]]) -> list[Operator]:
        """Append clip, decay and update operators for (parameter, gradient) pairs; in dynamic mode, update.

        Returns:
            the update operators, in the order of the parameters' names.

        Raises:
            InvalidArgument: no pair, a parameter twice, parameters of several programs.
            InvalidType: not pairs.
        """
        return self._apply(list(params_grads), None)

    def _apply(self, params_grads: Pairs, startup_program: Program | None) -> list[Operator]:
        if are_tensors(params_grads):
            self._update_tensors([(p, g) for p, g in params_grads if g is not None])
            return []
        pairs = checked_pairs(type(self).__name__, params_grads)
        program = pairs[0][0].block.program
        startup = startup_program if startup_program is not None else default_startup_program()
        with self._all_or_nothing(program, startup), program_guard(program, startup), static_mode():
            states = self._programs.setdefault(program.uid, ProgramStates(program, startup))
            states.startup = startup
            ordered = sorted(pairs, key=lambda pair: pair[0].name)
            decayed = clipped_and_decayed(ordered, self._settings, self._groups)
            self._make_states(states, [parameter for parameter, _ in ordered])
            return [self._update(states, *each) for each in decayed]

    def _make_states(self, states: ProgramStates, parameters: Sequence[Parameter]) -> None:
        """Have the startup program fill all states, then the rate."""
        for parameter in parameters:
            self._settings(parameter).states_of(parameter, states)
        if isinstance(self._learning_rate, Variable):
            states.take_rate(self._learning_rate)
        elif states.make_rate(parameters[0].dtype, self.get_lr()) and isinstance(self._learning_rate, LRScheduler):
            states.program.lr_schedulers[states.rate(parameters[0].dtype).name] = self._learning_rate

    # Updates, in either mode

    def _settings(self, parameter: Any) -> Optimizer:
        """This optimizer, with the options of the parameter's group."""
        fields = self._groups.fields_of(parameter)
        if not fields:
            return self
        own = self._of_groups.get(id(fields))
        if own is None:
            own = self._of_groups[id(fields)] = copy(self)
            vars(own).update(fields)
        return own

    def _update(self, states: States, parameter: Any, raw: Any, grad: Any) -> Any:
        return self._apply_one(self._update_of(parameter, states), states, parameter, raw, grad)

    def _apply_one(self, update: ParameterUpdate, states: States, parameter: Any, raw: Any, grad: Any) -> Any:
        rate = update.settings.rate_of(parameter, states)
        with role_of(parameter, OPTIMIZE, [parameter, raw]):
            return update.apply(grad, rate)

    def _update_of(self, parameter: Any, states: States) -> ParameterUpdate:
        """How a parameter is updated; kept for a tensor."""
        known = self._updates.get(id(parameter))
        if known is None or not known.is_of(parameter, states):
            settings = self._settings(parameter)
            known = ParameterUpdate(settings, parameter, states)
            if not isinstance(parameter, Variable):
                self._updates[id(parameter)] = known
        return known

    # The rate

    def get_lr(self) -> float:
        """The current learning rate.

        Raises:
            PreconditionNotMet: the program computes it; fetch the variable instead.
        """
        rate = self._learning_rate
        if isinstance(rate, Variable):
            raise PreconditionNotMet(f"the program computes the learning rate: fetch the variable {rate.name!r}")
        return float(rate()) if isinstance(rate, LRScheduler) else rate

    def set_lr(self, value: float) -> None:
        """Use another constant rate from the next run or step on.

        Raises:
            PreconditionNotMet: the rate comes from a schedule, or the program computes it.
        """
        if isinstance(self._learning_rate, LRScheduler):
            raise PreconditionNotMet("the learning rate comes from a schedule, which alone can change it; step() that")
        self.get_lr()
        self._learning_rate = checked_rate("set_lr", value)
        self._follow(ConstantRate(self._learning_rate))

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Take the rate from a schedule from the next run or step on.

        Raises:
            InvalidType: it is no schedule.
        """
        if not isinstance(scheduler, LRScheduler):
            raise InvalidType(f"set_lr_scheduler takes an optimizer.lr schedule, got {scheduler!r}")
        self._learning_rate = scheduler
        self._follow(scheduler)

    def _follow(self, schedule: LRScheduler) -> None:
        for states in self._programs.values():
            if states.rate_variable is not None:
                states.program.lr_schedulers[states.rate_variable.name] = schedule

    # Dynamic mode

    def step(self) -> None:
        """Update the parameters from the gradients `backward()` has left in them.

        Raises:
            PreconditionNotMet: in static mode, or the optimizer was made without `parameters`.

        Example:
            >>> w = wb.create_parameter([2], "float32", default_initializer=wb.nn.initializer.Constant(1.0))
            >>> optimizer = wb.optimizer.Momentum(0.1, parameters=[w])
            >>> (w * w).sum().backward()
            >>> optimizer.step()
            >>> w.numpy()
            array([0.8, 0.8], dtype=float32)
        """
        self._update_tensors(self._accumulated(None, None))

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Make the gradients of all parameters zero, or None."""
        for parameter in self._groups.tensors(f"{type(self).__name__}.clear_grad()"):
            if not parameter.stop_gradient:
                parameter.clear_gradient(set_to_zero)

    clear_gradients = clear_grad

    def _accumulated(self, loss: Any, parameters: Sequence[Any] | None) -> Pairs:
        """The parameters that have gradients, and those."""
        owner = type(self).__name__
        if not (loss is None or isinstance(loss, Infix)):
            raise InvalidType(
                f"{owner}.minimize takes a Tensor, or a Variable of a static Program, as loss, got {loss!r}"
            )
        chosen = checked_parameters("minimize", parameters) or self._groups.tensors(f"{owner}.step()")
        return [(p, p.grad) for p in chosen if not p.stop_gradient and p.grad is not None]

    def _update_tensors(self, pairs: Pairs) -> None:
        if not pairs:
            return
        with recording_gradients.replaced(False):
            recorder = current_recorder()
            recorder.begin_update(self, pairs)
            self.refresh_rate()
            decayed = clipped_and_decayed(sorted(pairs, key=lambda pair: pair[0].name), self._settings, self._groups)
            updates = [self._update_of(parameter, self._tensors) for parameter, _, _ in decayed]
            record_all_into = getattr(recorder, "record_all_into", None)  # of what computes at once
            if record_all_into is not None:
                record_all_into(
                    write
                    for update, (parameter, _, grad) in zip(updates, decayed, strict=True)
                    for write in update.writes(grad, update.settings.rate_of(parameter, self._tensors))
                )
                return
            for update, each in zip(updates, decayed, strict=True):
                self._apply_one(update, self._tensors, *each)

    def refresh_rate(self) -> None:
        """Have the tensor that holds the learning rate hold the current one."""
        self._tensors.set_rate(self.get_lr())

    def make_states(self, parameters: Iterable[Any]) -> None:
        """Make the states of tensors, and the learning rate, before they are needed."""
        self.refresh_rate()
        for parameter in parameters:
            self._update_of(parameter, self._tensors)
            self._tensors.rate(parameter.dtype)

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """The states by their names, with the schedule's under `LR_Scheduler`; `save` takes it.

        In dynamic mode tensors, in a program its variables. Float32 copies of parameters are under `master_weights`.
        """
        entries = self._tensors.listed([kind.name for kind in self.accumulators()])
        for states in self._programs.values():
            entries.update((v.name, v) for (_, kind), v in states.variables.items() if kind != MASTER)
        masters = self._tensors.masters()
        if masters:
            entries["master_weights"] = masters
        if isinstance(self._learning_rate, LRScheduler):
            entries["LR_Scheduler"] = self._learning_rate.state_dict()
        return entries

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over states: those of dynamic mode, or the arrays a program's were saved as.

        States of parameters that were not updated yet are kept until they are.

        Raises:
            InvalidType: no dict. InvalidArgument: a state of another shape, or of another schedule; nothing is changed.
        """
        if not isinstance(state_dict, Mapping):
            raise InvalidType(f"{type(self).__name__}.set_state_dict takes a dict, got {state_dict!r}")
        states = dict(state_dict)
        schedule, masters = states.pop("LR_Scheduler", None), states.pop("master_weights", {})
        follows = schedule is not None and isinstance(self._learning_rate, LRScheduler)
        if follows:
            self._learning_rate.check_state(schedule)
        self._tensors.load(states, masters)
        if follows:
            self._learning_rate.set_state_dict(schedule)

    set_dict = set_state_dict

    @property
    def _parameter_list(self) -> list[Any] | None:
        """What Paddle calls the parameters; programs for it read them."""
        return self._groups.parameters

    @contextmanager
    def _all_or_nothing(self, program: Program, startup: Program) -> Iterator[None]:
        """If the `with` body raises, programs and optimizer are as before."""
        kept = {uid: states.copied() for uid, states in self._programs.items()}, dict(program.lr_schedulers)
        try:
            with unchanged_on_error(program, startup):
                yield
        except BaseException:
            self._programs, program.lr_schedulers = kept
            raise
