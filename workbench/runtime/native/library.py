"""The compiled kernels of this machine: found in the user's cache, compiled there if they are missing.

Who is about to run a step does not wait for that: the compilation goes on beside it, in a process of its own that
outlives this one, and the step runs as NumPy calls.
"""

from __future__ import annotations

import os
import platform
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from workbench.config import get_flag
from workbench.errors import EnforceNotMet, Unavailable
from workbench.framework.notice import say
from workbench.framework.outside import is_from_outside
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.image import Damaged, Kernels
from workbench.runtime.native.source import IMAGE, can_map_images, fingerprint, loader
from workbench.runtime.standing import standing
from workbench.runtime.undisturbed import undisturbed

_lock = threading.Lock()
_found: Kernels | None = None
_refused: str | None = None
_has_begun_without = False
_PATIENCE = 300.0  # seconds
_SERVERS = "PADDLE_PSERVERS_IP_PORT_LIST"  # of a job with parameter servers


def kernels() -> Kernels | None:
    """The kernels of this machine, compiled when nobody has yet.

    Returns:
        None where they cannot be had (`why_not` tells), or FLAGS_cpu_tape is off.
    """
    global _found, _refused
    if not get_flag("FLAGS_cpu_tape"):
        return None
    with _lock:
        if _found is None and _refused is None:
            try:
                _require_support()
                _found = _load_or_compile()
            except (EnforceNotMet, OSError, subprocess.SubprocessError) as error:
                if is_from_outside(error):
                    raise
                _refused = str(error)
                say(f"workbench: steps run as NumPy calls: {error}")
        return _found


def kernels_at_hand() -> Kernels | None:
    """The kernels of this machine if they have been compiled; else somebody begins to, and nobody waits.

    Where several processes were started together they are waited for: all have to run steps in the same way.

    Returns:
        None also while they are being compiled, which `is_compiling` tells and the user is told once.
    """
    if get_flag("FLAGS_cpu_tape") and _found is None and _refused is None and _may_begin_without():
        return None
    return kernels()


def kernels_if_compiled() -> Kernels | None:
    """The kernels of this machine if they are in use, or were compiled when this was asked first; nobody waits."""
    return kernels() if _found is not None or (_refused is None and _were_compiled()) else None


@cache
def _were_compiled() -> bool:
    return obstacle() is None and image_path().exists()


def is_compiling() -> bool:
    """Whether this process has done without kernels because they are not compiled yet."""
    return _has_begun_without


def why_not() -> str | None:
    """Why there are no kernels; None if there are, or nobody has asked yet."""
    return _refused


def _require_support() -> None:
    machine = f"{sys.platform} on {platform.machine()}"
    if os.name != "posix" or sys.byteorder != "little" or sys.maxsize < 2**32:
        raise Unavailable(f"kernels are made for 64-bit POSIX systems, this is {machine}")
    if loader() == IMAGE and not can_map_images():
        raise Unavailable(f"FLAGS_kernel_loader is image, which is for Linux on x86-64; this is {machine}")
    if gemm_address(4) is None:
        raise Unavailable("NumPy's BLAS has no cblas_sgemm with 64-bit sizes")


