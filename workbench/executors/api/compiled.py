"""CompiledProgram: a program with strategies, run by `Executor.run` (rules C-1 … C-8)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, InvalidForm, InvalidType, PreconditionNotMet
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.inspection.debugging import Debugging
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.spec import EngineSpec, snapshot
from workbench.framework.program.program import Program
from workbench.framework.values.place import CPUPlace, Place
from workbench.graph.loss import check_loss, loss_of
from workbench.graph.ssa import Graph
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.devices import discover
from workbench.runtime.storage.scope import Scope, global_scope


class CompiledProgram(Debugging):
    """A program and how to run it; `Executor.run` takes it like a Program.

    The program is copied: what is appended to it later does not run. Nothing is compiled before the first run. Without
    `with_data_parallel` it runs on the executor's one device, through the same engine.

    Its methods that look into a step may be called before the first run; it then stays with the scope that
    is the global one at that moment, and with its first place (CPUPlace() without places).

    Args:
        program_or_graph: a Program, or a Graph, of which the program it was made from is taken: what passes have made
            of the graph is not (`BuildStrategy.append_pass` is for that).
        build_strategy: how to transform the graph.

    Raises:
        InvalidType: something else.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> program = static.CompiledProgram(static.default_main_program())
        >>> parallel = program.with_data_parallel(loss_name=loss.name, places=static.cpu_places(2))
        >>> (losses,) = executor.run(parallel, feed={"x": np.ones((6, 4), np.float32)}, fetch_list=[loss])
        >>> losses.shape
        (2,)
    """

    def __init__(self, program_or_graph: Program | Graph, build_strategy: BuildStrategy | None = None) -> None:
        program = program_or_graph.program if isinstance(program_or_graph, Graph) else program_or_graph
        if not isinstance(program, Program):
            raise InvalidType(f"CompiledProgram takes a Program or a Graph, got {program_or_graph!r}")
        _require(build_strategy, BuildStrategy, "build_strategy")
        self._program = snapshot(program)
        self._build = build_strategy
        self._execution: ExecutionStrategy | None = None
        self._is_data_parallel = False
        self._loss_name: str | None = loss_of(program)
        self._places: list[Place] | None = None
        self._share_vars_from: CompiledProgram | None = None
        self._engine: Engine | None = None
        self._starting = threading.Lock()
        self._looked_at = False
        self._bound: tuple[Scope, Place] | None = None

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Sequence[Place] | Place | None = None,
    ) -> CompiledProgram:
        """Run on several devices.

        Args:
            loss_name: the loss the program trains; needed if it has a backward pass.
            build_strategy: takes the place of the constructor's.
            places: the devices; CPU_NUM CPU workers, or the visible GPUs, if None.

        Returns:
            self.

        Raises:
            InvalidForm: called a second time. InvalidType: an argument of another type; then nothing has changed.
            InvalidArgument: loss_name is missing or unknown, or there is no place.
        """
        if self._is_data_parallel:
            raise InvalidForm("with_data_parallel() may be called once for a CompiledProgram")
        _require(share_vars_from, CompiledProgram, "share_vars_from")
        _require(build_strategy, BuildStrategy, "build_strategy")
        _require(exec_strategy, ExecutionStrategy, "exec_strategy")
        check_loss(self._program, loss_name)
        self._places = _as_places(places)
        self._build = build_strategy if build_strategy is not None else self._build
        self._execution, self._loss_name, self._share_vars_from = exec_strategy, loss_name, share_vars_from
        self._is_data_parallel = True
        if self._looked_at:
            self._engine, self._looked_at = None, False
        return self

    def bind(self, scope: Scope, place: Place | None = None) -> None:
        """Stay with a scope from now on, and with a place, as the first run would decide.

        Args:
            place: of the executor that runs it; by default its own first one, or CPUPlace().

        Raises:
            PreconditionNotMet: it stays with another scope already.
        """
        self._start(place or (self._places[0] if self._places else CPUPlace()), scope)
        if self._bound is None or self._bound[0] is not scope:
            raise PreconditionNotMet("a CompiledProgram stays with the scope of its first run; make another one")

    def _compile(self, scope: Scope, place: Place) -> CompiledProgram:
        """`bind`, by the name it has in Paddle; what Paddle compiles here is compiled by the first run."""
        self.bind(scope, place)
        return self

    @property
    def engine(self) -> Engine:
        """What runs its steps, once it is bound to a scope or has run."""
        assert self._engine is not None
        return self._engine

    def engine_for(self, place: Place, scope: Scope) -> Engine:
        """What runs its steps for an Executor.

        Raises:
            InvalidArgument: another scope or place than at the first run, or a place of another kind.
        """
        engine = self._engine or self._start(place, scope)
        if self._looked_at and not engine.started:
            self._looked_at = False
            engine = self._start_again(place, scope)
        if self._bound != (scope, place):
            raise InvalidArgument(
                "a CompiledProgram stays with the scope and place of its first run; make another one for these"
            )
        return engine

    def _to_debug(self) -> Engine:
        if self._engine is None:
            self._looked_at = True  # that settles nothing: the first run does
            self._start(self._places[0] if self._places else CPUPlace(), global_scope())
        assert self._engine is not None
        return self._engine

    def _start_again(self, place: Place, scope: Scope) -> Engine:
        """The engine that was only looked at, in the scope of the first run; another one for another kind of place."""
        assert self._engine is not None and self._bound is not None
        if self._bound[1] != place:
            self._engine = None
            return self._start(place, scope)
        self._engine.move_to(scope)
        self._bound = (scope, place)
        return self._engine

    def _start(self, place: Place, scope: Scope) -> Engine:
        """The engine, made once even if several threads ask for it first."""
        with self._starting:
            if self._engine is None:
                engine = self._make_engine(place, scope)
                self._bound, self._engine = (scope, place), engine
            return self._engine

    def _make_engine(self, place: Place, scope: Scope) -> Engine:
        places = self._places if self._is_data_parallel else [place]
        if places is None:
            places = discover(use_cuda=not isinstance(place, CPUPlace))
        if any(type(p) is not type(place) for p in places):
            raise InvalidArgument(f"the executor runs on {place!r}, the compiled program on {places!r}")
        shares = self._share_vars_from
        if shares is not None and shares._engine is None:
            raise PreconditionNotMet("share_vars_from has to run once before the program that shares its variables")
        build = self._build if self._build is not None else BuildStrategy()
        execution = self._execution if self._execution is not None else ExecutionStrategy()
        spec = EngineSpec(self._program, tuple(places), self._loss_name, build, execution, self._is_data_parallel)
        return Engine(spec, scope, shares._engine if shares is not None else None)


def _require(value: Any, kind: type, name: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidType(f"{name} takes a {kind.__name__}, got {value!r}")


def _as_places(places: Sequence[Place] | Place | None) -> list[Place] | None:
    if places is None or isinstance(places, Place):
        return None if places is None else [places]
    if not isinstance(places, list | tuple) or not all(isinstance(place, Place) for place in places):
        raise InvalidType(f"places takes a list of places such as cpu_places(2), got {places!r}")
    if not places:
        raise InvalidArgument("places is an empty list; leave it out to run on all devices")
    return list(places)
