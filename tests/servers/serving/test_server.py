"""What a server does with what it is asked: rounds, steps applied at once, who comes and goes, what is refused."""

from __future__ import annotations

import random
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.hand_made import server_programs
from tests.servers.loopback import ENDPOINT, Asked, Loopback
from workbench import events
from workbench.checkpoint.files import read_tensors
from workbench.errors import InvalidArgument, PeerFailed, PeerTimeout, PreconditionNotMet
from workbench.parallel.servers.serving.keeper import CheckpointKeeper
from workbench.runtime.servers.messages import Message

ASYNC = 1


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


def joined(**options: Any) -> Loopback:
    loopback = Loopback(**options)
    for trainer in range(loopback.server.duty.trainers):
        assert loopback.join(trainer) == 0
    return loopback


@pytest.mark.parametrize("mode", [0, ASYNC])
def test_a_server_tells_what_every_step_of_every_trainer_moves(mode: int) -> None:
    server, told = joined(mode=mode, shape=(3,)), []
    for step in range(2):
        with events.subscribe(told.append, events.Exchanged):
            for trainer in (0, 1):
                name = f"w@GRAD.trainer_{trainer}" if mode == 0 else "w@GRAD"
                asked = server.push(trainer, step, [1.0, 2.0, 3.0], name, pull=["w", "rate"])
            server.ask("pull", 0, pull=["w"])  # is no step
            again = server.push(0, step, [1.0, 2.0, 3.0], "w@GRAD")  # and this was one already
        assert asked.result.nbytes == 16 and again.result.nbytes == 12
    steps = [(event.executor, event.step, event.trainer, event.pushed, event.pulled) for event in told]
    assert steps == [(ENDPOINT, step, trainer, 12, 16) for step in range(2) for trainer in (0, 1)]


# Who comes


def test_a_trainer_of_another_program_is_told_to_wait() -> None:
    server = Loopback()
    server.server.duty = replace(server.server.duty, fingerprint="mine")
    for program, kind in [("other", "another"), ("mine", "joined"), ("", "joined")]:
        answer = server.ask("join", 0, program=program).result
        assert answer.kind == kind and (kind == "joined" or f"{ENDPOINT} serves another program" in answer.text("why"))
    assert server.server.members.active == [0, 1]


def test_who_has_left_a_server_waits_for_the_next_one_there() -> None:
    server = joined()
    number = server.ask("join", 0).result.number("server")
    server.sessions[0] += 1
    server.ask("leave", 0)
    asked = server.ask("join", 0, left=number)
    assert asked.result.kind == "another" and "still serves trainers 1; trainer 0 has left it" in asked.result.text(
        "why"
    )
    assert server.server.members.left == {0}
    assert Loopback().ask("join", 0, left=number).result.kind == "joined"
    assert server.ask("join", 0, left=number + 1).result.kind == "joined"  # another process


# Synchronous rounds


def test_T10_a_round_takes_the_mean_of_all_trainers() -> None:
    server = joined()
    for step, expected in enumerate([0.7, 0.4, 0.1]):
        first = server.push(0, step, 2.0, "w@GRAD.trainer_0")
        assert not first.frames
        second = server.push(1, step, 4.0, "w@GRAD.trainer_1")
        for asked in (first, second):
            assert np.allclose(asked.result.arrays["w"], expected)


def test_T11_one_synchronous_trainer_trains_though_its_gradient_has_no_suffix() -> None:
    server = joined(trainers=1)
    assert np.allclose(server.push(0, 0, 2.0).result.arrays["w"], 0.8)


def test_a_step_that_comes_again_is_applied_once() -> None:
    server = joined()
    server.push(0, 0, 2.0)
    lost = server.push(1, 0, 4.0)
    again = server.push(1, 0, 99.0)  # the answer was lost
    assert np.allclose(lost.result.arrays["w"], 0.7) and np.allclose(again.result.arrays["w"], 0.7)
    assert np.allclose(server.w, 0.7)


def test_a_push_that_comes_again_before_the_others_takes_the_place_of_the_question_only() -> None:
    server = joined()
    first = server.push(0, 0, 2.0)
    again = server.push(0, 0, 99.0)
    with pytest.raises(PeerTimeout, match="trainer 0 has asked again"):
        _ = first.result
    server.push(1, 0, 4.0)
    assert np.allclose(again.result.arrays["w"], 0.7)


