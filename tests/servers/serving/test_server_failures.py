"""What fails inside a server: whoever asked is told, nothing is half applied, and the server goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.loopback import ENDPOINT, Loopback, Silence
from tests.servers.serving.test_server import ASYNC, joined
from workbench.checkpoint.files import write_tensors
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.parallel.servers.serving import server as servers
from workbench.parallel.servers.serving.keeper import FORMAT, CheckpointKeeper


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


def fail(*given: Any) -> Any:
    raise ArithmeticError("made to fail")


def test_any_error_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    server = joined()
    with monkeypatch.context() as patched:
        patched.setattr(server.server.values, "array", fail)
        asked = server.ask("pull", 0, pull=["w"])
    with pytest.raises(PreconditionNotMet, match=f"'pull' failed at server {ENDPOINT}: ArithmeticError: made to fail"):
        _ = asked.result
    assert server.ask("pull", 0, pull=["w"]).result.arrays["w"] == 1


def test_an_asynchronous_step_that_fails_puts_rates_and_counters_back(monkeypatch: pytest.MonkeyPatch) -> None:
    server = joined(mode=ASYNC).server
    values, counter = server.values, f"{servers.LR_COUNTER}.trainer_0"
    values.put(counter, np.array([3]))
    monkeypatch.setattr(values, "advance", lambda name, steps: values.put(name, values.array(name) + steps))
    monkeypatch.setattr(values, "apply", fail)
    with pytest.raises(ArithmeticError):
        server._apply(servers.Push({}, {counter: np.array([1])}, {"rate": np.array([9], np.float32)}), 0)
    assert values.array(counter) == 3 and np.allclose(values.array("rate"), 0.1)
    assert server.round == 0 and server.members.applied == [0, 0]


@pytest.mark.parametrize("error", [OSError, InvalidArgument, MemoryError])
@pytest.mark.parametrize("mode", [0, ASYNC])
def test_a_step_that_cannot_be_kept_is_applied_and_answered(
    mode: int, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(server: Any) -> None:
        raise error("no space left")

    keeper = CheckpointKeeper(tmp_path, ENDPOINT, 1)
    monkeypatch.setattr(keeper, "save", full)
    server = joined(trainers=1, mode=mode, keeper=keeper)
    with pytest.warns(UserWarning, match="could not write its checkpoint: no space left"):
        asked = server.push(0, 0, 2.0)
    assert np.allclose(asked.result.arrays["w"], 0.8)


def test_an_answer_that_fails_is_that_of_one_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    server = joined()
    give = server.server._give
    monkeypatch.setattr(server.server, "_give", lambda asked, one, names: give(asked, one, names) if one else fail())
    first, second = server.push(0, 0, 2.0), server.push(1, 0, 4.0)
    assert np.allclose(second.result.arrays["w"], 0.7)
    with pytest.raises(PreconditionNotMet, match="the answer to step 0 failed at server"):
        _ = first.result


# Rows


def test_one_number_has_no_rows() -> None:
    server = joined()
    server.server.values.put("one", np.float32(1).reshape(()))
    with pytest.raises(InvalidArgument, match=r"variable 'one' at .* has no rows"):
        _ = server.ask("rows", 0, {"one": np.zeros(1, np.int64)}).result


def test_rows_of_a_message_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    server = joined(shape=(4, 2))
    server.server.values.put("v", np.ones((3, 2), np.float32))
    monkeypatch.setattr(servers, "MAX_BYTES", 10)
    one = np.zeros(1, np.int64)
    assert server.ask("rows", 0, {"w": one}).result.nbytes == 8
    with pytest.raises(InvalidArgument, match="rows of 16 bytes are asked for; an answer has at most 10"):
        _ = server.ask("rows", 0, {"w": one, "v": one}).result


# Checkpoints


def test_a_server_that_cannot_go_on_closes_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, closed = Loopback(keeper=CheckpointKeeper(tmp_path, ENDPOINT, 1)).server, []
    monkeypatch.setattr(Silence, "close", lambda listener: closed.append(listener))
    monkeypatch.setattr(CheckpointKeeper, "restore", fail)
    with pytest.raises(ArithmeticError):
        server.serve()
    assert len(closed) == 1


@pytest.mark.parametrize("wrong", [{"round": "x"}, {"round": None}, {"applied": [0, "x"]}])
def test_a_checkpoint_that_tells_no_steps_changes_nothing(wrong: dict[str, Any], tmp_path: Path) -> None:
    keeper, server = CheckpointKeeper(tmp_path, ENDPOINT, 1), Loopback().server
    keeper.save(server)
    held = {name: server.values.array(name) + 5 for name in ("w", "rate")}
    write_tensors(keeper.path, held, {"format": FORMAT, "round": 3, "applied": [3, 3], "mode": 0} | wrong)
    with pytest.raises(InvalidArgument, match="does not tell how many steps were taken"):
        keeper.restore(server)
    assert server.values.array("w") == 1 and server.round == 0
