"""Programs that compute outputs from inputs, with the values they need: `static.save_inference_model` and `load`.

The files are those of `static.save`; the program's attribute `inference` names what it is fed and what it gives.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from workbench.checkpoint.files import read_json, write_json, write_tensors
from workbench.checkpoint.objects import PROGRAM
from workbench.checkpoint.program_files import MODEL, PARAMS, document_of, load, model_prefix, snapshot
from workbench.errors import InvalidArgument, InvalidType
from workbench.executors.api.executor import Executor
from workbench.framework.notice import tell_unused
from workbench.framework.program.program import Program
from workbench.framework.program.reading.prune import prune
from workbench.framework.program.variable import Variable
from workbench.framework.text.serialize import program_from_dict
from workbench.runtime.storage.scope import Scope, global_scope

INFERENCE = "inference"


def save_inference_model(
    path_prefix: str | os.PathLike[str],
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Executor,
    **kwargs: Any,
) -> None:
    """Write what computes `fetch_vars` from `feed_vars`, as in evaluation, and the values it needs.

    Args:
        path_prefix: folder and file prefix. executor: accepted for Paddle's sake.
        kwargs: `program`, where it is not that of the variables; `clip_extra` and `legacy_format` of Paddle's
            have no effect, which is told.

    Raises:
        InvalidType: no Variables; another keyword. InvalidArgument: nothing to compute.
        PreconditionNotMet: a value is missing.
        OSError: a file cannot be written.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.save_inference_model("model", [x], [y], executor)
        >>> program, feeds, fetches = static.load_inference_model("model", executor)
        >>> executor.run(program, feed={feeds[0]: np.ones((3, 4), np.float32)}, fetch_list=fetches)[0].shape
        (3, 2)
    """
    tell_unused("static.save_inference_model", kwargs.keys() - {"program"}, ("program", "clip_extra", "legacy_format"))
    feeds, fetches = _variables(feed_vars, "feed_vars"), _variables(fetch_vars, "fetch_vars")
    if not fetches:
        raise InvalidArgument("save_inference_model needs at least one variable in fetch_vars")
    program = kwargs.get("program") or fetches[0].block.program
    pruned = inference_program(program, [v.name for v in feeds], [v.name for v in fetches])
    write_model(path_prefix, pruned, global_scope())


def load_inference_model(
    path_prefix: str | os.PathLike[str], executor: Executor | None = None, **kwargs: Any
) -> list[Any]:
    """Read what `save_inference_model`, or `jit.save`, wrote; values go into `global_scope()`.

    Args:
        kwargs: `model_filename` and `params_filename` of Paddle's have no effect, which is told.

    Returns:
        the program, the names it is fed, and the variables to fetch.

    Raises:
        InvalidArgument: no such model, or a damaged file. OSError: a file cannot be read. InvalidType: another keyword.

    Example:
        >>> wb.jit.save(wb.nn.Linear(4, 2), "model", input_spec=[static.InputSpec([None, 4], name="x")])
        >>> wb.enable_static()
        >>> executor = static.Executor()
        >>> program, feeds, fetches = static.load_inference_model("model", executor)
        >>> executor.run(program, feed={"x": np.ones((3, 4), np.float32)}, fetch_list=fetches)[0].shape
        (3, 2)
    """
    tell_unused("static.load_inference_model", kwargs, ("model_filename", "params_filename"))
    program, feeds, fetches = read_model(path_prefix)
    load(program, path_prefix, executor)
    block = program.global_block()
    return [program, feeds, [block.var(name) for name in fetches]]


def inference_program(program: Program, feeds: Sequence[str], fetches: Sequence[str]) -> Program:
    """A copy of what computes variables from others, as in evaluation."""
    pruned = prune(program.clone(for_test=True), list(fetches), list(feeds))
    block = pruned.global_block()
    for name in feeds:
        if not block.has_var(name):  # nothing reads it; it may be fed all the same
            spec = program.global_block().spec(name)
            block.create_var(name, spec.shape, spec.dtype, stop_gradient=True, is_data=True)
    pruned.attributes[INFERENCE] = {"feeds": list(feeds), "fetches": list(fetches)}
    return pruned


def write_model(path_prefix: str | os.PathLike[str], program: Program, scope: Scope) -> None:
    """Write an inference program and the values it has in a scope."""
    prefix = model_prefix(path_prefix)
    tensors, metadata = snapshot(program, scope)
    write_json(prefix + MODEL, document_of(program), PROGRAM)
    write_tensors(prefix + PARAMS, tensors, metadata)


def read_model(path_prefix: str | os.PathLike[str]) -> tuple[Program, list[str], list[str]]:
    """An inference program, the names it is fed, and the names of its outputs.

    Raises:
        InvalidArgument: it is no inference program.
    """
    path = model_prefix(path_prefix) + MODEL
    program = program_from_dict(read_json(path, PROGRAM))
    names = program.attributes.get(INFERENCE)
    if not isinstance(names, dict):
        raise InvalidArgument(f"{path}: a program, but not one of save_inference_model or jit.save")
    return program, list(names["feeds"]), list(names["fetches"])


def _variables(given: Any, what: str) -> list[Variable]:
    variables = list(given) if isinstance(given, list | tuple) else [given]
    for value in variables:
        if not isinstance(value, Variable):
            raise InvalidType(f"save_inference_model takes Variables as {what}, got {value!r}")
    return variables
