"""`fluid.io`: folders in which every variable has a file of its own name, as Paddle 1.x writes them.

    folder/fc_0.w_0, folder/fc_0.b_0 …    a variable each; or all of them in folder/FILENAME
    folder/__model__                      the program, of an inference model

The files are those of `static.save`: safetensors and JSON. Each is replaced as a whole, but many of them cannot be
replaced at once: a crash in the middle leaves some of the old and some of the new values. One file, by `filename`, is
old or new. Loading is all or nothing either way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.checkpoint.atomic import file_inside
from workbench.checkpoint.files import read_json, read_tensors, write_json, write_tensors
from workbench.checkpoint.inference_model import INFERENCE, inference_program
from workbench.checkpoint.objects import PROGRAM
from workbench.checkpoint.pieces import Extent, SavedVariables
from workbench.checkpoint.program_files import document_of, values_between_steps
from workbench.checkpoint.restore import Restore
from workbench.errors import InvalidArgument, InvalidForm, NotFound, did_you_mean
from workbench.executors.api.executor import Executor
from workbench.framework.paths import path_text
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.text.serialize import program_from_dict
from workbench.runtime.storage.scope import global_scope

MODEL = "__model__"
Folder = str | os.PathLike[str]


def save_vars(
    executor: Executor,
    dirname: Folder,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Write the values of variables into a folder.

    Args:
        vars: which; or `predicate`, those it accepts.
        filename: one file for all of them, instead of one for each.

    Raises:
        InvalidForm: no Executor, no Program. NotFound: no such variable. PreconditionNotMet: one has no value.
        OSError: a file cannot be written.
    """
    program = _checked(executor, main_program)
    values = values_between_steps(_selected(program, vars, predicate), global_scope())
    folder = _folder(dirname)
    os.makedirs(folder, exist_ok=True)
    for path, tensors in _files(folder, values, filename):
        write_tensors(path, tensors)


