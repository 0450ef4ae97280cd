"""Who has wrong certificates or tokens, another's number or a server of before is told so in one error, in time.

Certificates are made by openssl; the servers, real ones at ports of this machine, are shared by all cases.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.hand_made import server_programs
from tests.servers.transports import contract
from workbench import static
from workbench.errors import InvalidArgument, PeerFailed, PreconditionNotMet
from workbench.parallel.servers.asking.links import Link
from workbench.parallel.servers.serving.blocks import duty_of
from workbench.parallel.servers.serving.server import ParameterServer
from workbench.parallel.servers.serving.values import Values
from workbench.parallel.servers.transports.credentials import Credentials
from workbench.runtime.servers.messages import Message
from workbench.runtime.servers.transport import Reply

grpc = pytest.importorskip("grpc", reason="pip install 'notebook-workbench[ps]'")
from workbench.parallel.servers.transports.grpc_transport import GrpcConnection, GrpcListener  # noqa: E402

SECONDS = 2.0  # of every question that nobody can answer; all of them wait at the same time


class Authority:
    """Signs certificates for processes at 127.0.0.1, or at another address."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._run("req", "-x509", *self._key(name), "-days", "2", "-subj", f"/CN={name}", "-out", self._file(name))
        self.certificate = self._read(name)

    def signed(self, name: str, address: str = "127.0.0.1") -> tuple[bytes, bytes]:
        """A certificate and its key."""
        extension = self._folder / f"{name}.ext"
        extension.write_text(f"subjectAltName=IP:{address}")
        self._run("req", *self._key(name), "-subj", f"/CN={name}", "-out", str(self._folder / f"{name}.csr"))
        by = ("-CA", self._file(self._name), "-CAkey", str(self._folder / f"{self._name}.key"), "-CAcreateserial")
        asked = ("-in", str(self._folder / f"{name}.csr"), "-extfile", str(extension), "-days", "2")
        self._run("x509", "-req", *asked, *by, "-out", self._file(name))
        return self._read(name), (self._folder / f"{name}.key").read_bytes()

    def _key(self, name: str) -> tuple[str, ...]:
        return (
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            str(self._folder / f"{name}.key"),
        )

    def _file(self, name: str) -> str:
        return str(self._folder / f"{name}.pem")

    def _read(self, name: str) -> bytes:
        return Path(self._file(name)).read_bytes()

    @staticmethod
    def _run(*command: str) -> None:
        subprocess.run(("openssl", *command), check=True, capture_output=True, timeout=60)


