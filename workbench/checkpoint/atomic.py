"""Replacing a file so that a reader finds the old content or the new, never a mixture, whatever happens.

The new content goes into a temporary file of the same folder, is forced to disk, and takes the place of the
old file in one rename; then the rename is forced to disk. A writer holds a lock (`flock`) on its temporary
file, so one that can be locked belongs to a writer that died, and the next writer in the folder removes it.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from workbench.errors import InvalidArgument
from workbench.framework.paths import path_text

try:
    import fcntl
except ImportError:  # not a POSIX system: no locks, so nothing is cleaned up
    fcntl = None  # type: ignore[assignment]

PREFIX, SUFFIX = ".workbench-", ".tmp"
_OPEN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

Bytes = bytes | bytearray | memoryview
FilePath = str | os.PathLike[str] | IO[bytes]
"""Of a file, or a file that is open for bytes, such as `io.BytesIO`."""


def replace_file(path: FilePath, parts: Iterable[Bytes]) -> None:
    """Make `parts`, one after the other, the content of the file at `path`; its folder is made if needed.

    On any error or interrupt the file that was there is unchanged and the temporary file is gone. An open file they are
    just written to.

    Raises:
        InvalidArgument: `path` is a symbolic link, a folder, or no regular file.
        OSError: the operating system's reason (disk full, no permission …) with the path and what it means.
    """
    if isinstance(path, io.IOBase):
        for part in parts:
            path.write(part)
        return
    target = Path(path_text(path))
    try:
        mode = _mode_of_old(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_dead(target.parent)
        _write_and_rename(target, parts, mode)
    except OSError as exc:
        raise _cannot_save(target, exc) from exc
    try:
        _sync_folder(target.parent)
    except OSError as exc:
        raise OSError(exc.errno, f"{target} was replaced, but perhaps not durably: {exc.strerror}") from exc


def read_file(path: FilePath, size: int = -1) -> bytes:
    """The content of a regular file, or its first `size` bytes; of an open file, what follows from where it stands.

    The first bytes of an open file can be read again.

    Raises:
        InvalidArgument: a folder, or no regular file (a pipe is not waited for).
        OSError: it cannot be read.
    """
    if isinstance(path, io.IOBase):
        return _read_open(path, size)
    target = Path(path_text(path))
    try:
        handle = os.open(target, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise InvalidArgument(f"{target} is not a regular file")
            return file.read(size)
    except IsADirectoryError:
        raise InvalidArgument(f"{target} is a folder, not a file") from None
    except OSError as exc:
        raise OSError(exc.errno, f"cannot read {target}: {exc.strerror}") from exc


def _read_open(file: Any, size: int) -> bytes:
    at = file.tell()
    content: bytes = file.read(size)
    if size >= 0:
        file.seek(at)
    return content


def file_inside(folder: str | os.PathLike[str], name: str) -> Path:
    """The path of file `name` directly in `folder`.

    Raises:
        InvalidArgument: `name` would lead elsewhere, or is no file name.
    """
    plain = isinstance(name, str) and name not in ("", ".", "..") and not set(name) & {"/", "\\", "\0"}
    if not plain or os.path.splitdrive(name)[0]:
        raise InvalidArgument(f"{name!r} is not the name of a file in {os.fspath(folder)!r}")
    return Path(folder) / name


def remove_dead(folder: Path) -> None:
    """Remove the temporary files that writers left in `folder` when they died."""
    if fcntl is None:
        return
    for entry in os.scandir(folder):
        if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX):
            _remove_if_dead(entry.path)


def _remove_if_dead(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDWR | _OPEN)
    except OSError:
        return  # gone already, or another user's
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        pass  # its writer lives, or somebody else was quicker
    finally:
        os.close(handle)


def _mode_of_old(target: Path) -> int | None:
    """Permissions of the file to replace; None if there is none."""
    try:
        status = target.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise InvalidArgument(
            f"{target} is a symbolic link to {os.readlink(target)}: save there, or remove the link first"
        )
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise InvalidArgument(f"cannot save to {target}: it is {what}")
    return stat.S_IMODE(status.st_mode)


def _write_and_rename(target: Path, parts: Iterable[Bytes], mode: int | None) -> None:
    handle, temporary = _open_temporary(target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(handle)
            os.replace(temporary, target)
    except BaseException:
        _unlink_quietly(temporary)
        raise


def _open_temporary(folder: Path) -> tuple[int, str]:
    """A new file in `folder`, open and locked."""
    while True:
        path = os.path.join(folder, f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN, 0o666)
        try:
            if _lock(handle):
                return handle, path
        except BaseException:
            os.close(handle)
            _unlink_quietly(path)
            raise
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock a new temporary file; False if another writer took it for a dead one before we could."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks; remove_dead cannot lock it either
    return os.fstat(handle).st_nlink > 0


def _unlink_quietly(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync folders
            raise
    finally:
        os.close(handle)


def _cannot_save(target: Path, exc: OSError) -> OSError:
    kept = "the file there is unchanged" if os.path.lexists(target) else "nothing was written"
    return OSError(exc.errno, f"cannot save {target}: {exc.strerror or exc}; {kept}")
