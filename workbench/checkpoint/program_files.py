"""Programs and the values of their variables on disk (`static.save`, `static.load` and relatives).

`static.save(program, "dir/m")` writes two files:

    dir/m.wbmodel    the program, as JSON
    dir/m.wbparams   the values: every persistable variable (parameters, statistics, optimizer state, learning
                     rate, step counter of the random ops) and the states of learning-rate schedules

`static.load` needs the second only, so a crash between the two leaves a model that loads in full, old or new.
Values are read from and put into `global_scope()`; while another thread trains there, the values saved are those
between two of its steps. A schedule that the thread steps itself may be one step behind them: with
`run.pause(timeout=…)`, or in `on_step`, it is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.atomic import file_inside
from workbench.checkpoint.files import read_tensors, write_json, write_tensors
from workbench.checkpoint.objects import PROGRAM
from workbench.checkpoint.restore import Restore
from workbench.checkpoint.tree import flatten
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, did_you_mean, one_of
from workbench.executors.api.executor import Executor
from workbench.framework.paths import path_text
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.text.serialize import program_to_dict
from workbench.framework.values.portable import config_of
from workbench.runtime.storage.scope import Scope, global_scope

PARAMS, MODEL = ".wbparams", ".wbmodel"
DEFAULT_FILE = "variables" + PARAMS


def save(program: Program, model_path: str | os.PathLike[str], protocol: int = 4) -> None:
    """Write a program and the values of its persistable variables.

    Args:
        model_path: folder and file prefix, as in `"checkpoints/epoch3"`.
        protocol: accepted for compatibility; there is no pickle in these files.

    Raises:
        InvalidType: not a Program. InvalidArgument: no file prefix.
        PreconditionNotMet: variables without a value, naming them. OSError: a file cannot be written.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.save(static.default_main_program(), "model")
    """
    _require_program(program, "save")
    prefix = model_prefix(model_path)
    tensors, metadata = _snapshot(program, _persistables(program), global_scope())
    write_json(prefix + MODEL, document_of(program), PROGRAM)
    write_tensors(prefix + PARAMS, tensors, metadata)


def load(
    program: Program,
    model_path: str | os.PathLike[str],
    executor: Executor | None = None,
    var_list: Sequence[Variable | str] | None = None,
) -> None:
    """Put saved values into the scope, all or none: everything is checked before anything is written.

    Names, shapes and dtypes must be those of the program. A program without update operators (a clone for
    testing) takes the parameters and statistics of a training program and leaves its optimizer state aside.

    Args:
        model_path: what `save` was given.
        executor: accepted for compatibility; variables need not exist in the scope.
        var_list: load only these.

    Raises:
        InvalidArgument: missing and unexpected variables, other shapes and dtypes, in one message; a damaged
            file. OSError: it cannot be read.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.save(static.default_main_program(), "model")
        >>> static.load(static.default_main_program(), "model")
    """
    _require_program(program, "load")
    if executor is not None:
        _require_executor(executor, "load")
    path = model_prefix(model_path) + PARAMS
    chosen = None if var_list is None else _chosen(program, var_list)
    _restore(program, path, chosen)


def save_persistables(
    executor: Executor,
    dirname: str | os.PathLike[str],
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Write the persistable variables and schedule states of a program to one file in `dirname`.

    Args:
        filename: default `variables.wbparams`. (Paddle writes a file for each variable, which could not be
            replaced all at once.)

    Raises:
        as `save`.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.save_persistables(executor, "folder")
    """
    program = _checked(executor, main_program, "save_persistables")
    path = file_inside(_folder(dirname), DEFAULT_FILE if filename is None else filename)
    write_tensors(path, *_snapshot(program, _persistables(program), global_scope()))


