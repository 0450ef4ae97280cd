"""Files that a page may not save itself: the kernel writes them into the current folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import InvalidArgument


def keep(name: str, parts: Sequence[memoryview]) -> Path:
    """Write a file that is not there yet; of one that is, another name.

    Args:
        name: of the file, without a folder.

    Returns:
        where it is.

    Raises:
        InvalidArgument: the name leads elsewhere. OSError: it cannot be written.
    """
    wanted = Path(name)
    if name != wanted.name or "\\" in name or not wanted.stem:
        raise InvalidArgument(f"a file is saved under a plain name, got {name!r}")
    for number in itertools.count():
        path = wanted.with_stem(f"{wanted.stem}-{number}") if number else wanted
        try:
            with path.open("xb") as file:
                file.writelines(parts)
            return path.resolve()
        except FileExistsError:
            continue
    raise AssertionError("there is always another number")
