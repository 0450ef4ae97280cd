"""RecordedStep: a recorded program on an engine, with the tensors it works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.dygraph.overwrites import RepeatedWrites
from workbench.dygraph.tensor.tensor import Tensor
from workbench.executors.api.executor import Executor
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.inspection.debugging import Debugging
from workbench.executors.running.engine import Engine
from workbench.executors.running.spec import EngineSpec, snapshot
from workbench.framework.program.program import Program
from workbench.framework.values.place import CPUPlace
from workbench.graph.strategy import BuildStrategy
from workbench.jit.bindings import BoundTensor
from workbench.jit.captured_tensor import CapturedTensor
from workbench.jit.arguments import leaves, mapped
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.surroundings import Surroundings
from workbench.runtime.scope import Scope
from workbench.runtime.tensor import LoDTensor

_values = Scope()  # of which those of all recorded programs are kids: one step on tensors at a time


class RecordedStep(Debugging):
    """What was recorded of one call of a function, ready to be run for others like it.

    Args:
        recorder: what it was recorded by. feeds: names of the arguments.
        outputs: what the function returned.
        surroundings: what it reads from outside.
        places: the devices. build, execution: how they run.
        draws: the counter of random numbers, which all recordings of one function have in common.
    """

    def __init__(
        self,
        recorder: CaptureRecorder,
        feeds: Sequence[str],
        outputs: Any,
        surroundings: Surroundings,
        places: Sequence[CPUPlace],
        build: BuildStrategy,
        execution: ExecutionStrategy,
        draws: LoDTensor,
    ) -> None:
        self.program, self.startup = recorder.program, recorder.startup
        self.bindings, self._surroundings = recorder.bindings, surroundings
        self._gradients = list(recorder.gradients.found.values())
        self._optimizers = recorder.optimizers
        self._feeds, self._outputs = list(feeds), outputs
        captured = [leaf for leaf in leaves(outputs) if isinstance(leaf, CapturedTensor)]
        self.fetches = list(dict.fromkeys(leaf.name for leaf in captured))
        self._is_single = len(captured) == 1 and outputs is captured[0]
        losses = recorder.gradients.losses
        self.scope = Scope(_values)
        self._engine = Engine(
            EngineSpec(snapshot(self.program), tuple(places), losses[0] if losses else None, build, execution),
            self.scope,
        )
        self._fill_scope(draws)
        self._writes: RepeatedWrites | None = None
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
        return self._engine

    def fits(self) -> bool:
        """Whether it is still what the function would do."""
        return self._surroundings.are_unchanged() and all(each.fits() for each in self._gradients)

    def reason(self) -> str:
        """Why it does not fit any more, in words."""
        changes = [str(change) for change in self._surroundings.changes()]
        if changes:
            return ", ".join(changes[:3])
        if not all(each.fits() for each in self._gradients):
            return "gradients that were there are now left, or the other way round"
        return "a tensor it works on has another shape or dtype"

    def run(self, tensors: Sequence[Tensor]) -> tuple[bool, Any]:
        """One step.

        Returns:
            whether it was run, and what the function returns; it is not where a tensor has got another shape or dtype.
        """
        for optimizer in self._optimizers:
            optimizer.refresh_rate()
        changed = self.bindings.agree()
        if changed is None:
            return False, None
        if changed:
            self._spread(changed)
        results = self._engine.run(dict(zip(self._feeds, [t.array for t in tensors])), self.fetches)
        self.bindings.follow()
        if self._writes is None:
            arrays = [each.storage.array for each in self.bindings if each.variable.name in self._written]
            self._writes = RepeatedWrites(arrays, f"a run of {self.program.name}")
        self._writes.again()
        self.bindings.wrote()
        for each in self._gradients:
            if each.tensor.grad is not each.after:
                each.tensor.grad = each.after
        if self._is_single:
            return True, Tensor(results[0])
        return True, self._packed(results)

    def _packed(self, results: Sequence[Any]) -> Any:
        found = {name: Tensor(np.asarray(result)) for name, result in zip(self.fetches, results, strict=True)}
        return mapped(self._outputs, lambda leaf: found[leaf.name] if isinstance(leaf, CapturedTensor) else leaf)

    def _spread(self, changed: Sequence[BoundTensor]) -> None:
        """What was written to tensors is for all devices."""
        self._writes = None
        if not self._engine.started:
            return
        replicas = self._engine.replicas
        for each in changed:
            for place in range(1, len(replicas.scopes)):
                own = replicas.find(each.variable.name, place)
                if own is not None and own is not each.storage.lod:
                    own.set(each.storage.lod.array)