Servers = dict[str, GrpcListener]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Credentials]:
    """Credentials of processes, by what is particular about them."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates")
    folder = tmp_path_factory.mktemp("certificates")
    ours, others = Authority(folder, "ours"), Authority(folder, "others")
    server, elsewhere = ours.signed("server"), ours.signed("elsewhere", "127.0.0.2")
    return {
        "nothing": Credentials(),
        "our authority": Credentials("", b"", b"", ours.certificate),
        "a certificate of ours": Credentials("", *ours.signed("trainer"), ours.certificate),
        "a certificate of others": Credentials("", *others.signed("stranger"), ours.certificate),
        "another authority": Credentials("", b"", b"", others.certificate),
        "a token": Credentials("secret", *server),
        "a token of ours": Credentials("secret", b"", b"", ours.certificate),
        "another token": Credentials("other", b"", b"", ours.certificate),
        "a server's certificate": Credentials("", *server),
        "a certificate for elsewhere": Credentials("", *elsewhere),
        "asks for certificates": Credentials("", *server, ours.certificate),
    }


@pytest.fixture(scope="module")
def servers(held: dict[str, Credentials]) -> Iterator[Servers]:
    kinds = ("nothing", "a token", "a server's certificate", "a certificate for elsewhere", "asks for certificates")
    with ExitStack() as stack:
        listeners = {kind: GrpcListener("127.0.0.1:0", 16, held[kind]) for kind in kinds}
        for listener in listeners.values():
            stack.enter_context(contract.serving(listener, contract.echo))
        yield listeners


STRANGERS = [
    ("a server's certificate", "nothing"),
    ("a server's certificate", "another authority"),
    ("a certificate for elsewhere", "our authority"),
    ("asks for certificates", "our authority"),
    ("asks for certificates", "a certificate of others"),
    ("asks for certificates", "nothing"),
    ("nothing", "our authority"),
]


@pytest.fixture(scope="module")
def replies(servers: Servers, held: dict[str, Credentials]) -> dict[tuple[str, str], Reply]:
    """Questions of all strangers, under way at the same time."""
    ask = lambda pair: GrpcConnection(servers[pair[0]].endpoint, held[pair[1]]).start(Message("step"), SECONDS)  # noqa: E731
    return {pair: ask(pair) for pair in STRANGERS}


@pytest.mark.parametrize("pair", STRANGERS, ids=" | ".join)
def test_certificates_that_do_not_fit_are_told_of(pair: tuple[str, str], replies: Any, servers: Servers) -> None:
    with pytest.raises(PeerFailed, match="has not come to speak with this one") as raised:
        replies[pair].wait()
    spoken = "openly, without" if pair[1] == "nothing" else "in secret, and trusts the authority of"
    assert f"{spoken} WORKBENCH_SERVERS_TLS_AUTHORITY" in str(raised.value)
    assert servers[pair[0]].endpoint in str(raised.value) and f"within {SECONDS:g} s" in str(raised.value)


@pytest.mark.parametrize(
    ("server", "trainer"),
    [
        ("a server's certificate", "our authority"),
        ("asks for certificates", "a certificate of ours"),
        ("a token", "a token of ours"),
    ],
)
def test_certificates_and_tokens_that_fit_are_served(
    server: str, trainer: str, servers: Servers, held: dict[str, Credentials]
) -> None:
    assert GrpcConnection(servers[server].endpoint, held[trainer]).ask(Message("step"), 10).kind == "echo"


def test_another_token_is_refused_at_once_over_tls(servers: Servers, held: dict[str, Credentials]) -> None:
    with pytest.raises(InvalidArgument, match="does not serve this process: another token is expected"):
        GrpcConnection(servers["a token"].endpoint, held["another token"]).ask(Message("step"), 10)


def test_where_nobody_listens_nothing_is_said_of_certificates() -> None:
    listener = GrpcListener("127.0.0.1:0", 2, Credentials())
    listener.close()
    with pytest.raises(PeerFailed, match=r"nobody has answered there within 0\.5 s"):
        GrpcConnection(listener.endpoint, Credentials()).ask(Message("step"), 0.5)


# Numbers and servers of before


class Running:
    """A parameter server of one weight at a port, until it is killed; gradients are applied as they come."""

    def __init__(self, endpoint: str = "127.0.0.1:0") -> None:
        self._listener, self._is_killed = GrpcListener(endpoint, 8, Credentials()), threading.Event()
        self.endpoint = self._listener.endpoint
        main, startup = server_programs(self.endpoint, 2, mode=1)
        self._scope, executor = static.Scope(), static.Executor()
        executor.run(startup, scope=self._scope)
        duty = duty_of(main, main.global_block().ops[-1])
        self._server = ParameterServer(duty, Values(duty, executor, self._scope), self._listener, 10.0)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_killed.is_set():
            if (request := self._listener.receive(0.02)) is not None:
                self._server.handle(request)

    @property
    def weight(self) -> float:
        return float(self._server.values.array("w")[0])

    def kill(self) -> None:
        self._is_killed.set()
        self._thread.join(10)
        self._listener.close()


@pytest.fixture
def running() -> Iterator[Running]:
    wb.enable_static()
    server = Running()
    yield server
    server.kill()
    wb.disable_static()


def pushed(link: Link, value: float) -> float:
    """What a step of a trainer gets back for its gradient."""
    arrays = {"w@GRAD": np.array([value], np.float32)}
    answer = link.start("step", arrays, sequence=link.next(), pull=["w"]).wait()
    link.taken(link.sequence)
    return float(answer.arrays["w"][0])


def test_of_two_trainers_with_one_number_the_first_is_told_and_nothing_of_it_is_applied(running: Running) -> None:
    first, second, other = (Link(GrpcConnection(running.endpoint, Credentials()), number) for number in (0, 0, 1))
    assert np.isclose(pushed(first, 1.0), 0.9)
    assert np.isclose(pushed(second, 1.0), 0.8)
    with pytest.raises(PreconditionNotMet, match=r"another process has taken the trainer's place.*PADDLE_TRAINER_ID"):
        pushed(first, 100.0)
    assert np.isclose(running.weight, 0.8)
    assert np.isclose(pushed(other, 1.0), 0.7) and np.isclose(pushed(second, 1.0), 0.6)


def test_a_server_that_was_started_again_takes_nothing_of_steps_of_before(running: Running) -> None:
    link = Link(GrpcConnection(running.endpoint, Credentials()), 0)
    assert np.isclose(pushed(link, 1.0), 0.9)
    running.kill()
    again = Running(running.endpoint)
    try:
        with pytest.raises(PreconditionNotMet, match=r"the server was started again.*start the trainer again"):
            pushed(link, 100.0)
        assert again.weight == 1.0
        assert np.isclose(pushed(Link(GrpcConnection(again.endpoint, Credentials()), 0), 1.0), 0.9)
    finally:
        again.kill()
