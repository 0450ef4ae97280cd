"""The line from the pages to the kernel: what they say is heard while a cell runs.

A kernel answers the messages of its front end one after the other, so what a page says waits until the cell that runs
has ended. What our pages say only sets flags and fills queues, and need not wait: it is taken out where the kernel
receives it. All other messages go on as they came, in their order, and none is answered here.

ipykernel 7 receives on a thread of its own, and pages are heard at any time. ipykernel 6 receives on the main thread:
pages are heard between steps and in waits. Other kernels are left alone; there a page is heard when cells have ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.getipython import get_ipython

from workbench import between
from workbench.runtime.undisturbed import undisturbed

Take = Callable[[dict[str, Any], list[memoryview]], None]  # the content of a message, and its buffers


class KernelLine:
    """What one kernel receives.

    Args:
        shell: its shell.
    """

    def __init__(self, shell: Any) -> None:
        self._kernel = shell.kernel
        self._takers: dict[str, Take] = {}
        self._pass_on: Callable[[Any], Any] | None = None
        self._depth = 0  # cells that run: one may run another
        receiver = getattr(self._kernel, "shell_channel_thread", None)
        if receiver is not None:
            receiver.io_loop.add_callback(self._tap)
        elif self._tap():
            shell.events.register("pre_run_cell", lambda info: self._cells(+1))
            shell.events.register("post_run_cell", lambda result: self._cells(-1))
            self._cells(+1)  # the one that made the first page

    def connect(self, comm_id: str, take: Take) -> None:
        """Give a comm's custom messages to `take`, on the thread that receives them."""
        self._takers[comm_id] = take

    def disconnect(self, comm_id: str) -> None:
        """Let them go where the kernel has them go."""
        self._takers.pop(comm_id, None)

    def _tap(self) -> bool:
        """Stand in front of what the kernel does with its messages; whether that is possible."""
        stream = self._kernel.shell_stream
        self._pass_on = getattr(stream, "_recv_callback", None)
        if self._pass_on is not None:
            stream.on_recv(self._sort, copy=False)
        return self._pass_on is not None

    def _cells(self, more: int) -> None:
        """Between cells the kernel looks for messages itself."""
        before, self._depth = self._depth, max(self._depth + more, 0)
        if (before > 0) != (self._depth > 0):
            between.let_visit(self._receive if self._depth else None)

    def _receive(self) -> None:
        """Look for messages. Ctrl-C waits: it must not come between receiving and passing on."""
        from zmq import POLLIN

        undisturbed(partial(self._kernel.shell_stream.flush, POLLIN))

    def _sort(self, frames: Any) -> Any:
        assert self._pass_on is not None
        try:
            ours = self._ours(frames)
        except Exception:  # the kernel says what is wrong with it
            ours = None
        if ours is None:
            return self._pass_on(frames)
        take, content, buffers = ours
        take(content, buffers)
        return None

    def _ours(self, frames: Any) -> tuple[Take, dict[str, Any], list[memoryview]] | None:
        """Whom a message is for, and what it says; None of other messages, the content of which is not read."""
        session = self._kernel.session
        _, parts = session.feed_identities(frames, copy=False)
        message = session.deserialize(parts, content=False, copy=False)
        packed, known = message["content"], tuple(self._takers)
        if message["header"]["msg_type"] != "comm_msg" or not any(comm_id.encode() in packed for comm_id in known):
            return None
        content = session.unpack(packed)
        take, data = self._takers.get(content["comm_id"]), content["data"]
        if take is None or data.get("method") != "custom":
            return None
        return take, data["content"], message["buffers"]


_lines: WeakKeyDictionary[Any, KernelLine] = WeakKeyDictionary()


def line() -> KernelLine | None:
    """The line of the kernel this runs in; None where there is none that can be listened to."""
    shell = get_ipython()
    if getattr(getattr(shell, "kernel", None), "shell_stream", None) is None:
        return None
    if shell not in _lines:
        _lines[shell] = KernelLine(shell)
    return _lines[shell]
