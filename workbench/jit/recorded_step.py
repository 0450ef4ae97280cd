"""RecordedStep: a recorded program on an engine, with the tensors it works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np

from workbench.dygraph.kinds import Kind, kind_of
from workbench.dygraph.overwrites import RepeatedWrites, clock
from workbench.dygraph.tensor.parameter import EagerParamBase, parameter_changes
from workbench.dygraph.tensor.tensor import Tensor
from workbench.executors.api.executor import Executor
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.inspection.debugging import Debugging
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.spec import EngineSpec, snapshot
from workbench.framework.current import Current
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.recorder import recorder_in_force
from workbench.framework.outside import is_from_outside
from workbench.framework.program.program import Program
from workbench.framework.values.place import CPUPlace
from workbench.graph.strategy import BuildStrategy
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.surroundings import Surroundings
from workbench.jit.values.arguments import leaves, mapped
from workbench.jit.values.bindings import BoundTensor
from workbench.jit.values.captured_tensor import CapturedTensor
from workbench.jit.values.expectation import Expectation, Feeding
from workbench.jit.values.integer_reads import reasons
from workbench.jit.values.shared_storage import SharedStorage, fix_where_seen
from workbench.optimizer.lr import LRScheduler
from workbench.runtime.storage.scope import Scope
from workbench.runtime.storage.tensor import LoDTensor, moves
from workbench.runtime.undisturbed import undisturbed

_new_tensor = Tensor.__new__
_array_of, _grad_of = attrgetter("array"), attrgetter("_grad")
_kind_of, _stops = attrgetter("kind"), attrgetter("stop_gradient")
_rate_of = attrgetter("_learning_rate")

_in_force: tuple[Current[Any], ...] = (recorder_in_force, recording_gradients)
_values = Scope()  # of which those of all recorded programs are kids: one step on tensors at a time


class RecordedStep(Debugging):
    """What was recorded of one call of a function, ready to be run for others like it.

    Attributes:
        feed_if_unchanged: what is fed of arguments if all is as it was when this was settled; None if anything is not.
        surroundings: what the function reads from outside.
        said: what was recorded, to be compared with what would be recorded now.

    Args:
        recorder: what it was recorded by. program: what is run of that.
        feeds: names of the arguments. outputs: what the function returned.
        surroundings: what it reads from outside.
        draws: the counter of random numbers, which all recordings of one function have in common.
        places: the devices. build, execution: how they run.
    """

    def __init__(
        self,
        recorder: CaptureRecorder,
        program: Program,
        feeds: Sequence[str],
        outputs: Any,
        surroundings: Surroundings,
        draws: LoDTensor,
        places: Sequence[CPUPlace] = (CPUPlace(0),),
        build: BuildStrategy | None = None,
        execution: ExecutionStrategy | None = None,
    ) -> None:
        self.program, self.startup = program, recorder.startup
        self.bindings, self.surroundings = recorder.bindings, surroundings
        self.said = recorder.said(feeds, outputs)
        self._values_read = recorder.values_read()
        self._integers = recorder.integers.kept
        self._gradients = list(recorder.leaf_gradients.by_tensor.values())
        self._optimizers = recorder.optimizers
        self._feeds, self._outputs = list(feeds), outputs
        captured = [leaf for leaf in leaves(outputs) if isinstance(leaf, CapturedTensor)]
        self.fetches = list(dict.fromkeys(leaf.name for leaf in captured if leaf.name not in feeds))
        self._is_single = len(self.fetches) == 1 and len(captured) == 1 and outputs is captured[0]
        losses = recorder.leaf_gradients.losses
        self.scope = Scope(_values)
        self._runner = engine_of(program, self.scope, places, losses[0] if losses else None, build, execution)
        self._applied = self._runner.state.counter.data  # how many steps have been applied
        self._fill_scope(draws)
        self._left = [each for each in self._gradients if each.after is not None or each.before is not None]
        rates = {name for op in self.program.all_ops() for name in op.inputs.get("LearningRate", ())}
        self._rates = [each for each in self.bindings if each.variable.name in rates]
        self.feed_if_unchanged: Feeding = _unsettled
        self._expectation: Expectation | None = None
        self._scheduled: list[Any] = []
        self._changes = SimpleNamespace(count=-1, until=0)  # of `parameter_changes`; the time of the next check
        self._due = 2  # the run in front of which it is checked
        self._is_outside = False
        self._placed = -1
        self._traits = self._traits_of_now()
        self._writes: RepeatedWrites | None = None
        self._kind: Kind | None = None
        self._has_known_shapes = all(-1 not in program.global_block().var(name).shape for name in feeds)
        self._written = {name for op in self.program.all_ops() for name in op.output_arg_names}

    def _fill_scope(self, draws: LoDTensor) -> None:
        self.bindings.put_into(self.scope)
        names = {each.variable.name for each in self.bindings}
        if self.program.rng_step:
            self.scope.var(self.program.rng_step).tensor = draws
            names.add(self.program.rng_step)
        others = [v.name for v in self.program.persistables() if v.name not in names]
        if others:
            for name in others:
                self.scope.var(name)
            Executor().run(self.startup, scope=self.scope)

    def _to_debug(self) -> Engine:
        return self._runner

    def fits(self) -> bool:
        """Whether it is what the function would do; what was put in the place of tensors is taken over."""
        self.feed_if_unchanged = _unsettled
        self._refresh_rates(self._optimizers)
        if self._traits != self._traits_of_now():
            return False
        if self.reads_others() or self.surroundings.changes() or not all(each.fits() for each in self._gradients):
            return False
        changed = self.bindings.agree()
        if changed is None:
            return False
        if self._placed != moves.count:
            self._placed = moves.count
            updated = [each.storage for each in self.bindings if each.variable.name in self._written]
            fix_where_seen(updated, [each.tensor for each in self.bindings])
        if changed:
            self._spread(changed)
        return True

    @property
    def is_due(self) -> bool:
        """Whether the next run is to be checked: the second one, the fourth, the eighth and so on."""
        return bool(self._applied[0] + 1 >= self._due)

    def note_check(self) -> int:
        """The next run has been checked; how many went before it since the last check."""
        done = int(self._applied[0])
        unchecked = done - self._due // 2
        while self._due <= done + 1:
            self._due *= 2
        return max(unchecked, 0)

    def reads_others(self) -> bool:
        """Whether a value of a tensor that Python has read is another one now."""
        return not all(each.is_unchanged() for each in self._values_read)

    def _traits_of_now(self) -> list[Any]:
        """What updates and gradients of the tensors depend on beside their values."""
        tensors = [each.tensor for each in self.bindings]
        own = [t.traits if isinstance(t, EagerParamBase) else t.stop_gradient for t in tensors]
        return [*own, *[list((t._hooks or {}).values()) for t in tensors]]

    def computes_same(self, tensors: Sequence[Tensor]) -> bool:
        """Whether the integers that Python has read of computed tensors are the same for such arguments."""
        return not self._integers or next(self._other_integers(tensors), None) is None

    def _other_integers(self, tensors: Sequence[Tensor]) -> Iterator[str]:
        return reasons(self._integers, self.scope, dict(zip(self._feeds, tensors, strict=True)))

    @property
    def follows_values(self) -> bool:
        """Whether it serves only some values of its arguments, or of what they are computed with."""
        return bool(self._integers)

    def reason(self, tensors: Sequence[Tensor] = ()) -> str:
        """Why it does not fit any more, or does not fit such arguments, in words."""
        changes = [str(change) for change in self.surroundings.changes()]
        changes += [each.reason for each in self._values_read if not each.is_unchanged()]
        if changes:
            return ", ".join(changes[:3])
        if self._traits != self._traits_of_now():
            return "a parameter was frozen or thawed, or has another rate, decay or clip, or other hooks"
        if not all(each.fits() for each in self._gradients):
            return "gradients that were there are now left, or the other way round"
        if tensors and (other := next(self._other_integers(tensors), None)) is not None:
            return other
        return "a tensor it works on has another shape or dtype"

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """One step, of arguments it fits; what the function returns."""
        return self.run_fed(dict(zip(self._feeds, map(_array_of, tensors), strict=True)), tensors)

    def run_fed(self, feed: dict[str, Any] | Fed, tensors: Sequence[Tensor]) -> Any:
        """`run` of arguments of which this is the feed."""
        applied = self._applied
        done = applied[0]
        try:
            results: list[Any] = self._runner.run(feed, self.fetches)
            writes, bindings = self._writes, self.bindings
            if writes is not None and bindings.moves == moves.count and not self._left:
                writes.time = bindings.writes = clock.now = clock.now + 1  # `_note_run`, at once
            else:
                self._note_run()
        except BaseException:  # Ctrl-C may come behind the commit, or behind the first half of the notes
            undisturbed(self._note_run if applied[0] != done else self._follow)
            raise
        if self._kind is None:
            return self._returned(results, tensors)
        tensor = _new_tensor(Tensor)
        tensor.array, tensor.kind, tensor.stop_gradient, tensor.source = results[0], self._kind, True, None
        return tensor

    def _returned(self, results: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        """What the function returns."""
        if not self._is_single:
            return self._packed(results, tensors)
        if self._has_known_shapes:  # the same in every run of arguments of the same kinds
            self._kind = kind_of(results[0])
        return Tensor(results[0])

    def _note_run(self) -> None:
        """A step has been applied: have tensors show what it has written."""
        if self.bindings.moves != moves.count:
            self._follow()
        writes = self._writes
        if writes is None:
            arrays = [each.storage.array for each in self.bindings if each.variable.name in self._written]
            writes = self._writes = RepeatedWrites(arrays, f"a run of {self.program.name}")
        writes.time = self.bindings.writes = clock.now = clock.now + 1
        for each in self._left:
            if each.tensor._grad is not each.after:
                each.tensor._grad = each.after

    def _follow(self) -> None:
        """The engine may have moved storage, applied or not."""
        if self.bindings.moves != moves.count:
            self.bindings.follow()
            self._writes = None

    @property
    def results(self) -> dict[str, str]:
        """Of a function that returns a dict: the variables its entries are, by key."""
        outputs = self._outputs if isinstance(self._outputs, dict) else {}
        return {key: leaf.name for key, leaf in outputs.items() if isinstance(leaf, CapturedTensor)}

    @property
    def trains(self) -> bool:
        """Whether it updates parameters."""
        return bool(self._optimizers)

    @property
    def storages(self) -> list[SharedStorage]:
        """The memory of the tensors it works on."""
        return [each.storage for each in self.bindings]

    @property
    def leaves(self) -> list[Tensor]:
        """The tensors that it computes gradients of."""
        return [each.tensor for each in self._gradients]

    @property
    def nbytes(self) -> int:
        """What it takes beside those tensors, about: its plans, and the memory of temporaries."""
        if not self._runner.started:
            return 0
        workspace = self._runner.workspace
        return workspace.plans.nbytes + sum(arena.nbytes for arena in workspace.arenas.values())

    # The next time

    def settle(self, args: Sequence[Any]) -> None:
        """Note all that has to be as it is now for the next call of such arguments to be the same.

        A step has been applied, and its results are due: where something cannot be noted, no call is the same.
        """
        try:
            self._note_all(args)
        except Exception as error:
            self.feed_if_unchanged = _unsettled
            if is_from_outside(error):
                raise

    def _note_all(self, args: Sequence[Any]) -> None:
        gradients = [each for each in self._gradients if not each.clears]
        others = [each.tensor for each in self.bindings if not isinstance(each.tensor, EagerParamBase)]
        left = [each.tensor for each in gradients if not isinstance(each.tensor, EagerParamBase)]
        is_outside = all(current.is_outside() for current in _in_force)
        if self._expectation is None or is_outside is not self._is_outside:
            self._is_outside = is_outside
            expectation = self._expecting(args, others, left)
            self._feed_of = expectation.compiled()
            self._expectation = expectation
        plan = self._runner.last_plan
        if plan is None or self._integers or not all(each.is_lasting for each in gradients):
            return
        self._changes.count = parameter_changes.count
        runs = self._due - int(self._applied[0]) - 1  # an int of Python's, for it is compared in every call
        self._changes.until = clock.now + runs  # each run moves the clock by one
        self._scheduled[:] = [each for each in self._optimizers if isinstance(each._learning_rate, LRScheduler)]
        self._expectation.expect([
            *self.surroundings.watched.kept, *self._values_in_force(), *map(_rate_of, self._optimizers),
            *map(_stops, others), *map(_grad_of, left), *map(_kind_of, args), *map(_stops, args),
        ], plan)  # fmt: skip
        self.feed_if_unchanged = self._feed_of

    def _expecting(self, args: Sequence[Any], others: Sequence[Tensor], left: Sequence[Tensor]) -> Expectation:
        """All that is looked at before it is run again, in the order in which `settle` says what it is to be."""
        expectation = Expectation(self._feeds)
        expectation.add_equality(clock, "now", self.bindings, "writes", self._changes)
        expectation.add_equality(moves, "count", self.bindings, "moves")
        expectation.add_equality(parameter_changes, "count", self._changes, "count")
        expectation.add_refresh(self._scheduled, partial(_refresh_rates_of, ref(self)))
        for each in self.surroundings.containers:
            each.expect_in(expectation)
        for read in self._values_read:
            expectation.add_truth(read.is_unchanged)
        self.surroundings.watched.expect_in(expectation)
        for current in _in_force:
            expectation.add_current(current, self._is_outside)
        for optimizer in self._optimizers:
            expectation.add_attribute(optimizer, "_learning_rate")
        for tensor in others:
            expectation.add_attribute(tensor, "stop_gradient")
        for tensor in left:
            expectation.add_attribute(tensor, "_grad")
        expectation.add_identities(args)
        expectation.add_attribute_of_all("kind")
        expectation.add_attribute_of_all("stop_gradient")
        return expectation

    def _values_in_force(self) -> Iterator[Any]:
        for current in _in_force:
            yield from (current.entered(), current.default) if self._is_outside else (current.get(),)

    def _refresh_rates(self, optimizers: Sequence[Any]) -> None:
        """Have the rates be those of now; what is written here is accounted for here, so that not all is looked at."""
        for optimizer in optimizers:
            before = clock.now
            optimizer.refresh_rate()
            if clock.now != before and self.bindings.writes == before:
                self.bindings.writes = clock.now
                self._spread([each for each in self._rates if each.storage.note_writes()])

    def _packed(self, results: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        by_name = dict(zip(self._feeds, tensors, strict=True))
        by_name.update((name, Tensor(np.asarray(result))) for name, result in zip(self.fetches, results, strict=True))
        return mapped(self._outputs, lambda leaf: by_name[leaf.name] if isinstance(leaf, CapturedTensor) else leaf)

    def _spread(self, changed: Sequence[BoundTensor]) -> None:
        """What was written to tensors is for all devices."""
        for each in changed:
            self._copy_to_others(each.variable.name, each.storage.lod)

    def follow_draws(self) -> None:
        """The counter of random numbers was set, or moved on by another recording: all devices have it as it is."""
        if name := self.program.rng_step:
            self.feed_if_unchanged = _unsettled
            self._copy_to_others(name, self.scope.var(name).tensor)

    def _copy_to_others(self, name: str, lod: LoDTensor) -> None:
        if not self._runner.started:
            return
        replicas = self._runner.replicas
        for place in range(1, len(replicas.scopes)):
            own = replicas.find(name, place)
            if own is not None and own is not lod:
                own.set(lod.array)


def _refresh_rates_of(step: ref[RecordedStep], optimizers: Sequence[Any]) -> None:
    if (there := step()) is not None:
        there._refresh_rates(optimizers)


def _unsettled(args: Sequence[Any]) -> None:
    """What is fed if nothing has changed, where nothing is known of that."""


def engine_of(
    program: Program,
    scope: Scope,
    places: Sequence[CPUPlace] = (CPUPlace(0),),
    loss: str | None = None,
    build: BuildStrategy | None = None,
    execution: ExecutionStrategy | None = None,
) -> Engine:
    """An engine for a recorded program."""
    build, execution = build or BuildStrategy(), execution or ExecutionStrategy()
    spec = EngineSpec(snapshot(program), tuple(places), loss, build, execution, begins_replicated=True)
    return Engine(spec, scope)