def cache_folder() -> Path:
    """Where images are kept: `$WORKBENCH_CACHE_DIR`, or workbench in the user's cache folder."""
    chosen = os.environ.get("WORKBENCH_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workbench"


def image_path() -> Path:
    """Where the image for this machine is, or will be."""
    name = f"kernels-{undisturbed(fingerprint)}"  # libraries on its way swallow exceptions
    return _own_folder() / (name if loader() == IMAGE else f"{name}-{loader()}")


def obstacle() -> str | None:
    """What keeps kernels from being had here; nothing is compiled."""
    try:
        _require_support()
        if not image_path().exists() and find_spec("numba") is None:
            return "numba is not installed, so kernels cannot be compiled"
    except (EnforceNotMet, OSError) as error:
        return str(error)
    return None


def _load_or_compile() -> Kernels:
    path = image_path()
    if not path.exists():
        _compile(path)
    _require_own(path)
    try:
        return Kernels(path)
    except Damaged:
        path.unlink(missing_ok=True)
        _compile(path)
        return Kernels(path)


def _may_begin_without() -> bool:
    """Whether kernels are being compiled, by a process this one has started or another one."""
    global _has_begun_without
    with _lock:
        try:
            if obstacle() is not None or image_path().exists() or _is_one_of_several():
                return False
            is_begun = _compile_beside(image_path())
        except (EnforceNotMet, OSError, subprocess.SubprocessError) as error:
            if is_from_outside(error):
                raise
            return False  # who waits for them is told why
        if is_begun and not _has_begun_without:
            _has_begun_without = True
            say(_NOTICE)
        return is_begun


_NOTICE = (
    "workbench: its kernels are being compiled for this machine, once, in the background. Executors that are made "
    "before they are ready run as NumPy calls, which is slower and may round differently; `workbench doctor --compile` "
    "waits for them."
)


def _is_one_of_several() -> bool:
    return standing().size > 1 or bool(os.environ.get(_SERVERS))


def _own_folder() -> Path:
    """A folder only this user can write to: what lies in it is run."""
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(folder)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:
        pass
    return _own_temporary_folder()


def _own_temporary_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"workbench-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    _require_own(folder)
    return folder


def _require_own(path: Path) -> None:
    """Refuse code others may have put there."""
    status = path.lstat()
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022 or stat.S_ISLNK(status.st_mode):
        raise Unavailable(
            f"{path} is to hold code that is run: it has to belong to user {os.getuid()}, be no link, and not be "
            f"writable for others\n  got: owner {status.st_uid}, mode {stat.filemode(status.st_mode)}"
        )


def _compile(path: Path) -> None:
    """Compile in a process of its own; of several processes one does, the others wait for it."""
    if find_spec("numba") is None:
        raise Unavailable("numba is not installed, so kernels cannot be compiled")
    with _locks.opened(path.parent) as lock:
        _acquire(lock)
        if path.exists():
            return
        say("workbench: compiling its kernels for this machine, once; some seconds")
        done = subprocess.run(
            _compiler(path), capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL
        )
    if done.returncode:
        raise Unavailable(f"the kernels could not be compiled: {done.stderr.strip()[-500:]}")


class _Locks:
    """The files of locks that are open here.

    A lock lasts until the last process that has such a file open closes it, so none is to be left to a child by a fork.
    """

    def __init__(self) -> None:
        self._open: list[IO[str]] = []
        self._at_once = threading.RLock()  # to open one and to know it

    @contextmanager
    def opened(self, folder: Path) -> Iterator[IO[str]]:
        """The file in this folder, for a while."""
        with self._at_once:
            file = open(folder / "lock", "w")  # noqa: SIM115 - closed below
            self._open.append(file)
        try:
            yield file
        finally:
            with self._at_once:  # a file says that it is closed a moment before it is
                file.close()
                self._open.remove(file)

    def before_fork(self) -> None:
        """No file is between being open and being known, or between being known and being closed."""
        self._at_once.acquire()

    def in_parent(self) -> None:
        """The fork has been made."""
        self._at_once.release()

    def in_child(self) -> None:
        """The locks are the parent's."""
        for file in self._open:
            file.close()
        self._at_once.release()


_locks = _Locks()
_compiling: subprocess.Popen[bytes] | None = None


def _in_child() -> None:
    """After a fork: what other threads were at is the parent's."""
    global _lock, _compiling
    _lock, _compiling = threading.Lock(), None
    _locks.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_locks.before_fork, after_in_parent=_locks.in_parent, after_in_child=_in_child)


def _compile_beside(path: Path) -> bool:
    """Begin to compile in a process that gives way to others; whether that one, or one of somebody else, is at it."""
    global _compiling
    with _locks.opened(path.parent) as lock:
        if not _try_to_lock(lock):
            return True
        if path.exists() or (_compiling is not None and _compiling.poll() is not None):
            return False  # it is done, or has failed: who waits is told why
        _compiling = subprocess.Popen(
            [*_compiler(path), "--aside"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not meant for it
            pass_fds=[lock.fileno()],  # it holds the lock until it ends
        )
    return True


def _compiler(path: Path) -> list[str]:
    command = [sys.executable, "-m", "workbench.runtime.native.build", str(path)]
    return command if loader() == IMAGE else [*command, f"--{loader()}"]


def _try_to_lock(lock: IO[str]) -> bool:
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _acquire(lock: IO[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not _try_to_lock(lock):
        if time.monotonic() > deadline:
            raise Unavailable(f"waited {_PATIENCE:g} s for another process that compiles kernels")
        time.sleep(0.05)
