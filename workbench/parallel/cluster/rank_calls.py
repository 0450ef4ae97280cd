"""How functions are called in ranks: by name, with JSON and the bytes of arrays; no object is pickled on the way.

ipyparallel carries two texts and a string of bytes there, and a string of bytes back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from workbench.parallel.groups.objects import decoded, encoded


def message(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[str, str, bytes]:
    """What `call` takes, for a function of a module.

    Raises:
        InvalidType: an argument that is no data, naming its place.
    """
    return function.__module__, function.__qualname__, encoded(list(arguments)).tobytes()


def call(module: str, name: str, arguments: bytes) -> bytes:
    """Call a function here, in a rank; returns what it returned, written in the same way."""
    function = getattr(import_module(module), name)
    return encoded(function(*unpacked(arguments))).tobytes()


def unpacked(data: bytes) -> Any:
    """What was written."""
    return decoded(np.frombuffer(data, np.uint8))