def test_a_step_from_the_future_is_refused() -> None:
    with pytest.raises(PreconditionNotMet, match="pushes step 3, and the server has taken 0"):
        _ = joined().push(0, 3, 1.0).result


def test_who_has_left_is_not_waited_for() -> None:
    server = joined()
    waiting = server.push(0, 0, 2.0)
    assert server.ask("leave", 1).result.kind == "left"
    assert np.allclose(waiting.result.arrays["w"], 0.9)  # the sum is still divided by 2, as in Paddle


def test_a_lost_trainer_is_named_to_those_who_wait_within_the_deadline() -> None:
    server = joined(patience=0.0)
    waiting = server.push(0, 0, 2.0)
    server.server._look_at_the_clock()
    with pytest.raises(PeerFailed, match="step 0: trainer 1 did not push within 0 s") as raised:
        _ = waiting.result
    assert raised.value.args and np.allclose(server.w, 1.0)
    again = server.push(0, 0, 99.0)  # the step is run again: what was pushed stays
    server.push(1, 0, 4.0)
    assert np.allclose(again.result.arrays["w"], 0.7)


# Applied at once


def test_T7_an_asynchronous_push_is_applied_in_full_and_at_once() -> None:
    server = joined(mode=ASYNC)
    assert np.allclose(server.push(0, 0, 2.0).result.arrays["w"], 0.8)
    assert np.allclose(server.push(0, 1, 2.0).result.arrays["w"], 0.6)  # nobody waits for trainer 1
    assert np.allclose(server.push(1, 0, 4.0).result.arrays["w"], 0.2)


def test_an_asynchronous_push_that_comes_again_or_late_is_applied_once() -> None:
    server = joined(mode=ASYNC)
    for sequence in (0, 0, 1, 0, 1):
        server.push(0, sequence, 2.0)
    assert np.allclose(server.w, 0.6)


# Who comes again


def test_a_trainer_that_comes_again_goes_on_behind_its_last_step() -> None:
    server = joined(mode=ASYNC)
    server.push(0, 0, 2.0)
    before = server.sessions[0]
    assert server.join(0) == 1
    with pytest.raises(PreconditionNotMet, match="another process has taken the trainer's place"):
        _ = server.ask("step", 0, {"w@GRAD": np.ones(1, np.float32)}, sequence=1, session=before).result
    assert np.allclose(server.push(0, 1, 2.0).result.arrays["w"], 0.6)


def test_a_trainer_rejoins_a_synchronous_job() -> None:
    server = joined()
    server.push(0, 0, 2.0)
    server.push(1, 0, 4.0)
    waiting = server.push(0, 1, 2.0)
    assert server.join(1) == 1  # started again, while trainer 0 waits
    server.push(1, 1, 4.0)
    assert np.allclose(waiting.result.arrays["w"], 0.4)


def test_what_a_lost_process_pushed_is_not_taken_for_the_push_of_the_next_one() -> None:
    server = joined()
    server.push(0, 0, 2.0)
    server.join(0)
    waiting = server.push(1, 0, 4.0)
    assert not waiting.frames
    server.push(0, 0, 6.0)
    assert np.allclose(waiting.result.arrays["w"], 0.5)


def test_what_a_trainer_pushed_before_it_left_is_not_in_the_round_of_the_others() -> None:
    server = joined()
    server.push(0, 0, 2.0)
    server.ask("leave", 0)
    assert np.allclose(server.push(1, 0, 4.0).result.arrays["w"], 0.8)


def test_a_session_of_before_a_restart_is_refused() -> None:
    before, after = joined(), joined()
    with pytest.raises(PreconditionNotMet, match="the server was started again"):
        _ = after.ask("pull", 0, pull=["w"], session=before.sessions[0]).result


def test_a_server_ends_when_all_have_left_and_not_before() -> None:
    server = joined()
    server.ask("leave", 0)
    assert not server.server._is_over()
    server.ask("leave", 1)
    assert server.server._is_over()


