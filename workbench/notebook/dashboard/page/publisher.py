"""The one thread that looks at a model and says what is new, seldom enough that training does not notice."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from workbench.errors import EnforceNotMet
from workbench.notebook.dashboard.model.model import FLAGS, Model, Slow
from workbench.notebook.dashboard.page.answers import answer
from workbench.notebook.dashboard.page.clicks import is_late, stamped
from workbench.notebook.dashboard.page.keep import keep
from workbench.notebook.messages import Message

_PULSE_S = 0.1  # at most ten updates a second
_IDLE, _IDLE_S = 50, 0.5  # after so many pulses without news they come more seldom
_BEAT_S = 2.0  # seconds between two signs of life while something goes on

Send = Callable[[Message], None]


class Publisher:
    """Sends what is new in a model, and answers what the page asks, each on a thread of its own.

    Args:
        send: puts a message on its way; called on these threads, one at a time.
        at_turn: is called when a run begins, holds, goes on or ends, and when a loop of steps does. It has a thread to
            itself, for it may take a while; of turns that come meanwhile it is told once.
    """

    def __init__(self, model: Model, send: Send, at_turn: Callable[[], None] = lambda: None) -> None:
        self.model, self._sends, self._at_turn = model, send, at_turn
        self._stood: tuple[Any, ...] = (model.run, False, 0)
        self._lock = threading.Lock()  # the model
        self._way = threading.Lock()  # to the page
        self._wake, self._closed = threading.Event(), False
        self._hello = False
        self._beats: bool | None = None  # whether the page has been told that there will be further signs of life
        self._next_beat = 0.0
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._turned = threading.Event()
        work = (("publisher", self._publish), ("worker", self._serve), ("turns", self._turn))
        self._threads = [
            threading.Thread(target=target, name=f"workbench dashboard {name}", daemon=True) for name, target in work
        ]
        for thread in self._threads:
            thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """End all threads."""
        self._closed = True
        self._wake.set()
        self._turned.set()
        self._work.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)
        self.model.close()

    def take(self, message: Mapping[str, Any], buffers: Sequence[memoryview] = ()) -> None:
        """What the page says; returns at once."""
        kind = message.get("type")
        if kind == "command" and not self._accept(message):
            return
        if kind == "hello":
            self._hello = True
        elif kind in ("set", "command"):
            self._obey(message)
        elif kind == "keep":
            self._work.put(lambda: self._keep(str(message.get("name")), buffers))
        else:
            self._work.put(lambda: self._answer(dict(message)))
        self._wake.set()

    def _accept(self, click: Mapping[str, Any]) -> bool:
        """Say that a click has come; whether it is still meant."""
        meant = click.get("run")  # that it holds or ends, however long it has waited
        why = None if meant is None or self.model.goes_on_as(meant) else "the run that it was meant for has ended"
        late = is_late(click) if meant is None else why is not None
        with suppress(Exception):  # if there is no way to the page, the click counts all the same
            self._tell({"type": "heard", "id": click.get("id"), "late": late, "why": why})
        return not late

    def _tell(self, message: Message) -> None:
        with self._way:
            self._sends(stamped(message))

    def do(self, name: str, values: Mapping[str, Any]) -> None:
        """A command of the program's; done when this returns.

        Raises:
            EnforceNotMet: it is refused, or fails.
        """
        with self._lock:
            slow = self.model.command(name, values)
        if slow is not None:
            self._complete(slow)
        self._wake.set()

    def snapshot(self) -> list[Message]:
        """Everything there is to show, as messages, and the step that pictures are of as one called `typical`."""
        with self._lock:
            messages = self.model.everything()
            if (typical := self.model.watch.typical()) is not None:
                messages.append({**typical, "type": "typical"})
            self._hello = True  # what is new in it the page has not had
        self._wake.set()
        return messages

    def _obey(self, message: Mapping[str, Any]) -> None:
        """A command of the page's: flags are set at once, everything else is done by the worker, in order."""
        name, values = str(message.get("name")), message.get("values") or {}
        if message["type"] == "set":
            self._work.put(lambda: self._set(values))
        elif name not in FLAGS or not self.model.is_live():
            self._work.put(lambda: self.do(name, values))
        else:
            try:
                self.model.command(name, {})  # without the lock: whoever holds it may take a while
            except EnforceNotMet as error:
                self.model.refuse(error)

    def _set(self, values: Mapping[str, Any]) -> None:
        with self._lock:
            self.model.controls.set(values)

    def _keep(self, name: str, parts: Sequence[memoryview]) -> None:
        path = keep(name, parts)
        self.model.tell("info", f"saved {path}")

    def _complete(self, slow: Slow) -> None:
        """The slow part beside the publisher, what it changes in the model under the lock."""
        try:
            quick = slow()
        except BaseException:
            self.model.busy = None
            raise
        with self._lock:
            self.model.busy = None
            quick()

    def _answer(self, message: Message) -> None:
        reply = answer(self.model, message)
        if reply is not None:
            self._tell(reply)

    # The threads

    def _publish(self) -> None:
        quiet = 0
        while not self._closed:
            try:
                quiet = 0 if self._pulse() else quiet + 1
            except EnforceNotMet as error:
                self.model.refuse(error)
            except Exception:  # one wrong picture must not end all that follow
                self.model.tell("error", f"the dashboard failed:\n{traceback.format_exc(limit=-3)}")
            self._wake.wait(_PULSE_S if quiet < _IDLE else _IDLE_S)
            self._wake.clear()

    def _pulse(self) -> bool:
        """Send what is new; whether there was anything."""
        self.model.prepare()
        with self._lock:
            if hello := self._hello:  # taken back before anything is gathered: who asks meanwhile is answered again
                self._hello = False
            messages = self.model.everything() if hello else self.model.news()
            for message in messages:
                self._tell(message)
            if hello:
                self._beats = None
        self._beat()
        return bool(messages)

    def _beat(self) -> None:
        """A sign of life, with the seconds until the next; none follows when nothing goes on."""
        goes_on, now = self.model.goes_on(), time.monotonic()
        stands = self._standing()
        if stands != self._stood:
            self._stood = stands
            self._turned.set()
        if goes_on != self._beats or (goes_on and now >= self._next_beat):
            self._beats, self._next_beat = goes_on, now + _BEAT_S
            self._tell({"type": "beat", "next": _BEAT_S if goes_on else None})

    def _standing(self) -> tuple[Any, ...]:
        """The run, whether steps follow each other, and, where they do not, how many there have been."""
        run, is_stepping = self.model.run, self.model.is_stepping()
        return run, is_stepping, None if is_stepping else self.model.watch.steps() if run is None else run.step

    def _turn(self) -> None:
        while self._turned.wait() and not self._closed:
            self._turned.clear()
            try:
                self._at_turn()
            except Exception as error:
                self.model.refuse(error)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            try:
                work()
            except Exception as error:
                self.model.refuse(error)
            self._wake.set()
