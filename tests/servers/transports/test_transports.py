"""Both transports keep the contract; gRPC serves who may be served, and nothing that is no message."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.processes.ranks import run_ranks
from tests.servers.transports import contract
from workbench.errors import InvalidArgument, PeerFailed, Unavailable
from workbench.parallel.servers.transports.credentials import Credentials, credentials, is_loopback
from workbench.parallel.servers.transports.grpc_transport import GrpcConnection, GrpcListener
from workbench.parallel.servers.transports.process import is_gone, own_process
from workbench.runtime.servers.messages import Message, encoded
from workbench.runtime.servers.transport import Connection, Listener

grpc = pytest.importorskip("grpc", reason="pip install 'notebook-workbench[ps]'")


def over_grpc() -> tuple[Listener, Callable[[], Connection]]:
    listener = GrpcListener("127.0.0.1:0", 8, Credentials())
    return listener, lambda: GrpcConnection(listener.endpoint, Credentials())


def beside_over_grpc() -> tuple[Listener, Callable[[], Connection]]:
    """Both see memory of each other."""
    listener, connect = over_grpc()

    def know_and_connect() -> Connection:
        connection = connect()
        connection._is_beside = True  # type: ignore[attr-defined]  # as the answer to a join has it
        return connection

    return listener, know_and_connect


@pytest.mark.parametrize("check", contract.CHECKS)
@pytest.mark.parametrize("pair", [over_grpc, beside_over_grpc])
def test_grpc_keeps_the_contract(check: Callable[[contract.Pair], None], pair: contract.Pair) -> None:
    assert contract.holds(check, pair)


def test_a_long_question_lies_in_memory_beside_a_server_and_travels_whole_when_it_is_repeated() -> None:
    listener, away = GrpcListener("127.0.0.1:0", 8, Credentials()), GrpcConnection("127.0.0.1:9", Credentials())
    away.was_reached = True
    lengths: list[int] = []

    class Failing(GrpcConnection):
        def call(self, data: bytes, seconds: float, tell: Callable[[Any], None]) -> Any:
            lengths.append(len(data))
            return away.call(data, seconds, tell) if len(lengths) == 3 else super().call(data, seconds, tell)

    link = Failing(listener.endpoint, Credentials())
    contract.know_each_other(listener, link)
    values = np.arange(50_000, dtype=np.float32)
    with contract.serving(listener, contract.echo):
        for _ in range(2):
            assert np.array_equal(link.ask(Message("step", {}, {"a": values}), 20).arrays["a"], values)
        assert lengths[1] < 100 and lengths[2] < 100 and lengths[3] > values.nbytes
    link.close()


def test_ctrl_c_does_not_tear_what_grpc_does_with_its_locks() -> None:
    listener = GrpcListener("127.0.0.1:0", 8, Credentials())
    link = GrpcConnection(listener.endpoint, Credentials())
    begin, whole = link._call.future, []

    def interrupted(*given: Any, **more: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        call = begin(*given, **more)
        whole.append(call)
        return call

    contract.know_each_other(listener, link)
    with contract.serving(listener, contract.echo):
        link._call.future = interrupted
        with pytest.raises(KeyboardInterrupt):
            link.ask(Message("step", {}, {"a": np.ones(3)}), 20)
        link._call.future = begin
        assert len(whole) == 1 and link.ask(Message("step", {}, {"a": np.ones(3)}), 20).arrays["a"].sum() == 3
    link.close()


@pytest.mark.processes
def test_what_comes_cut_or_makes_no_sense_over_mpi_is_refused_and_the_next_message_is_taken() -> None:
    job = run_ranks(
        """
        import numpy as np
        from mpi4py import MPI
        from tests.servers.transports import contract
        from workbench.parallel.servers.transports import mpi_transport
        from workbench.runtime.servers.messages import Message, encoded, encoded_head

        comm = MPI.COMM_SELF.Dup()
        listener = mpi_transport.MpiListener(comm, True)
        large = Message("step", {}, {"a": np.ones(20_000, np.float32), "b": np.ones(30_000, np.float32)})
        small = encoded(Message("step", {}, {"a": np.ones(10, np.float32)}))
        wrong = (b"", b"WBPS", small[:-1], small + b"x", small, encoded_head(large), encoded(large)[:100_000])
        sent = [comm.Isend(data, 0, 31801) for data in wrong]
        for _ in wrong:                                       # `small` has no number that an answer could have
            assert listener.receive(10) is None
        print(listener.refused)
        link = mpi_transport.MpiConnection(comm, 0, "127.0.0.1:6174", True)
        while comm.Iprobe(0, 31802):                          # what it was told of those
            comm.Recv(bytearray(1 << 16), 0, 31802)
        with contract.serving(listener, contract.echo):
            print(link.ask(large, 20).arrays["b"].sum())
        """,
        ranks=1,
    )
    assert job.code == 0, str(job)
    assert job.outputs[0].split() == ["7", "30000.0"]


@pytest.mark.processes
def test_an_interrupt_anywhere_in_a_long_message_leaves_the_next_one_whole() -> None:
    job = run_ranks(
        """
        import sys
        import numpy as np
        from mpi4py import MPI
        from tests.servers.transports import contract
        from workbench.parallel.servers.transports import buffers
        from workbench.parallel.servers.transports import mpi_transport
        from workbench.runtime.servers.messages import Message

        def interrupt_at(count):                              # the count-th line that runs in the transport
            left = [count]
            def trace(frame, event, argument):
                if frame.f_code.co_filename not in (buffers.__file__, mpi_transport.__file__):
                    return None
                left[0] -= event == "line"
                if not left[0]:
                    sys.settrace(None)
                    raise KeyboardInterrupt
                return trace
            return trace

        comm = MPI.COMM_SELF.Dup()
        link = mpi_transport.MpiConnection(comm, 0, "127.0.0.1:6174", True)
        names, interrupted, taken = [f"a{i}" for i in range(4)], 0, []
        def answer(question):
            arrays = question.frame.arrays
            taken.append({float(value) for array in arrays.values() for value in np.unique(array)})
            question.answer(question.frame._replace(kind="echo"))
        with contract.serving(mpi_transport.MpiListener(comm, True), answer):
            for count in range(1, 120):
                said = Message("step", {}, {name: np.full(20_000, count, np.float32) for name in names})
                sys.settrace(interrupt_at(count))
                try:
                    link.ask(said, 20)
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    sys.settrace(None)
                after = {name: np.full(20_000, -count, np.float32) for name in names}
                found = link.ask(Message("step", {}, after), 20).arrays
                assert all(np.array_equal(found[name], after[name]) for name in names), count
        assert all(len(values) == 1 for values in taken)      # each of one message only
        print(interrupted > 20)
        """,
        ranks=1,
        timeout=120,
    )
    assert job.code == 0, str(job)
    assert job.outputs[0].split() == ["True"]


@pytest.mark.processes
def test_long_messages_of_one_machine_lie_in_memory_that_is_free_again_when_nobody_looks() -> None:
    job = run_ranks(
        """
        import mmap, os, struct
        import numpy as np
        from mpi4py import MPI
        from tests.servers.transports import contract
        from workbench.parallel.servers.transports.mpi_transport import MpiConnection, MpiListener
        from workbench.runtime.servers.messages import Message

        class Counting:
            def __init__(self, comm):
                self.comm, self.sent = comm, []
            def __getattr__(self, name):
                return getattr(self.comm, name)
            def Isend(self, data, *place):
                self.sent.append(len(data))
                return self.comm.Isend(data, *place)

        def files():
            links = [os.path.join("/proc/self/fd", one) for one in os.listdir("/proc/self/fd")]
            there = [one for one in links if os.path.islink(one) and "workbench-message" in os.readlink(one)]
            return len({os.stat(one).st_ino for one in there})

        comm = Counting(MPI.COMM_SELF.Dup())
        listener, link = MpiListener(comm, True), MpiConnection(comm, 0, "127.0.0.1:6174", True)
        contract.know_each_other(listener, link)
        comm.sent.clear()
        ask = lambda value: link.ask(Message("step", {}, {"a": np.full(50_000, value, np.float32)}), 20).arrays["a"]
        with contract.serving(listener, contract.echo):
            assert all((ask(i) == i).all() for i in range(20))
            print(max(comm.sent) < 100, files() <= 4)                 # a question and an answer, and those before
            held = [ask(i) for i in range(5)]
            print([float(one[-1]) for one in held], files() >= 6)     # each answer held lies in one of its own
            most, held = files(), None
            assert all((ask(i) == i).all() for i in range(20))
            print(files() == most)
            held = ask(np.float32(8))
            longer = link.ask(Message("step", {}, {"a": np.ones(200_000, np.float32)}), 20)
            print(float(held.max()), float(longer.arrays["a"].sum()))
        bare = os.memfd_create("workbench-message")                   # could become shorter
        os.truncate(bare, 1 << 16)
        other = os.memfd_create("other")
        for file, length in (bare, 9), (other, 9), (10**6, 9):
            comm.Isend(struct.pack("<4s4q", b"WBLY", os.getpid(), file, 1, length), 0, 31801)
            assert listener.receive(10) is None
        print(listener.refused)
        """,
        ranks=1,
    )
    assert job.code == 0, str(job)
    said = ["True True", "[0.0, 1.0, 2.0, 3.0, 4.0] True", "True", "8.0 200000.0", "3"]
    assert job.outputs[0].splitlines() == said


@pytest.mark.processes
def test_mpi_keeps_the_contract() -> None:
    job = run_ranks(
        """
        from mpi4py import MPI
        from tests.servers.transports import contract
        from tests.servers.transports.contract import know_each_other
        from workbench.parallel.servers.transports.mpi_transport import MpiConnection, MpiListener

        def over_mpi():
            comm = MPI.COMM_SELF.Dup()
            return MpiListener(comm, True), lambda: MpiConnection(comm, 0, "127.0.0.1:6174", True)

        def beside():                         # both see memory of each other
            listener, connect = over_mpi()
            connection = connect()
            know_each_other(listener, connection)
            return listener, lambda: connection

        for check in contract.CHECKS:
            if check is not contract.check_answers_come_in_any_order:  # a rank asks one question at a time
                check(over_mpi)
                check(beside)
                print(check.__name__)
        """,
        ranks=1,
    )
    assert job.code == 0, str(job)
    assert len(job.outputs[0].split()) == len(contract.CHECKS) - 1, str(job)


@pytest.mark.parametrize(("told", "gone"), [({}, True), ({"host": "another-machine"}, False), ({"pid": 0}, False)])
def test_a_process_is_looked_for_on_its_own_machine(told: dict[str, Any], gone: bool) -> None:
    ended = subprocess.Popen(["true"])
    known = Message("joined", own_process())
    assert not is_gone(known)
    ended.wait(20)
    assert is_gone(Message("joined", {**own_process(), "pid": ended.pid, **told})) == gone


# Who is served


def test_a_server_that_others_reach_needs_a_secret() -> None:
    with pytest.raises(InvalidArgument, match="would take gradients from everybody who reaches it"):
        GrpcListener("0.0.0.0:0", 2, Credentials())
    with pytest.raises(InvalidArgument, match="would take gradients from everybody who reaches it"):
        GrpcListener("0.0.0.0:0", 2, Credentials(certificate=b"c", key=b"k"))  # it shows one, and asks for none
    assert Credentials(certificate=b"c", key=b"k", authority=b"a").protects
    GrpcListener("0.0.0.0:0", 2, Credentials(token="secret")).close()
    assert is_loopback("127.0.0.1:1") and is_loopback("localhost:1") and is_loopback("[::1]:1")
    assert not (is_loopback("10.0.0.1:1") or is_loopback("example.org:1"))


def test_secrets_are_not_shown_in_logs() -> None:
    shown = repr(Credentials(token="secret", certificate=b"public", key=b"secret"))
    assert shown == "Credentials(token=set, certificate=set, key=set, authority=none)"


@pytest.mark.parametrize("shown", ["", "other"])
def test_who_shows_another_token_is_not_served(shown: str) -> None:
    listener = GrpcListener("127.0.0.1:0", 2, Credentials(token="secret"))
    with contract.serving(listener, contract.echo):
        with pytest.raises(InvalidArgument, match="does not serve this process: another token is expected"):
            GrpcConnection(listener.endpoint, Credentials(token=shown)).ask(Message("step"), 10)
        assert GrpcConnection(listener.endpoint, Credentials(token="secret")).ask(Message("step"), 10).kind == "echo"


def test_who_shows_no_token_is_sent_away_before_a_message_has_come() -> None:
    listener, given_up = GrpcListener("127.0.0.1:0", 2, Credentials(token="secret")), threading.Event()
    with contract.serving(listener, contract.echo), grpc.insecure_channel(listener.endpoint) as channel:
        never = (b"" for _ in iter(lambda: given_up.wait(20), True))
        with pytest.raises(grpc.RpcError) as raised:
            channel.stream_unary("/workbench.ParameterServer/Ask")(never, timeout=5)
        given_up.set()
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("x")
    with pytest.raises(InvalidArgument, match="belong together"):
        credentials({"WORKBENCH_SERVERS_TLS_CERTIFICATE": str(tmp_path / "c")})


def test_a_port_that_is_taken_is_told() -> None:
    listener = GrpcListener("127.0.0.1:0", 2, Credentials())
    with pytest.raises(Unavailable, match=r"a server cannot listen at .*: another process does"):
        GrpcListener(listener.endpoint, 2, Credentials())
    listener.close()


# What arrives


def test_a_server_that_is_gone_is_named() -> None:
    listener, connect = over_grpc()
    with contract.serving(listener, contract.echo):
        connection = connect()
        connection.ask(Message("step"), 10)
    with pytest.raises(PeerFailed, match=r"server 127\.0\.0\.1:\d+ is lost: it cannot be reached, tried 5 times"):
        connection.ask(Message("step"), 10)


def test_a_server_that_starts_late_is_waited_for() -> None:
    listener, connect = over_grpc()
    listener.close()
    reply = connect().start(Message("step"), 20)
    late = GrpcListener(listener.endpoint, 2, Credentials())  # type: ignore[attr-defined]
    with contract.serving(late, contract.echo):
        assert reply.wait().kind == "echo"


def test_bytes_that_are_no_message_are_refused_and_the_server_goes_on() -> None:
    listener, connect = over_grpc()
    asked: list[str] = []

    def answer(request: contract.Question) -> None:
        asked.append(request.frame.kind)
        contract.echo(request)

    chance = random.Random(1)
    with contract.serving(listener, answer):
        channel = grpc.insecure_channel(listener.endpoint)  # type: ignore[attr-defined]
        call = channel.unary_unary("/workbench.ParameterServer/Ask")
        whole = encoded(Message("step", {"trainer": 0}))
        for length in range(300):
            data = whole[: length % len(whole)] if length % 2 else chance.randbytes(length)
            assert b"refused" in call(data, timeout=10)
        channel.close()
        assert connect().ask(Message("step"), 10).kind == "echo"
    assert asked == ["step"] and listener.refused == 300


def test_nobody_waits_for_an_answer_after_giving_up() -> None:
    listener, connect = over_grpc()
    threads = threading.active_count()
    with contract.serving(listener, lambda request: None), pytest.raises(RuntimeError):
        connect().ask(Message("step"), 0.2)
    assert threading.active_count() <= threads + 4
