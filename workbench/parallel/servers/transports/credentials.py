"""Who may talk to a server: everybody on this machine, or who has a token, over TLS where there are files for it."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from workbench.errors import InvalidArgument, NotFound

TOKEN, CERTIFICATE, KEY, AUTHORITY = (
    f"WORKBENCH_SERVERS_{name}" for name in ("TOKEN", "TLS_CERTIFICATE", "TLS_KEY", "TLS_AUTHORITY")
)


class Credentials(NamedTuple):
    """What a process shows, and asks to be shown.

    Attributes:
        token: a secret that all processes of the job know, "" for none.
        certificate, key: what the process shows, in PEM; a server has to have them for TLS.
        authority: whose certificates it trusts; a server that has one serves only who shows such a certificate.
            b"" for none.
    """

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    authority: bytes = b""

    @property
    def protects(self) -> bool:
        """Whether not everybody who reaches the port is served."""
        return bool(self.token or (self.certificate and self.authority))

    def __repr__(self) -> str:
        """Which are set; a secret must not get into a log."""
        told = (f"{name}={'set' if value else 'none'}" for name, value in zip(self._fields, self, strict=True))
        return f"Credentials({', '.join(told)})"

    def admits(self, shown: str) -> bool:
        """Whether somebody who shows this token is served."""
        return hmac.compare_digest(shown.encode(), self.token.encode())


def credentials(variables: Mapping[str, str] | None = None) -> Credentials:
    """Those that variables of this process tell of: `WORKBENCH_SERVERS_TOKEN`, and paths of PEM files in
    `WORKBENCH_SERVERS_TLS_CERTIFICATE` and `…_TLS_KEY` (servers, and trainers of which a certificate is asked),
    `…_TLS_AUTHORITY` (trainers, and servers that ask for a certificate).

    Raises:
        InvalidArgument: a certificate without its key, or the other way round. NotFound: a file is missing.
    """
    given = os.environ if variables is None else variables
    files = [_read(name, given.get(name, "")) for name in (CERTIFICATE, KEY, AUTHORITY)]
    if bool(files[0]) != bool(files[1]):
        raise InvalidArgument(f"{CERTIFICATE} and {KEY} belong together; set both or neither")
    return Credentials(given.get(TOKEN, ""), *files)


def _read(name: str, path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"{name}={path}: {error.strerror}") from None


def require_protection(endpoint: str, held: Credentials) -> None:
    """A server that other machines can reach serves only who shows something.

    Raises:
        InvalidArgument: it would serve everybody.
    """
    if not (is_loopback(endpoint) or held.protects):
        raise InvalidArgument(
            f"a server at {endpoint} would take gradients from everybody who reaches it\n"
            "  expected: an address of this machine only (127.0.0.1), or a secret that all processes know in the "
            f"variable {TOKEN}, or the files of {CERTIFICATE}, {KEY} and {AUTHORITY}: a certificate of that authority "
            "is then asked of everybody"
        )


def is_loopback(endpoint: str) -> bool:
    """Whether only processes of this machine reach it."""
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