@pytest.mark.parametrize("comes_again", [False, True], ids=["under the launcher", "by hand"])
def test_a_server_whose_trainers_are_all_gone_ends_unless_they_may_come_again(
    comes_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = joined(mode=ASYNC)
    monkeypatch.setattr(server.server._listener, "comes_again", comes_again)
    monkeypatch.setattr(server.server.members, "gone", lambda: [0, 1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert server.server._is_over() != comes_again
    assert [str(one.message).partition("ends: ")[2] for one in told] == ["trainers 0, 1 are gone"][comes_again:]


def test_a_server_does_not_wait_for_a_lost_trainer_when_the_others_have_left() -> None:
    server = joined(mode=ASYNC, patience=-1.0)
    assert not server.server._is_over()
    server.ask("leave", 0)
    with pytest.warns(UserWarning, match="trainers 1 were not heard of"):
        assert server.server._is_over()


@pytest.mark.parametrize(("patience", "is_over"), [(-1.0, True), (60.0, False)])
def test_a_server_does_not_wait_for_ever_for_a_trainer_that_never_came(patience: float, is_over: bool) -> None:
    server = Loopback(mode=ASYNC, patience=patience)
    server.join(0)
    server.ask("leave", 0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert server.server._is_over() == is_over
    assert len(told) == is_over


# Checkpoints


def keeper(folder: Path, every: int = 1) -> CheckpointKeeper:
    return CheckpointKeeper(folder, ENDPOINT, every)


def test_a_server_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    first = joined(keeper=keeper(tmp_path))
    for step in range(2):
        first.push(0, step, 2.0)
        first.push(1, step, 4.0)
    second = Loopback(keeper=keeper(tmp_path))
    assert np.array_equal(second.w, first.w) and second.server.round == 2
    with pytest.raises(PreconditionNotMet, match="the server was started again"):
        _ = second.push(0, 2, 2.0).result
    assert second.join(0) == second.join(1) == 2
    second.push(0, 2, 2.0)
    assert np.allclose(second.push(1, 2, 4.0).result.arrays["w"], 0.1)


def test_a_checkpoint_of_another_program_changes_nothing(tmp_path: Path) -> None:
    joined(keeper=keeper(tmp_path), shape=(3,)).server._keeper.save(Loopback(shape=(3,)).server)  # type: ignore[union-attr]
    with pytest.raises(InvalidArgument, match="variable 'w' has another form"):
        Loopback(keeper=keeper(tmp_path))
    with pytest.raises(InvalidArgument, match="no checkpoint of server"):
        Loopback(keeper=keeper(tmp_path), mode=ASYNC, shape=(3,))


def test_a_trainer_asks_for_a_checkpoint(tmp_path: Path) -> None:
    server = joined(keeper=keeper(tmp_path, every=0))
    server.push(0, 0, 2.0)
    server.push(1, 0, 4.0)
    assert not list(tmp_path.iterdir())
    assert server.ask("save", 0).result.number("round") == 1 and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(PreconditionNotMet, match="FLAGS_server_checkpoint"):
        _ = joined().ask("save", 0).result


def test_what_a_killed_server_has_left_half_written_is_removed_at_the_next_start(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from workbench.checkpoint.atomic import replace_file\n"
        "def parts():\n    yield b'half'\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "replace_file(os.path.join(sys.argv[1], 'server.safetensors'), parts())"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=60, check=False)
    assert len(list(tmp_path.iterdir())) == 1
    Loopback(keeper=keeper(tmp_path))
    assert not list(tmp_path.iterdir())


NOT_A_PART: dict[str, tuple[dict[str, Any], str]] = {
    "no such variable": ({"wanted": ["w@GRAD"], "keys": ["w"]}, "variables of server"),
    "names without keys": ({"keys": []}, "variables of server"),
    "a folder somewhere here": ({"folder": "."}, "one that all processes see"),
    "a folder that nobody has made": ({"save": 2}, "one that all processes see"),
    "no number": ({"part": "../x"}, "part is a whole number"),
}


@pytest.mark.parametrize(("wrong", "message"), NOT_A_PART.values(), ids=NOT_A_PART)
def test_a_server_writes_its_variables_where_a_save_has_begun_and_nowhere_else(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    server, given = joined(), {"folder": str(tmp_path), "save": 1, "part": 0, "wanted": ["w"], "keys": ["w[0:1]"]}
    (tmp_path / "save-1").mkdir()
    with pytest.raises(InvalidArgument, match=message):
        _ = server.ask("part", 0, **given | wrong).result
    assert [path.name for path in tmp_path.rglob("*")] == ["save-1"]
    assert server.ask("part", 0, **given).result.names("names") == ["w"]
    assert np.array_equal(read_tensors(tmp_path / "save-1" / "part-0.tensors")[0]["w[0:1]"], [1.0])


# What is refused


WRONG: dict[str, Any] = {
    "another trainer": ({"trainer": 9}, "started for 2 trainers"),
    "no trainer": ({"trainer": "0"}, "trainer is a whole number"),
    "no session": ({"session": 77}, "in its session 77"),
    "no sequence": ({"sequence": -1}, "sequence is a whole number"),
    "an unknown gradient": ({"arrays": {"v@GRAD": np.ones(1, np.float32)}}, "no gradient 'v@GRAD' lives at"),
    "another shape": ({"arrays": {"w@GRAD": np.ones(2, np.float32)}}, "does not fit"),
    "another dtype": ({"arrays": {"w@GRAD": np.ones(1)}}, "does not fit"),
    "the same twice": (
        {"arrays": {"w@GRAD": np.ones(1, np.float32), "w@GRAD.trainer_0": np.ones(1, np.float32)}}, "pushed twice"
    ),
    "rows of what has none": (
        {"arrays": {"w@GRAD@ROWS": np.zeros(1, np.int64), "w@GRAD@VALUES": np.ones(1, np.float32)}}, "is pushed as"
    ),
    "an unknown parameter": ({"pull": ["v"]}, "no variable 'v' lives at"),
    "an unknown question": ({"kind": "format_disk"}, "a server knows"),
}  # fmt: skip


@pytest.mark.parametrize("mode", [0, ASYNC])
@pytest.mark.parametrize(("wrong", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused_and_nothing_is_applied(wrong: Any, message: str, mode: int) -> None:
    server = joined(mode=mode)
    given = {"kind": "step", "trainer": 0, "arrays": {"w@GRAD": np.ones(1, np.float32)}, "sequence": 0, "pull": ["w"]}
    given |= wrong
    asked = server.ask(given.pop("kind"), given.pop("trainer"), given.pop("arrays"), **given)
    with pytest.raises((InvalidArgument, PreconditionNotMet), match=message):
        _ = asked.result
    assert np.array_equal(server.w, [1.0]) and server.server.round == 0 and not server.server._parts


def test_ten_thousand_messages_that_make_no_sense_leave_the_server_as_it_was() -> None:
    server, chance = joined(mode=ASYNC), random.Random(5)
    kinds = ["step", "pull", "rows", "save", "part", "", "serve", "__class__"]
    odd = [None, -1, 3.5, "0", [0], {"a": 1}, 1 << 80, True, "w", ["v"], [["w"]]]
    arrays = [
        {"w": np.ones(1, np.float32)}, {"w@GRAD": np.ones((1, 1), np.float32)}, {"w@GRAD@ROWS": np.zeros(1, np.int64)},
        {"w@GRAD@VALUES": np.ones(1, np.float32)}, {"rate": np.zeros(3, np.int64)}, {"": np.zeros(0, bool)},
    ]  # fmt: skip
    for _ in range(10_000):
        fields: Any = {"trainer": 0, "session": server.sessions[0], "sequence": 0, "pull": []}
        fields |= {name: chance.choice(odd) for name in fields if chance.random() < 0.5}
        asked = Asked(Message(chance.choice(kinds), fields, chance.choice(arrays)))
        server.server.handle(asked)
        assert len(asked.frames) == 1
    assert np.array_equal(server.w, [1.0]) and server.server.round == 0
    assert np.allclose(server.push(0, 0, 2.0).result.arrays["w"], 0.8)


def test_an_update_that_fails_applies_nothing_and_the_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    server = joined(trainers=1)

    def fail(parts: Any) -> None:
        raise ArithmeticError("made to fail")

    with monkeypatch.context() as patched:
        patched.setattr(server.server.values, "step", fail)
        with pytest.raises(PreconditionNotMet, match="step 0 could not be applied: made to fail"):
            _ = server.push(0, 0, 2.0).result
    assert np.allclose(server.push(0, 0, 4.0).result.arrays["w"], 0.6)  # and not what had failed


def test_a_program_whose_blocks_are_not_there_is_refused() -> None:
    main, startup = server_programs(ENDPOINT, 1, grad_to_block_id=["w@GRAD:7"])
    with warnings.catch_warnings(), pytest.raises(InvalidArgument, match=r"grad_to_block_id 'w@GRAD:7'"):
        Loopback(programs=(main, startup))


def test_gradients_that_a_server_has_are_named_in_order() -> None:
    duty = joined().server.duty
    (block,) = duty.blocks.values()
    several = replace(duty, blocks={"z@GRAD": block, "a@GRAD": block})
    with pytest.raises(InvalidArgument, match="those that do: a@GRAD, z@GRAD"):
        several.gradient_of("v@GRAD")
