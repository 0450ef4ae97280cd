"""Messages by gRPC, between processes that were started by hand: one method, bytes in and bytes out.

Between processes of one user on one machine, the bytes of a long message are those that tell where it lies (`shared`).

gRPC's own locks stay taken where Ctrl-C comes in the middle of its calls, and every later call waits for them for ever.
So a trainer calls it where nothing comes from outside (`undisturbed`), and waits for answers in a queue of its own.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, InvalidArgument, PeerFailed, PeerTimeout, Unavailable
from workbench.parallel.servers.transports.credentials import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    Credentials,
    credentials,
    require_protection,
)
from workbench.parallel.servers.transports.shared import BESIDE, LONG, SharedInbox, SharedOutbox, is_beside, telling
from workbench.parallel.transpiler.ports import is_open
from workbench.runtime.servers.messages import MAX_BYTES, MAX_HEAD, Message, encoded
from workbench.runtime.servers.transport import Connection, Listener, Question, Reply, lost, understood
from workbench.runtime.undisturbed import undisturbed
from workbench.version import installing

_SERVICE, _METHOD = "workbench.ParameterServer", "Ask"
_SHOWN = "authorization"
_RETRIES = 4  # after the server was reached once
_FIRST_PAUSE = 0.1  # seconds; every further one is twice as long
_LOOK = 0.5  # seconds between looks at whether who asks is still there
_GRACE = 5.0  # seconds for answers that are under way when a server ends
_LATE = 5.0  # seconds after which a call that should have ended is given up


def _grpc() -> ModuleType:
    try:
        import grpc
    except ImportError as error:
        raise Unavailable(
            f"servers and trainers that no MPI has started talk by gRPC: {installing('ps')}, or start them "
            "together with `workbench launch --server_num S --worker_num T script.py`"
        ) from error
    module: ModuleType = grpc
    return module


def _options(most: int) -> list[tuple[str, int]]:
    size = min(most + MAX_HEAD, (1 << 31) - 1)
    return [
        ("grpc.max_receive_message_length", size),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),  # the second server of a port is told so
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_metadata_size", 1 << 14),
    ]


class GrpcListener(Listener):
    """A server's port.

    Args:
        endpoint: `ip:port`; port 0 takes a free one. askers: how many may wait for an answer at the same time.
        held: whom it serves. most: bytes that the arrays of a message may have.

    Attributes:
        endpoint: with the port it has.

    Raises:
        InvalidArgument: it would serve everybody who reaches it. Unavailable: there is no gRPC, or the port is taken.
    """

    def __init__(self, endpoint: str, askers: int, held: Credentials | None = None, most: int = MAX_BYTES) -> None:
        self._held = credentials() if held is None else held
        require_protection(endpoint, self._held)
        grpc = _grpc()
        self._inbox, self._outbox = SharedInbox(most), SharedOutbox()
        self._requests: queue.SimpleQueue[_GrpcQuestion] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._server = grpc.server(
            ThreadPoolExecutor(askers, "workbench-server"),
            interceptors=(_Door(grpc, self._held),),
            options=_options(most),
            maximum_concurrent_rpcs=4 * askers,
        )
        method = grpc.unary_unary_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: method}),))
        try:
            port = self._bind(grpc, endpoint)
        except RuntimeError as error:
            raise Unavailable(
                f"a server cannot listen at {endpoint}: another process does, such as a server of a job before, or "
                f"the address is none of this machine's ({error})"
            ) from None
        self.endpoint = f"{endpoint.rpartition(':')[0]}:{port}"
        self._server.start()

    def _bind(self, grpc: Any, endpoint: str) -> int:
        held = self._held
        if not held.certificate:
            return int(self._server.add_insecure_port(endpoint))
        pairs = [(held.key, held.certificate)]
        asks = bool(held.authority)
        shown = grpc.ssl_server_credentials(pairs, held.authority or None, asks)
        return int(self._server.add_secure_port(endpoint, shown))

    def _serve(self, data: bytes, context: Any) -> bytes:
        """One call, on a thread of its own."""
        try:
            request = _GrpcQuestion(self._inbox.get(np.frombuffer(data, np.uint8)), self._outbox)
        except InvalidArgument as error:
            with self._counting:
                self.refused += 1
            request = _GrpcQuestion(Message(""), self._outbox)
            request.refuse(error)
            return request.data
        self._requests.put(request)
        while not request.answered.wait(_LOOK) and context.is_active():
            pass
        return request.data

    def receive(self, seconds: float) -> Question | None:
        try:
            return self._requests.get(timeout=seconds) if seconds > 0 else self._requests.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        self._server.stop(_GRACE).wait(_GRACE)


class _Door:
    """Who shows another token is sent away before anything of a message is read: a handler of streams reads nothing."""

    def __init__(self, grpc: Any, held: Credentials) -> None:
        self._held, self._refused = held, grpc.stream_unary_rpc_method_handler(self._refuse)
        self._unauthenticated = grpc.StatusCode.UNAUTHENTICATED

    def intercept_service(self, further: Callable[[Any], Any], call: Any) -> Any:
        """What handles a call, as gRPC asks for it."""
        return further(call) if self._held.admits(dict(call.invocation_metadata).get(_SHOWN, "")) else self._refused

    def _refuse(self, messages: Any, context: Any) -> None:
        context.abort(self._unauthenticated, "another token is expected")


class _GrpcQuestion(Question):
    def __init__(self, frame: Message, outbox: SharedOutbox) -> None:
        self.frame, self.data, self._outbox = frame, b"", outbox
        self.answered = threading.Event()

    def answer(self, frame: Message) -> None:
        self.data = _sent(telling(frame, self.frame), self._outbox if self.frame.fields.get(BESIDE) else None)
        self.answered.set()


def _sent(frame: Message, outbox: SharedOutbox | None) -> bytes:
    """What is sent of a message.

    Args:
        outbox: of the sender, where the receiver sees its memory.
    """
    return encoded(frame) if outbox is None or frame.nbytes < LONG else outbox.put(frame).tobytes()


class GrpcConnection(Connection):
    """A trainer's way to a server.

    Args:
        endpoint: `ip:port`. held: what it shows. most: bytes that the arrays of an answer may have.
    """

    def __init__(self, endpoint: str, held: Credentials | None = None, most: int = MAX_BYTES) -> None:
        grpc, self.endpoint = _grpc(), endpoint
        self._inbox, self._outbox, self._is_beside = SharedInbox(most), SharedOutbox(), False
        held = credentials() if held is None else held
        self._channel = undisturbed(partial(_channel, grpc, endpoint, held, _options(most)))
        self._call = self._channel.unary_unary(f"/{_SERVICE}/{_METHOD}")
        self._is_secret = bool(held.authority)
        self._shown = ((_SHOWN, held.token),) if held.token else ()
        self.was_reached = False

    def start(self, frame: Message, seconds: float) -> Reply:
        if not self._is_beside:
            return _GrpcReply(self, frame, encoded(frame), seconds)
        told = frame._replace(fields={**frame.fields, BESIDE: True})
        return _GrpcReply(self, told, _sent(told, self._outbox), seconds)

    def call(self, data: bytes, seconds: float, tell: Callable[[Any], None]) -> Any:
        """Begin a call; a server that was never reached may yet be starting.

        Args:
            tell: gets the bytes of the answer, or the error.
        """
        call = self._call.future(data, timeout=seconds, metadata=self._shown, wait_for_ready=not self.was_reached)
        call.add_done_callback(partial(_tell, tell))
        return call

    def read(self, data: bytes) -> Message:
        """The answer that bytes are."""
        self.was_reached = True
        answer = self._inbox.get(np.frombuffer(data, np.uint8))
        if "pid" in answer.fields:
            self._is_beside = is_beside(answer)
        return answer

    def silence(self) -> str:
        """What can be said where no answer has ever come."""
        if not is_open(self.endpoint):
            return "nobody has answered there"
        secret = (
            f"in secret, and trusts the authority of {AUTHORITY}" if self._is_secret else f"openly, without {AUTHORITY}"
        )
        return (
            f"a process listens there, but has not come to speak with this one, which speaks {secret}: the server has "
            f"other certificates ({CERTIFICATE}, {KEY}, {AUTHORITY} have to fit each other), or it is stopped, or no "
            "server; no answer"
        )

    def close(self) -> None:
        undisturbed(self._channel.close)


def _tell(tell: Callable[[Any], None], call: Any) -> None:
    """On a thread of gRPC."""
    try:
        tell(call.result())
    except Exception as error:
        tell(error)


def _channel(grpc: Any, endpoint: str, held: Credentials, options: list[tuple[str, int]]) -> Any:
    if not held.authority:
        return grpc.insecure_channel(endpoint, options)
    trusted = grpc.ssl_channel_credentials(held.authority, held.key or None, held.certificate or None)
    return grpc.secure_channel(endpoint, trusted, options)


class _GrpcReply(Reply):
    """Asks again where nobody knows whether the question has arrived: the server takes it for the same one."""

    def __init__(self, connection: GrpcConnection, frame: Message, data: bytes, seconds: float) -> None:
        self._connection, self._frame, self._kind, self._seconds = connection, frame, frame.kind, seconds
        self._end = time.monotonic() + seconds
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._begin(data, seconds)

    def _begin(self, data: bytes, seconds: float) -> None:
        self._call = undisturbed(partial(self._connection.call, data, seconds, self._ended.put))

    def wait(self) -> Message:
        grpc, endpoint, pause = _grpc(), self._connection.endpoint, _FIRST_PAUSE
        for attempt in range(_RETRIES + 1):
            try:
                return understood(self._connection.read(self._result()), endpoint)
            except grpc.RpcError as error:
                code, left = error.code(), self._end - time.monotonic() - pause
                if code is not grpc.StatusCode.UNAVAILABLE or attempt == _RETRIES or left <= 0:
                    raise self._explained(code, error.details()) from None
            except EnforceNotMet:
                raise
            except BaseException:
                undisturbed(self._call.cancel)
                raise
            time.sleep(pause)
            pause *= 2
            self._begin(encoded(self._frame), left)  # what lay elsewhere may be gone
        raise AssertionError("the last attempt raises")

    def _result(self) -> bytes:
        try:
            answer = self._ended.get(timeout=max(0.0, self._end - time.monotonic()) + _LATE)
        except queue.Empty:
            raise self._too_late() from None
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    def _explained(self, code: Any, details: str) -> EnforceNotMet:
        endpoint, name = self._connection.endpoint, code.name
        if name == "DEADLINE_EXCEEDED":
            if not self._connection.was_reached:
                return lost(endpoint, f"{self._connection.silence()} within {self._seconds:g} s")
            return self._too_late()
        if name == "UNAUTHENTICATED":
            return InvalidArgument(f"server {endpoint} does not serve this process: {details}")
        if name == "RESOURCE_EXHAUSTED":
            return InvalidArgument(f"server {endpoint}: message {self._kind!r} is too long, or too many ask: {details}")
        if name == "UNAVAILABLE":
            return lost(endpoint, f"it cannot be reached, tried {_RETRIES + 1} times ({details})")
        return PeerFailed(f"server {endpoint}: {name}: {details}")

    def _too_late(self) -> PeerTimeout:
        endpoint = self._connection.endpoint
        return PeerTimeout(f"server {endpoint} has not answered {self._kind!r} within {self._seconds:g} s")
