"""`save` and `load` of state dicts, single arrays and programs; Paddle's `paddle.save` and `paddle.load`."""

from __future__ import annotations

import os
from typing import Any

from workbench.checkpoint.files import is_document, read_json, read_tensors, write_json, write_tensors
from workbench.checkpoint.tree import flatten, unflatten
from workbench.errors import InvalidArgument
from workbench.framework.program.program import Program
from workbench.framework.text.serialize import program_from_dict, program_to_dict

PROGRAM = "program"


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write an object to the file `path`; a file that was there is replaced whole or not at all.

    Args:
        obj: a (nested) dict, list or tuple of arrays, numbers, strings and None, such as the state dicts of
            optimizers, schedules and loaders; an array; or a Program, whose operators and variables are
            written as JSON (their values are not, see `static.save`).

    Raises:
        InvalidType: it holds something that is no data, naming where.
        InvalidArgument: `path` is a link or a folder. OSError: it cannot be written.

    Example:
        >>> wb.save({"step": 3, "w": np.zeros(2, np.float32)}, "state.wb")
    """
    if isinstance(obj, Program):
        write_json(path, program_to_dict(obj), PROGRAM)
        return
    structure, tensors = flatten(obj)
    write_tensors(path, tensors, {"object": structure})


def load(path: str | os.PathLike[str]) -> Any:
    """What `save` wrote to `path`, arrays as NumPy arrays; {variable: array} for a file of `static.save`.

    Raises:
        InvalidArgument: another kind of file, truncated or damaged. OSError: it cannot be read.

    Example:
        >>> wb.save({"step": 3, "w": np.zeros(2, np.float32)}, "state.wb")
        >>> wb.load("state.wb")["step"]
        3
    """
    if is_document(path):
        return program_from_dict(read_json(path, PROGRAM))
    tensors, metadata = read_tensors(path)
    if "object" not in metadata:
        return tensors
    try:
        return unflatten(metadata["object"], tensors)
    except InvalidArgument as exc:
        raise InvalidArgument(f"{os.fspath(path)}: {exc}") from exc
