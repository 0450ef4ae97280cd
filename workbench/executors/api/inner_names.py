"""Names of Paddle's Executor that its own `run` goes through, and which programs of 1.x call as well."""

from __future__ import annotations

from typing import Any, Protocol

from workbench.errors import InvalidForm, InvalidType
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.feeding.feed import Feed
from workbench.executors.fetching.fetch import split_optimize_ops
from workbench.executors.running.engine.pruned import pruned_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import Scope


class RunsPrograms(Protocol):
    """What these names lead to."""

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        """See `Executor.run`."""


class InnerNames:
    """Entry points to `Executor.run`, each with the arguments that Paddle 1.8.5 gives it.

    In Paddle these are the functions a step goes through; here all of them call `run`, and raise what it raises.
    """

    def _run_impl(
        self: RunsPrograms,
        program: Program | CompiledProgram | None,
        feed: Feed,
        fetch_list: Any,
        feed_var_name: str,
        fetch_var_name: str,
        scope: Scope | None,
        return_numpy: bool,
        use_program_cache: bool,
        return_merged: bool,
        use_prune: bool,
    ) -> list[Any]:
        """`run`, with every argument given."""
        names = feed_var_name, fetch_var_name
        told = scope, return_numpy, use_program_cache, return_merged, use_prune
        return self.run(program, feed, fetch_list, *names, *told)

    def _run_program(
        self: RunsPrograms,
        program: Program,
        feed: Feed,
        fetch_list: Any,
        feed_var_name: str,
        fetch_var_name: str,
        scope: Scope | None,
        return_numpy: bool,
        use_program_cache: bool,
    ) -> list[Any]:
        """`run` of a program that is not compiled.

        Raises:
            InvalidType: it is no Program.
        """
        if not isinstance(program, Program):
            raise InvalidType(f"Executor._run_program takes a Program, got {program!r}")
        return self.run(
            program, feed, fetch_list, feed_var_name, fetch_var_name, scope, return_numpy, use_program_cache
        )

    def _run_parallel(
        self: RunsPrograms,
        program: CompiledProgram,
        scope: Scope | None,
        feed: Feed,
        fetch_list: Any,
        fetch_var_name: str,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """`run` of a program that is compiled for several devices; `inspection.fed(feed)` tells what each is given.

        Raises:
            InvalidType: it is no CompiledProgram. InvalidForm: it was made without `with_data_parallel`.
        """
        if not isinstance(program, CompiledProgram):
            raise InvalidType(f"Executor._run_parallel takes a CompiledProgram, got {program!r}")
        if not program._is_data_parallel:
            raise InvalidForm("Executor._run_parallel takes CompiledProgram(…).with_data_parallel(…)")
        told: dict[str, Any] = {"return_numpy": return_numpy, "return_merged": return_merged}
        return self.run(program, feed, fetch_list, fetch_var_name=fetch_var_name, scope=scope, **told)

    def _run_inference(self, exe: RunsPrograms, feed: Feed) -> list[Any]:
        """What another executor, of a program that only infers, makes of a feed."""
        return exe.run(feed=feed)

    def _prune_program(
        self,
        program: Program,
        feed: Feed = None,
        fetch_list: Any = None,
        optimize_ops: list[Operator] | None = None,
    ) -> Program:
        """What is left of a program for some fetches and updates; the program itself if there is neither.

        Raises:
            InvalidType: it is no Program. PreconditionNotMet: an operator of another program.
        """
        if not isinstance(program, Program):
            raise InvalidType(f"Executor._prune_program takes a Program, got {program!r}")
        items, listed = split_optimize_ops(fetch_list)
        ops = [*listed, *(optimize_ops or [])]
        if not (items or ops):
            return program
        return pruned_program(program, feed, [*items, ops] if ops else items, use_prune=True)[0]