def save_params(
    executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Write the parameters; see `save_vars`."""
    save_vars(executor, dirname, main_program, predicate=lambda v: isinstance(v, Parameter), filename=filename)


def save_persistables(
    executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Write everything that is kept from step to step: parameters, accumulators, learning rate; see `save_vars`.

    Example:
        >>> import workbench.fluid as fluid
        >>> y = fluid.layers.fc(fluid.data("x", [None, 4]), 2)
        >>> executor = fluid.Executor(fluid.CPUPlace())
        >>> started = executor.run(fluid.default_startup_program())
        >>> fluid.io.save_persistables(executor, "model")
        >>> fluid.io.load_persistables(executor, "model")
    """
    save_vars(executor, dirname, main_program, predicate=lambda v: v.persistable, filename=filename)


def load_vars(
    executor: Executor,
    dirname: Folder,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Callable[[Variable], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Put back what `save_vars` wrote, or a fleet with its servers, all or nothing.

    Raises:
        InvalidArgument: a missing or damaged file, another shape or dtype; nothing was loaded then. Others: as there.
    """
    program = _checked(executor, main_program)
    _restore(program, _selected(program, vars, predicate), _folder(dirname), filename)


def load_params(
    executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Put back what `save_params` wrote; see `load_vars`."""
    load_vars(executor, dirname, main_program, predicate=lambda v: isinstance(v, Parameter), filename=filename)


def load_persistables(
    executor: Executor, dirname: Folder, main_program: Program | None = None, filename: str | None = None
) -> None:
    """Put back what `save_persistables` wrote; see `load_vars`."""
    load_vars(executor, dirname, main_program, predicate=lambda v: v.persistable, filename=filename)


def save_inference_model(
    dirname: Folder,
    feeded_var_names: Sequence[str],
    target_vars: Sequence[Variable],
    executor: Executor,
    main_program: Program | None = None,
    model_filename: str | None = None,
    params_filename: str | None = None,
    export_for_deployment: bool = True,
    program_only: bool = False,
) -> list[str]:
    """Write what computes `target_vars` from what is fed, as in evaluation, and only the values that takes.

    Args:
        model_filename: of the program, `__model__` unless given. params_filename: one file for all values.
        export_for_deployment: accepted for Paddle's sake. program_only: leave the values out.

    Returns:
        the names of the targets.

    Raises:
        InvalidForm: no Executor, no Program. InvalidArgument: nothing to compute. PreconditionNotMet: no value.

    Example:
        >>> import workbench.fluid as fluid
        >>> y = fluid.layers.fc(fluid.data("x", [None, 4]), 2)
        >>> executor = fluid.Executor(fluid.CPUPlace())
        >>> started = executor.run(fluid.default_startup_program())
        >>> fluid.io.save_inference_model("model", ["x"], [y], executor)
        ['fc_0.tmp_1']
    """
    names, targets = as_list(feeded_var_names), as_list(target_vars)
    program = _checked(executor, main_program)
    if not targets or not all(isinstance(target, Variable) for target in targets):
        raise InvalidArgument(f"save_inference_model takes Variables as target_vars, got {target_vars!r}")
    inference = inference_program(program, names, [target.name for target in targets])
    if not program_only:
        save_persistables(executor, dirname, inference, params_filename)
    folder = _folder(dirname)
    os.makedirs(folder, exist_ok=True)
    write_json(file_inside(folder, model_filename or MODEL), document_of(inference), PROGRAM)
    return [target.name for target in targets]


def load_inference_model(
    dirname: Folder,
    executor: Executor,
    model_filename: str | None = None,
    params_filename: str | None = None,
    pserver_endpoints: Sequence[str] | None = None,
) -> list[Any]:
    """Read what `save_inference_model` wrote; values go into `global_scope()`.

    Args:
        pserver_endpoints: accepted for Paddle's sake; an inference model has all its values.

    Returns:
        the program, the names it is fed, and the variables to fetch.

    Raises:
        InvalidArgument: no such model, or a damaged file.
    """
    path = file_inside(_folder(dirname), model_filename or MODEL)
    program = program_from_dict(read_json(path, PROGRAM))
    interface = program.attributes.get(INFERENCE)
    if not isinstance(interface, dict):
        raise InvalidArgument(f"{path}: a program, but not one of save_inference_model")
    load_persistables(executor, dirname, program, params_filename)
    block = program.global_block()
    return [program, list(interface["feeds"]), [block.var(name) for name in interface["fetches"]]]


def _files(
    folder: str, values: dict[str, np.ndarray], filename: str | None
) -> Iterable[tuple[Path, dict[str, np.ndarray]]]:
    if filename is not None:
        return [(file_inside(folder, filename), values)]
    return [(file_inside(folder, name), {name: value}) for name, value in values.items()]


def _restore(program: Program, variables: list[Variable], folder: str, filename: str | None) -> None:
    if filename is not None:
        tensors = read_tensors(file_inside(folder, filename))[0]
    else:
        tensors = SavedVariables(Path(folder)).read({variable.name: Extent(variable.name) for variable in variables})
    restore = Restore(program, folder, tensors, {})
    restore.take(variables)
    restore.commit(global_scope())


def _selected(
    program: Program, given: Sequence[Variable | str] | None, predicate: Callable[[Variable], bool] | None
) -> list[Variable]:
    """The variables meant, each once."""
    if given is None:
        keep = predicate or (lambda v: v.persistable)
        chosen = [variable for variable in program.list_vars() if keep(variable)]
    else:
        chosen = [_variable(program, one if isinstance(one, str) else one.name) for one in given]
    return list({variable.name: variable for variable in chosen}.values())


def _variable(program: Program, name: str) -> Variable:
    block = program.global_block()
    if not block.has_var(name):
        raise NotFound(f"the program has no variable {name!r}.{did_you_mean(name, block.vars)}")
    return block.var(name)


def _checked(executor: Any, main_program: Any) -> Program:
    if not isinstance(executor, Executor):
        raise InvalidForm(f"fluid.io takes an Executor, got {executor!r}")
    program = default_main_program() if main_program is None else main_program
    if not isinstance(program, Program):
        raise InvalidForm(f"fluid.io takes a Program, got {program!r}")
    return program


def _folder(dirname: Any) -> str:
    folder = path_text(dirname, "dirname")
    if not folder:
        raise InvalidArgument("dirname is empty; pass '.' for the current folder")
    return folder


def as_list(given: Any) -> list[Any]:
    """A list, also of one that Paddle takes by itself."""
    return list(given) if isinstance(given, list | tuple) else [given]
