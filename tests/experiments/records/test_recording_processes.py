"""Several processes record in one file: at once, killed, forked, or held up by its file system."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.experiments.recorded import python
from workbench.experiments import runs

WRITER = """
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
recorder.PERIOD = 0.01
for number in range(4):
    run_of(Path({file!r}), 40, name={name!r}).wait(60)
"""


def test_several_processes_record_at_once(file: Path) -> None:
    writers = [python(WRITER.format(file=str(file), name=f"process {i}")) for i in range(3)]
    for writer in writers:
        _, told = writer.communicate(timeout=120)
        assert writer.returncode == 0, told
    recorded = runs(file)
    assert len(recorded) == 12 and all(r.state == "done" and len(r.scalars["loss"]) == 40 for r in recorded)
    assert {len(recorded.filter(name=f"process {i}")) for i in range(3)} == {4}


KILLED = """
import sys, time
from pathlib import Path
from tests.experiments.recorded import run_of
def told(run):
    time.sleep(0.005)
    print(run.step, time.time(), flush=True)
run_of(Path({file!r}), 10**9, on_step=told).wait(60)
"""


def test_a_crash_loses_no_more_than_the_last_second(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = python(KILLED.format(file=str(file)))
    assert killed.stdout is not None
    lines = [next(killed.stdout).split()]
    while float(lines[-1][1]) - float(lines[0][1]) < 2.5:
        lines.append(next(killed.stdout).split())
    killed.send_signal(signal.SIGKILL)
    rest, _ = killed.communicate(timeout=30)
    lines += [line.split() for line in rest.splitlines() if len(line.split()) == 2]
    end = float(lines[-1][1])
    safe = max(int(step) for step, at in lines if float(at) < end - 1.0)
    (recorded,) = runs(file)
    assert recorded.step >= safe and len(recorded.scalars["loss"]) >= safe and recorded.state == "running"
    monkeypatch.setattr("workbench.experiments.records.recorded_run.LOST_S", 0.0)
    assert runs(file)[1].state == "lost"


GONE = """
import threading, time, warnings
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
from workbench.experiments import runs
from workbench.experiments.records.runs_file import Entry, Happening, RunProgress, RunsFile
from workbench.experiments.records.surroundings import surroundings
recorder.PERIOD, recorder.LAST_TRY = 0.02, 0.3
add = RunsFile.add
def hang(self, *arguments, **options):
    if "gone" in str(self.path):
        threading.Event().wait()  # as a file system does that answers no more
    add(self, *arguments, **options)
RunsFile.add = hang
folder = Path({folder!r})
run = run_of(folder / "gone.sqlite", 3).wait(20)
assert run.state == "done", run
recorder.LAST_TRY = 30.0
other = run_of(folder / "there.sqlite", 3).wait(60)
assert runs(folder / "there.sqlite")[1].state == "done"
recorder.LAST_TRY = 0.3
print("ended")
"""


def test_a_file_system_that_answers_no_more_holds_nobody_up(tmp_path: Path) -> None:
    process = python(GONE.format(folder=str(tmp_path)))
    out, told = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "ended\n", told
    assert "gone.sqlite" in told and "cannot be recorded" in told


FORKED = """
import os, sys, time
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
from workbench.experiments import runs
file = Path({file!r})
run = run_of(file, 10**9, on_step=lambda run: time.sleep(0.001))
while not run.step:
    time.sleep(0.01)
child = os.fork()
if not child:
    assert recorder.record_of(run) is None and not recorder._writers
    sys.exit(0)
_, status = os.waitpid(child, 0)
run.stop()
run.wait(30)
assert status == 0 and len(runs(file)) == 1 and runs(file)[1].step == run.step
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_leaves_its_parents_runs_alone(file: Path) -> None:
    process = python(FORKED.format(file=str(file)))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told


FORKED_IN_A_TRANSACTION = """
import os, sys, threading
from workbench.experiments.records.runs_file import RunsFile

file, begun = RunsFile({file!r}), threading.Event()
file.begin("of the parent", None, {{}})

def write():
    with file._writing() as db:
        db.execute("UPDATE runs SET notes='half'")
        begun.set()
        threading.Event().wait(0.3)

thread = threading.Thread(target=write)
thread.start()
assert begun.wait(30)
child = os.fork()
if not child:
    file.begin("of the child", None, {{}})
    sys.exit(0)
_, status = os.waitpid(child, 0)
thread.join()
assert status == 0 and [(row["name"], row["notes"]) for row in file.rows()] == [
    ("of the parent", "half"), ("of the child", "")]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_in_a_transaction_uses_the_file(file: Path) -> None:
    process = python(FORKED_IN_A_TRANSACTION.format(file=str(file)))
    _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told


KILLED_AT_ONCE = """
import os, signal, time
from pathlib import Path
from tests.experiments.recorded import run_of
from workbench.experiments.records import recorder
recorder.surroundings = lambda: time.sleep(60)  # git takes its time
run_of(Path({file!r}), 10**9)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_whose_process_dies_at_once_is_in_the_file(file: Path) -> None:
    killed = python(KILLED_AT_ONCE.format(file=str(file)))
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (recorded,) = runs(file)
    assert recorded.state == "running" and recorded.steps == 10**9