def load_persistables(
    executor: Executor,
    dirname: str | os.PathLike[str],
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Put back what `save_persistables` wrote; raises as `load`.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.save_persistables(executor, "folder")
        >>> static.load_persistables(executor, "folder")
    """
    program = _checked(executor, main_program, "load_persistables")
    _restore(program, file_inside(_folder(dirname), DEFAULT_FILE if filename is None else filename), None)


def save_vars(
    executor: Executor,
    dirname: str | os.PathLike[str],
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Write the variables listed in `vars`, or those that `predicate` accepts; raises as `save`.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.save_vars(executor, "folder", vars=static.default_main_program().all_parameters())
    """
    program = _checked(executor, main_program, "save_vars")
    variables = _selected(program, vars, predicate)
    path = file_inside(_folder(dirname), DEFAULT_FILE if filename is None else filename)
    tensors, metadata = _snapshot(program, variables, global_scope())
    write_tensors(path, tensors, {**metadata, "schedulers": {}})


def load_vars(
    executor: Executor,
    dirname: str | os.PathLike[str],
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Put back the variables listed in `vars`, or those that `predicate` accepts; raises as `load`.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> weights = static.default_main_program().all_parameters()
        >>> static.save_vars(executor, "folder", vars=weights)
        >>> static.load_vars(executor, "folder", vars=weights)
    """
    program = _checked(executor, main_program, "load_vars")
    variables = _selected(program, vars, predicate)
    _restore(program, file_inside(_folder(dirname), DEFAULT_FILE if filename is None else filename), variables)


# Saving


def snapshot(program: Program, scope: Scope) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Copies of all persistable values, and what is saved beside them: what `write_tensors` takes.

    Raises:
        PreconditionNotMet: a variable has no value.
    """
    return _snapshot(program, _persistables(program), scope)


def values_between_steps(variables: Iterable[Variable], scope: Scope) -> dict[str, np.ndarray]:
    """Copies of values, as they are between two steps of whoever trains in the scope.

    Raises:
        PreconditionNotMet: a variable has no value.
    """
    with scope.in_use():
        return {name: np.array(array) for name, array in _values(variables, scope).items()}


def restoring(program: Program, path: str | Path, tensors: dict[str, np.ndarray], metadata: dict[str, Any]) -> Restore:
    """What `snapshot` gave, checked against a program and ready to be written to a scope.

    Args:
        path: where it was read from, for messages.

    Raises:
        InvalidArgument: it does not fit the program; everything that speaks against it in one message.
    """
    restore = Restore(program, path, tensors, metadata)
    restore.take_all(_persistables(program))
    restore.check()
    return restore


def _persistables(program: Program) -> list[Variable]:
    """Persistable variables by name, each once."""
    return list({variable.name: variable for variable in program.persistables()}.values())


def _snapshot(
    program: Program, variables: Iterable[Variable], scope: Scope
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Copies of values, and the metadata, as they are between two steps of whoever trains in the scope."""
    with scope.in_use():
        tensors = {name: np.array(array) for name, array in _values(variables, scope).items()}
        return tensors, _metadata(program)


def _values(variables: Iterable[Variable], scope: Scope) -> dict[str, np.ndarray]:
    """{name: array in the scope}, not copied."""
    holders = {variable.name: scope.find_var(variable.name) for variable in variables}
    empty = [name for name, holder in holders.items() if holder is None or not holder.tensor.initialized]
    if empty:
        raise PreconditionNotMet(
            f"these variables have no value in the scope: {one_of(empty)}; run the startup program first"
        )
    return {name: holder.tensor.array for name, holder in holders.items() if holder is not None}


def _metadata(program: Program) -> dict[str, Any]:
    """What is saved beside the arrays."""
    return {
        "program": program.name,
        "parameters": sorted(v.name for v in program.persistables() if isinstance(v, Parameter)),
        "schedulers": {
            name: {"type": type(scheduler).__name__, "state": flatten(scheduler.state_dict(), name)[0]}
            for name, scheduler in program.lr_schedulers.items()
        },
    }


def document_of(program: Program) -> dict[str, Any]:
    """The program as JSON types; a schedule that is no data (it holds a function) is left out."""
    unportable = [name for name, scheduler in program.lr_schedulers.items() if config_of(scheduler) is None]
    if unportable:
        program = program.clone()
        for name in unportable:
            program.lr_schedulers.pop(name, None)
    return program_to_dict(program)


# Loading


def _restore(program: Program, path: str | Path, chosen: Sequence[Variable] | None) -> None:
    tensors, metadata = read_tensors(path)
    if chosen is None:
        restoring(program, path, tensors, metadata).commit(global_scope())
        return
    restore = Restore(program, path, tensors, metadata)
    restore.take(chosen)
    restore.commit(global_scope())


# Arguments


def _selected(
    program: Program,
    variables: Sequence[Variable | str] | None,
    predicate: Callable[[Variable], bool] | None,
) -> list[Variable]:
    if (variables is None) == (predicate is None):
        raise InvalidArgument("pass vars= or predicate=, to say which variables are meant")
    if variables is not None:
        return _chosen(program, variables)
    assert predicate is not None
    return [variable for variable in program.list_vars() if predicate(variable)]


def _chosen(program: Program, variables: Sequence[Variable | str]) -> list[Variable]:
    block = program.global_block()
    chosen = []
    for variable in variables:
        if not isinstance(variable, (Variable, str)):
            raise InvalidType(f"expected a Variable or its name, got {variable!r}")
        name = variable if isinstance(variable, str) else variable.name
        if not block.has_var(name):
            raise NotFound(f"the program has no variable {name!r}.{did_you_mean(name, block.vars)}")
        chosen.append(block.var(name))
    return chosen


def _checked(executor: Any, program: Program | None, what: str) -> Program:
    _require_executor(executor, what)
    program = default_main_program() if program is None else program
    _require_program(program, what)
    return program


def _require_program(program: Any, what: str) -> None:
    if not isinstance(program, Program):
        raise InvalidType(f"{what} takes a Program, got {program!r}")


def _require_executor(executor: Any, what: str) -> None:
    if not isinstance(executor, Executor):
        raise InvalidType(f"{what} takes an Executor, got {executor!r}")


def _folder(dirname: Any) -> str:
    folder = path_text(dirname, "dirname")
    if not folder:
        raise InvalidArgument("dirname is empty; pass '.' for the current folder")
    return folder


def model_prefix(model_path: str | os.PathLike[str]) -> str:
    """The path without a suffix of ours."""
    path = path_text(model_path, "model_path")
    for suffix in (PARAMS, MODEL):
        path = path.removesuffix(suffix)
    if not path or os.path.basename(path) in ("", ".", ".."):
        raise InvalidArgument(f"model_path must be a folder and a file prefix, as in 'folder/model'; got {path!r}")
    return path
