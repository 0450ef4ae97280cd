"""`save` and `load` of state dicts, single arrays and programs; Paddle's `paddle.save` and `paddle.load`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.checkpoint.atomic import FilePath
from workbench.checkpoint.files import is_document, read_json, read_tensors, write_json, write_tensors
from workbench.checkpoint.tree import flatten, unflatten
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument
from workbench.framework.notice import tell_unused
from workbench.framework.program.guard import in_static_mode
from workbench.framework.program.program import Program
from workbench.framework.text.serialize import program_from_dict, program_to_dict

PROGRAM = "program"


def save(obj: Any, path: FilePath, protocol: int = 4, **configs: Any) -> None:
    """Write an object to the file `path`; a file that was there is replaced whole or not at all.

    Args:
        obj: a (nested) dict, list or tuple of tensors, arrays, numbers, strings and None, such as the state dicts of
            layers, optimizers, schedules and loaders; a tensor or array; or a Program, whose operators and variables
            are written as JSON (their values are not, see `static.save`).
        path: of the file, whose folder is made if it is not there; or a file that is open for writing bytes.
        protocol: accepted for Paddle's sake; nothing is pickled.
        configs: `use_binary_format` and `pickle_protocol` of Paddle's have no effect, which is told.

    Raises:
        InvalidType: it holds something that is no data, naming where; another keyword.
        InvalidArgument: `path` is a link or a folder. OSError: it cannot be written.

    Example:
        >>> wb.save({"step": 3, "w": np.zeros(2, np.float32)}, "state.wb")
    """
    tell_unused("save", configs, ("use_binary_format", "pickle_protocol"))
    if isinstance(obj, Program):
        write_json(path, program_to_dict(obj), PROGRAM)
        return
    structure, tensors = flatten(obj)
    write_tensors(path, tensors, {"object": structure})


def load(path: FilePath, return_numpy: bool = False, **configs: Any) -> Any:
    """What `save` wrote to `path`; {variable: array} for a file of `static.save`.

    Args:
        path: of the file, or a file that is open for reading bytes.
        return_numpy: give tensors as NumPy arrays; in static mode they are in any case.
        configs: `model_filename`, `params_filename` and `keep_name_table` of Paddle's have no effect, which is told.

    Raises:
        InvalidArgument: another kind of file, truncated or damaged. OSError: it cannot be read.

    Example:
        >>> wb.save({"step": 3, "w": np.zeros(2, np.float32)}, "state.wb")
        >>> wb.load("state.wb")["step"]
        3
    """
    tell_unused("load", configs, ("model_filename", "params_filename", "keep_name_table"))
    if is_document(path):
        return program_from_dict(read_json(path, PROGRAM))
    tensors, metadata = read_tensors(path)
    if "object" not in metadata:
        return tensors
    try:
        as_arrays = return_numpy or in_static_mode()
        return unflatten(metadata["object"], tensors, np.asarray if as_arrays else Tensor)
    except InvalidArgument as exc:
        raise InvalidArgument(f"{path}: {exc}") from exc
