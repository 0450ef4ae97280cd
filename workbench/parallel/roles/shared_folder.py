"""Keys and values as files of a folder that all processes see."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.checkpoint.atomic import file_inside


class SharedFolder:
    """Values as files.

    Args:
        path: the folder, made if there is none; another job in it has to have another name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)

    def put(self, key: str, value: bytes) -> None:
        """Keep a value."""
        part = file_inside(self._path, f"{key}.{os.getpid()}.part")
        part.write_bytes(value)
        part.replace(file_inside(self._path, key))  # as a whole

    def get(self, key: str) -> bytes | None:
        """A value; None while there is none."""
        try:
            return file_inside(self._path, key).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, key: str) -> None:
        """Forget a value."""
        file_inside(self._path, key).unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is held."""
