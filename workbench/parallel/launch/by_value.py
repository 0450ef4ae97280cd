"""Functions sent by value to processes that this one has started.

cloudpickle sends the code of a function, not only its name, so that functions of a script or a notebook arrive. Since
version 3.1.3 it replaces the file name in that code by "<dynamic-code>", and a traceback in the other process no longer
shows the user's lines. Here the code keeps its file name.
"""

from __future__ import annotations

import io
import sys
from collections import ChainMap
from types import CodeType
from typing import Any

from workbench.errors import InvalidType, Unavailable
from workbench.version import installing


def by_value(sent: Any, *, purpose: str, name: str) -> bytes:
    """A function, or what contains functions, as bytes; with `sys.path`, so that its imports are found there.

    Args:
        purpose: what needs this, for the error when cloudpickle is missing. name: what is sent, for other errors.

    Raises:
        Unavailable: cloudpickle is not installed. InvalidType: something that the function refers to cannot be sent.
    """
    try:
        import cloudpickle
    except ImportError as error:
        raise Unavailable(f"{purpose} needs cloudpickle: {installing('processes')}") from error
    try:
        return bytes(cloudpickle.dumps((sys.path, _dumps(cloudpickle, sent))))
    except Exception as error:
        raise InvalidType(f"{name} cannot be sent to another process: {error}") from error


def _dumps(cloudpickle: Any, sent: Any) -> bytes:
    """What `cloudpickle.dumps` gives, but with the names of files in code."""
    reduce_code = cloudpickle.Pickler.dispatch_table[CodeType]

    class Pickler(cloudpickle.Pickler):
        dispatch_table = ChainMap(
            {CodeType: lambda code: (code_in_file, (*reduce_code(code), code.co_filename))},
            cloudpickle.Pickler.dispatch_table,
        )

    stream = io.BytesIO()
    Pickler(stream).dump(sent)
    return stream.getvalue()


def code_in_file(make: Any, fields: tuple[Any, ...], filename: str) -> CodeType:
    """The code that `make(*fields)` gives, from a file of this name."""
    code: CodeType = make(*fields)
    return code.replace(co_filename=filename)
