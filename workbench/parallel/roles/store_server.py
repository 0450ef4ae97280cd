"""Keys and values over HTTP: what processes without MPI meet by, kept by trainer 0.

The server listens on the address it is given; beyond this machine only with a token, which every request carries.
Requests are bounded: so many keys, so many bytes each.
"""

from __future__ import annotations

import hmac
import http.client
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

from workbench.errors import InvalidArgument, Unavailable
from workbench.parallel.roles.meeting import MAX_VALUE

MAX_KEYS, MAX_KEY = 65536, 200
_TOKEN = "X-Workbench-Token"
_REQUEST = 10.0  # seconds one request may take
_LOOK = 0.05
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class StoreServer:
    """Keeps values for the processes of a fleet until it is closed.

    Args:
        host, port: where it listens; port 0 takes a free one. token: what requests have to carry; none if "".

    Attributes:
        port: where it listens.

    Raises:
        InvalidArgument: another host than this machine's own without a token. Unavailable: the port is taken.
    """

    def __init__(self, host: str, port: int, token: str = "") -> None:
        if host not in LOOPBACK and not token:
            raise InvalidArgument(
                f"a store at {host}:{port} can be reached from other machines: set WORKBENCH_FLEET_TOKEN to the same "
                "secret text in all processes, or use 127.0.0.1"
            )
        handler = type("_Handler", (_Requests,), {"values": {}, "lock": threading.Lock(), "token": token})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise Unavailable(f"cannot listen on {host}:{port}: {error}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="workbench-fleet-store", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Requests(BaseHTTPRequestHandler):
    """PUT, GET and DELETE of one value."""

    values: dict[str, bytes]
    lock: threading.Lock
    token: str
    timeout = _REQUEST

    def do_PUT(self) -> None:
        """Keep a value."""
        length = self.headers.get("Content-Length", "")
        if not self._is_allowed():
            return
        if not length.isdecimal() or int(length) > MAX_VALUE:
            return self._answer(413)
        value = self.rfile.read(int(length))
        if len(value) != int(length):
            return self._answer(400)
        with self.lock:
            is_full = len(self.values) >= MAX_KEYS and self._key not in self.values
            if not is_full:
                self.values[self._key] = value
        self._answer(507 if is_full else 200)

    def do_GET(self) -> None:
        """Give a value."""
        if self._is_allowed():
            with self.lock:
                value = self.values.get(self._key)
            self._answer(404 if value is None else 200, value or b"")

    def do_DELETE(self) -> None:
        """Forget a value."""
        if self._is_allowed():
            with self.lock:
                self.values.pop(self._key, None)
            self._answer(200)

    @property
    def _key(self) -> str:
        return unquote(self.path.lstrip("/"))

    def _is_allowed(self) -> bool:
        given = self.headers.get(_TOKEN, "")
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            self._answer(403)
        elif not 0 < len(self._key) <= MAX_KEY:
            self._answer(400)
        else:
            return True
        return False

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


class RemoteStore:
    """The values a `StoreServer` keeps.

    Args:
        host, port: where it listens. patience: seconds to wait for it to begin.
    """

    def __init__(self, host: str, port: int, token: str, patience: float) -> None:
        self._host, self._port, self._token, self._patience = host, port, token, patience

    def with_patience(self, patience: float) -> RemoteStore:
        """The same values, asked for by one that waits so many seconds."""
        return RemoteStore(self._host, self._port, self._token, patience)

    def put(self, key: str, value: bytes) -> None:
        """Keep a value."""
        self._ask("PUT", key, value)

    def get(self, key: str) -> bytes | None:
        """A value; None while there is none."""
        return self._ask("GET", key)

    def remove(self, key: str) -> None:
        """Forget a value."""
        self._ask("DELETE", key)

    def close(self) -> None:
        """Nothing is held."""

    def _ask(self, method: str, key: str, body: bytes | None = None) -> bytes | None:
        """The answer; waits for a server that has not begun.

        Raises:
            Unavailable: nobody listens there, or the server refuses.
        """
        end = time.monotonic() + self._patience
        while True:
            try:
                return self._asked(method, key, body)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() > end:
                    raise Unavailable(
                        f"the store of trainer 0 at {self._host}:{self._port} does not answer: {error}"
                    ) from error
            time.sleep(_LOOK)

    def _asked(self, method: str, key: str, body: bytes | None) -> bytes | None:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_REQUEST)
        try:
            connection.request(method, "/" + quote(key, safe=""), body, {_TOKEN: self._token})
            answer = connection.getresponse()
            content = answer.read(MAX_VALUE + 1)
        finally:
            connection.close()
        if answer.status == 404:
            return None
        if answer.status != 200:
            why = "the token is another one" if answer.status == 403 else f"HTTP status {answer.status}"
            raise Unavailable(f"the store of trainer 0 at {self._host}:{self._port} refuses {key!r}: {why}")
        return content
