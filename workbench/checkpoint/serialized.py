"""Inference programs and their values as bytes: `static.serialize_program` and relatives.

The bytes are those of the files of `static.save_inference_model`: JSON and safetensors, which carry no code.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workbench.checkpoint.atomic import replace_file
from workbench.checkpoint.files import read_json, read_tensors, write_json, write_tensors
from workbench.checkpoint.inference_model import inference_program
from workbench.checkpoint.objects import PROGRAM
from workbench.checkpoint.program_files import document_of, restoring, snapshot
from workbench.errors import InvalidType
from workbench.framework.notice import tell_unused
from workbench.framework.paths import path_text
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.text.serialize import program_from_dict
from workbench.runtime.storage.scope import global_scope

Variables = Variable | Sequence[Variable]


def normalize_program(program: Program, feed_vars: Variables, fetch_vars: Variables, **kwargs: Any) -> Program:
    """A copy of what computes `fetch_vars` from `feed_vars`, as in evaluation.

    Args:
        kwargs: `skip_prune_program` of Paddle's has no effect, which is told.

    Raises:
        InvalidType: no Program, or no Variables; another keyword.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2)
        >>> loss = wb.mean(y)
        >>> program = static.normalize_program(static.default_main_program(), [x], [y])
        >>> [op.type for op in program.global_block().ops]
        ['mul', 'elementwise_add']
    """
    tell_unused("static.normalize_program", kwargs, ("skip_prune_program",))
    if not isinstance(program, Program):
        raise InvalidType(f"normalize_program takes a Program, got {program!r}")
    feeds, fetches = (_names(given, what) for given, what in ((feed_vars, "feed_vars"), (fetch_vars, "fetch_vars")))
    return inference_program(program, feeds, fetches)


def serialize_program(feed_vars: Variables, fetch_vars: Variables, **kwargs: Any) -> bytes:
    """What computes `fetch_vars` from `feed_vars`, as bytes.

    Args:
        kwargs: `program`, where it is not that of the variables.

    Raises:
        InvalidType: no Variables.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> data = static.serialize_program([x], [static.nn.fc(x, 2)])
        >>> len(static.deserialize_program(data).global_block().ops)
        2
    """
    return _bytes_of(lambda path: write_json(path, document_of(_inference(feed_vars, fetch_vars, kwargs)), PROGRAM))


def deserialize_program(data: bytes) -> Program:
    """The program that `serialize_program` gave as bytes.

    Raises:
        InvalidType: no bytes. InvalidArgument: other bytes.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> program = static.deserialize_program(static.serialize_program([x], [wb.tanh(x)]))
        >>> [op.type for op in program.global_block().ops]
        ['tanh']
    """
    return program_from_dict(_from_bytes(data, "deserialize_program", lambda path: read_json(path, PROGRAM)))


def serialize_persistables(feed_vars: Variables, fetch_vars: Variables, executor: Any, **kwargs: Any) -> bytes:
    """The values, in the global scope, that computing `fetch_vars` from `feed_vars` takes, as bytes.

    Args:
        executor: accepted for Paddle's sake. kwargs: as for `serialize_program`.

    Raises:
        InvalidType: no Variables. PreconditionNotMet: a value is missing.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y, executor = static.nn.fc(x, 2), static.Executor()
        >>> executor.run(static.default_startup_program())
        []
        >>> data = static.serialize_persistables([x], [y], executor)
        >>> static.deserialize_persistables(static.default_main_program(), data, executor)
    """
    program = _inference(feed_vars, fetch_vars, kwargs)
    return _bytes_of(lambda path: write_tensors(path, *snapshot(program, global_scope())))


def deserialize_persistables(program: Program, data: bytes, executor: Any) -> None:
    """Write the values that `serialize_persistables` gave as bytes into the global scope.

    Args:
        executor: accepted for Paddle's sake.

    Raises:
        InvalidType: no bytes. InvalidArgument: other bytes, or values that do not fit the program.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y, executor = static.nn.fc(x, 2), static.Executor()
        >>> executor.run(static.default_startup_program())
        []
        >>> data = static.serialize_persistables([x], [y], executor)
        >>> static.deserialize_persistables(static.default_main_program(), data, executor)
    """
    tensors, metadata = _from_bytes(data, "deserialize_persistables", read_tensors)
    restoring(program, "the bytes", tensors, metadata).commit(global_scope())


def save_to_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes to a file, whole or not at all.

    Raises:
        InvalidType: no bytes. OSError: it cannot be written.

    Example:
        >>> static.save_to_file("model.bytes", b"abc")
        >>> static.load_from_file("model.bytes")
        b'abc'
    """
    if not isinstance(content, bytes):
        raise InvalidType(f"save_to_file takes bytes, got {type(content).__name__}")
    replace_file(path_text(path, "path"), [content])


def load_from_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: it cannot be read.

    Example:
        >>> static.save_to_file("parameters", b"abc")
        >>> static.load_from_file("parameters")
        b'abc'
    """
    return Path(path_text(path, "path")).read_bytes()


def _inference(feed_vars: Variables, fetch_vars: Variables, kwargs: dict[str, Any]) -> Program:
    tell_unused("serialize_program", kwargs.keys() - {"program"}, ("program", "legacy_format"))
    feeds, fetches = _names(feed_vars, "feed_vars"), _names(fetch_vars, "fetch_vars")
    first = fetch_vars[0] if isinstance(fetch_vars, Sequence) else fetch_vars
    return inference_program(kwargs.get("program") or first.block.program, feeds, fetches)


def _names(given: Variables, what: str) -> list[str]:
    variables = list(given) if isinstance(given, list | tuple) else [given]
    for variable in variables:
        if not isinstance(variable, Variable):
            raise InvalidType(f"expected Variables as {what}, got {variable!r}")
    return [variable.name for variable in variables]  # type: ignore[union-attr]


def _bytes_of(write: Callable[[str], None]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bytes")
        write(path)
        return Path(path).read_bytes()


def _from_bytes(data: Any, what: str, read: Callable[[str], Any]) -> Any:
    if not isinstance(data, bytes):
        raise InvalidType(f"{what} takes bytes, got {type(data).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bytes")
        Path(path).write_bytes(data)
        return read(path)
