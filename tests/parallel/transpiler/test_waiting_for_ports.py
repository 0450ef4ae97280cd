"""`wait_port`: servers that are started by hand are waited for, and where nobody listens that is told."""

from __future__ import annotations

import socket
import threading
import warnings
from typing import Any

import pytest

from tests.parallel.transpiler.programs import SERVERS, TRAINERS, line, transpiled
from workbench.config import get_flags, set_flags
from workbench.errors import ExecutionTimeout
from workbench.framework.notice import Notice
from workbench.parallel.transpiler import distribute_transpiler, ports


def test_waiting_for_ports_is_for_servers_that_are_started_by_hand() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        there = f"127.0.0.1:{listening.getsockname()[1]}"
        transpiled(line(), pservers=there).get_trainer_program()  # somebody listens
    transpiler = transpiled(line(), pservers=there)
    patience = get_flags("FLAGS_rpc_deadline")
    set_flags({"FLAGS_rpc_deadline": 300})
    try:
        with pytest.raises(ExecutionTimeout, match=f"no process listens at {there} after 0.3 s"):
            transpiler.get_trainer_program()
    finally:
        set_flags(patience)
    transpiler.get_trainer_program(wait_port=False)
    transpiled(line(), {"wait_port": False}, pservers=there).get_trainer_program()


def test_a_server_that_starts_late_is_waited_for() -> None:
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        starts = threading.Timer(0.3, late.listen)
        starts.start()
        ports.wait_for_ports([f"127.0.0.1:{late.getsockname()[1]}"])
        assert not starts.is_alive()


def test_waiting_for_ports_where_nobody_listens_is_told_to_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribute_transpiler, "is_started_by_mpi", lambda: True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transpiled(line()).get_trainer_program()
    with pytest.warns(Notice, match="wait_port = True has no effect"):
        transpiled(line(), {"wait_port": True}).get_trainer_program()


@pytest.mark.parametrize("mode", [{"mode": "nccl2"}, {"mode": "collective", "collective_mode": "local_sgd"}])
def test_trainers_among_themselves_have_nothing_to_wait_for(mode: dict[str, Any]) -> None:
    told = {"trainers": TRAINERS, "current_endpoint": TRAINERS.split(",")[0], "pservers": SERVERS}
    with pytest.warns(Notice, match="wait_port = True has no effect"):
        transpiled(line(), mode | {"wait_port": True}, **told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transpiled(line(), mode, **told)
        transpiled(line(), mode | {"wait_port": False}, **told)
