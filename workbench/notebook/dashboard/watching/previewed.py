"""Graphs of what has not run yet, made beside the user's objects: looking at something must not settle anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.spec import EngineSpec, snapshot
from workbench.experiments.launch.setup import loss_of
from workbench.framework.program.program import Program
from workbench.framework.values.place import Place
from workbench.graph.beyond import graph_beyond
from workbench.graph.options import Options
from workbench.graph.ssa import Graph
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.devices import cpu_places
from workbench.runtime.storage.scope import Scope

O = TypeVar("O", bound=Options)  # noqa: E741


def graph_of(engine: Inspection, fetches: Sequence[str]) -> Graph:
    """The graph of a step of an engine that may not have run."""
    if engine.started:
        return engine.graph(fetches)
    return graph_with(engine.program, engine.places, fetches, engine.build, engine.execution, engine.data_parallel)


def graph_of_program(program: Program, devices: int, fetches: Sequence[str] = (), reduce: bool = False) -> Graph:
    """The graph a program would have on so many CPU devices.

    A program that was transpiled for several processes is shown as it is written, on the one device of its process.
    """
    build = BuildStrategy()
    beyond = graph_beyond(program, cpu_places(1), build.resolved())
    if beyond is not None:
        return beyond
    if reduce:
        build.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
    return graph_with(snapshot(program), cpu_places(devices), fetches, build, ExecutionStrategy())


def graph_with(
    program: Program,
    places: Sequence[Place],
    fetches: Sequence[str],
    build: BuildStrategy,
    execution: ExecutionStrategy,
    data_parallel: bool = True,
) -> Graph:
    """The graph of a step with these strategies, of which copies are used."""
    strategies = copied(build), copied(execution)
    beside = Engine(EngineSpec(program, tuple(places), loss_of(program), *strategies, data_parallel), Scope())
    beside.start()
    return beside.graph(fetches)


def copied(options: O) -> O:
    """The same settings, not settled yet."""
    copy = type(options)()
    copy._give({name: value for name, value in options._given.items() if name in options.OPTIONS})
    return copy
