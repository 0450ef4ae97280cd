"""A cache folder with an image of kernels, made for one test."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.native.one_row import kernels
from workbench.runtime.native import library


@pytest.fixture
def image() -> Path:
    """The image of this machine; it is compiled if it is missing."""
    kernels()
    return library.image_path()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; the library is as in a process that has just begun."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(folder))
    monkeypatch.setattr(library, "_found", None)
    monkeypatch.setattr(library, "_refused", None)
    monkeypatch.setattr(library, "_has_begun_without", False)
    monkeypatch.setattr(library, "_compiling", None)
    return folder


@pytest.fixture
def filled(image: Path, cache: Path) -> Path:
    """An image in such a cache."""
    cache.mkdir(mode=0o700)
    return Path(shutil.copy(image, cache))


@pytest.fixture
def counted(filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A compiler that copies an image, slowly, and notes that it did; gives the file of notes.

    As long as there is a file `held` beside that, it does not come to its end.
    """
    ready, notes, script = tmp_path / "ready", tmp_path / "notes", tmp_path / "python"
    filled.rename(ready)
    script.write_text(
        f'#!/bin/sh\ncase "$2" in *native.build) echo x >> "{notes}"; sleep 0.5; '
        f'while [ -e "{tmp_path}/held" ]; do sleep 0.1; done; '
        f'cp "{ready}" "$3.part" && chmod 600 "$3.part" && mv "$3.part" "$3";; *) exec {sys.executable} "$@";; esac\n'
    )
    script.chmod(0o700)
    monkeypatch.setattr(library.sys, "executable", str(script))
    return notes
