"""`static.save` and `static.load` apply whole or not at all: files that do not fit, failures while saving, kills."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench.ops  # noqa: F401  (the op table)
from tests.checkpoint.test_program_files import Model, assert_same, refused
from workbench.checkpoint import atomic, objects
from workbench.checkpoint.files import read_tensors, write_tensors
from workbench.checkpoint.program_files import (
    load,
)
from workbench.optimizer import lr
from workbench.runtime.storage.scope import Scope, scope_guard

ROOT = Path(__file__).resolve().parent.parent.parent


# All or nothing


def test_loading_copies_into_the_storage_that_is_there(tmp_path: Path) -> None:
    model = Model().start()
    model.save(tmp_path / "m")
    saved = model.values()
    model.train(3)
    holders = {n: model.scope.get(n).tensor for n in saved}
    before = {n: (holder.array, holder.generation) for n, holder in holders.items()}
    model.load(tmp_path / "m")
    assert_same(model.values(), saved)
    for name, (array, generation) in before.items():
        assert holders[name].array is array and holders[name].generation == generation


def test_everything_that_does_not_fit_is_in_one_message(tmp_path: Path) -> None:
    Model(width=5).start().save(tmp_path / "wide")
    message = refused(Model().start(), tmp_path / "wide")
    assert "nothing was loaded" in message and "wide.wbparams" in message
    assert "'fc_0.w_0' has shape [4, 5] in the file, [4, 3] in the program" in message
    assert "'fc_1.w_0' has shape [5, 1] in the file, [3, 1] in the program" in message


def test_missing_and_unexpected_variables_are_listed_together(tmp_path: Path) -> None:
    model = Model().start()
    model.save(tmp_path / "m")
    tensors, metadata = read_tensors(tmp_path / "m.wbparams")
    tensors["fc_7.w_0"] = tensors.pop("fc_0.w_0")
    write_tensors(tmp_path / "m.wbparams", tensors, metadata)
    message = refused(model, tmp_path / "m")
    assert "missing in the file: 'fc_0.w_0'" in message
    assert "not in the program: 'fc_7.w_0'" in message


def test_other_dtypes_are_refused(tmp_path: Path) -> None:
    Model(dtype="float64").start().save(tmp_path / "m")
    message = refused(Model().start(), tmp_path / "m")
    assert "'fc_0.w_0' has dtype float64 in the file, float32 in the program" in message


@pytest.mark.parametrize(
    ("saved", "mine", "text"),
    [
        (lambda: 0.1, lambda: lr.StepDecay(0.1, 2), "has no schedule in the file, StepDecay in the program"),
        (
            lambda: lr.ExponentialDecay(0.1, 0.5),
            lambda: lr.StepDecay(0.1, 2),
            "has ExponentialDecay in the file",
        ),
        (
            lambda: lr.LinearWarmup(0.1, 2, 0.0, 0.1),
            lambda: lr.LinearWarmup(lr.StepDecay(0.1, 2), 2, 0.0, 0.1),
            "missing ['LinearWarmup_LR']",
        ),
    ],
)
def test_other_schedules_are_refused(tmp_path: Path, saved: Any, mine: Any, text: str) -> None:
    Model(saved()).start().save(tmp_path / "m")
    message = refused(Model(mine()).start(), tmp_path / "m")
    assert "the learning rate 'learning_rate_0'" in message and text in message


def test_a_damaged_file_changes_nothing(tmp_path: Path) -> None:
    model = Model().start()
    model.save(tmp_path / "m")
    path = tmp_path / "m.wbparams"
    path.write_bytes(path.read_bytes()[:-7])
    assert "is truncated" in refused(model, tmp_path / "m")


def test_an_interrupt_while_values_are_written_waits_for_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model().start()
    model.save(tmp_path / "m")
    saved = model.values()
    model.train(3)
    kind = type(model.scope.get("fc_0.w_0").tensor)
    take, calls = kind.take, []

    def interrupted(self: Any, new: Any) -> None:
        calls.append(1)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
        take(self, new)

    monkeypatch.setattr(kind, "take", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.load(tmp_path / "m")
    assert_same(model.values(), saved)
    assert model.main.lr_schedulers["learning_rate_0"].last_epoch == 0


# Failures while saving


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_a_full_disk_leaves_a_model_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """Each of the four fsyncs in turn: two files, and their folder after each."""
    model = Model().start()
    model.save(tmp_path / "m")
    old = model.values()
    model.train(1)
    new, calls, real = model.values(), [], os.fsync

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "fsync", fsync)
        with pytest.raises(OSError, match="No space left on device"):
            model.save(tmp_path / "m")
    other = Model()
    other.load(tmp_path / "m")
    assert_same(other.values(), new if failing == 4 else old)
    saved_ops = [op.type for op in objects.load(tmp_path / "m.wbmodel").all_ops()]
    assert saved_ops == [op.type for op in model.main.all_ops()]
    assert list(tmp_path.glob(f"{atomic.PREFIX}*")) == []


SAVER = """
import os, sys
import numpy as np
from workbench.checkpoint.program_files import save
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import global_scope

program = Program()
for i in range(40):
    program.global_block().create_var(name=f"v{i}", shape=[40, 50], dtype="float32", persistable=True)

for line in sys.stdin:
    version, pid = int(line), os.fork()
    while pid == 0:
        for i in range(40):
            global_scope().var(f"v{i}").set(np.full((40, 50), version, np.float32))
        save(program, sys.argv[1])
        os.write(1, b"saved %d\\n" % version)
        version += 1
    os.write(1, b"child %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"reaped 0\\n")
"""


def kill_once(saver: subprocess.Popen[str], start: int, delay: float) -> int:
    """Let a process save version after version from `start`, kill it, return the last one it reported."""
    assert saver.stdin and saver.stdout
    saver.stdin.write(f"{start}\n")
    saver.stdin.flush()
    saved = start - 1
    while True:
        word, number = saver.stdout.readline().split()
        if word == "saved":
            saved = int(number)
        if word == "child":
            time.sleep(delay)
            os.kill(int(number), signal.SIGKILL)
        if word == "reaped":
            return saved


def loaded_version(path: Path) -> int:
    program, scope = objects.load(f"{path}.wbmodel"), Scope()
    with scope_guard(scope):
        load(program, path)
    values = {float(v) for name in scope.local_var_names() for v in np.unique(scope.get(name).tensor.numpy())}
    assert len(scope.local_var_names()) == 40
    assert len(values) == 1, "the saved model is a mixture of versions"
    return int(values.pop())


def test_kill_at_random_moments_leaves_a_model_that_loads(tmp_path: Path) -> None:
    """100 kills of a process that does nothing but `static.save`."""
    generator, path, midway = random.Random(), tmp_path / "m", 0
    command = [sys.executable, "-c", SAVER, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as saver:
        delays = (0.3, 1.0, 3.0, 10.0)  # a busy machine gets more time for its first version
        version = next((v for v in (kill_once(saver, 1, delay) for delay in delays) if v > 0), 0)
        assert version > 0, "not one version was saved"
        for _ in range(100):
            reported = kill_once(saver, version + 1, generator.uniform(0, 0.03))
            version = loaded_version(path)
            assert version in (reported, reported + 1)
            midway += bool(list(tmp_path.glob(f"{atomic.PREFIX}*")))
        assert saver.stdin
        saver.stdin.close()
    assert midway >= 3, f"only {midway} of 100 kills hit a save in the middle"
