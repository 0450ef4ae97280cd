"""Caches of a test's own that begin with the object code there is, so that a test compiles only what it changes."""

from __future__ import annotations

import shutil
from pathlib import Path

from workbench.runtime.native import library


def with_objects(cache: Path) -> Path:
    """A cache folder with the object code of the machine's own, if it has any."""
    cache.mkdir(mode=0o700, parents=True)
    objects = library.cache_folder() / "objects"
    if objects.is_dir():
        shutil.copytree(objects, cache / "objects")
    return cache
