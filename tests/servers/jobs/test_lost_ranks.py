"""A rank of a job with servers is killed: under `workbench launch`, by SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.servers.job import free_endpoints, launched, results_in
from workbench.parallel.launch import starter
from workbench.parallel.launch.rank import run_in_job
from workbench.parallel.launch.room import SETTING
from workbench.parallel.launch.variables import ServerRoles

pytestmark = pytest.mark.processes

_SERVE = """
    import signal
    folder = os.environ["RESULTS"]
    def until(name):
        while not os.path.exists(folder + "/" + name):
            time.sleep(0.01)
    def die():
        os.kill(os.getpid(), signal.SIGKILL)
    if role == "server":
        main, startup = server_programs(endpoints[0], trainers, mode={mode}, shape=(50_000,))
        executor.run(startup)
        {server}
        executor.run(main)
        results["w"] = static.global_scope().find_var("w").get_tensor().array[:3].tolist()
    else:
        main, startup = trainer_programs(endpoints[0], index, trainers, sync={mode} == 0, shape=(50_000,))
        executor.run(startup)
        feed = {{"x": np.full(50_000, 2.0 * (index + 1), np.float32)}}
        step = lambda: executor.run(main, feed=feed, fetch_list=["w"])[0][:3].tolist()
"""
_LATER = "import threading; threading.Thread(target=lambda: (until('stepped0'), until('stepped1'), die())).start()"
_ASYNC = (
    _SERVE.format(mode=2, server="pass")
    + """
        step()
        if index == 1:
            open(folder + "/pushed", "w").close()
            die()
        until("pushed")
        results["fetched"] = [step() for _ in range(3)]
        executor.close()
"""
)


def test_a_killed_asynchronous_trainer_is_told_of_and_the_others_train_to_the_end(tmp_path: Path) -> None:
    with launched(tmp_path, _ASYNC) as job:
        said = job.communicate(timeout=80)[0]
    results = results_in(tmp_path)
    assert job.returncode == 1, said
    assert "process 1, trainer 1, was killed: the others go on" in said
    assert "process 1 failed first: trainer 1 was killed" in said
    assert np.allclose(results["server0"]["w"], 1 - 0.1 * (4 + 4 * 2)) and results["trainer0"]["fetched"]
    assert "ends: trainers 1 are gone, and the others have left" in said


_SYNC = (
    _SERVE.format(mode=0, server="pass")
    + """
        step()
        if index == 1:
            die()
        try:
            step()
        except PeerFailed as error:
            results["error"] = str(error)
        executor.close()
"""
)


def test_of_a_killed_synchronous_trainer_the_others_are_told_at_once(tmp_path: Path) -> None:
    with launched(tmp_path, _SYNC) as job:
        said = job.communicate(timeout=80)[0]
    assert job.returncode == 1 and "process 1 failed first: trainer 1 was killed" in said, said
    assert "step 1: trainer 1 is gone" in results_in(tmp_path)["trainer0"]["error"]


_REJOINED = (
    _SERVE.format(mode=0, server="pass")
    + """
        again = os.environ["WORKBENCH_STARTS"] != "0"
        results["steps"] = [step() for _ in range(2 + (not again))] if index == 0 or again else [step()]
        if index == 1 and not again:
            die()
        executor.close()
"""
)


def test_a_killed_trainer_is_started_again_where_no_mpi_counts_processes(tmp_path: Path) -> None:
    options = ["--max_restart", "1", "--servers", *free_endpoints(1)]
    with launched(tmp_path, _REJOINED, limit=90.0, options=options) as job:
        said = job.communicate(timeout=100)[0]
    results = results_in(tmp_path)
    assert job.returncode == 0 and "trainer 1, was killed: it is started again (0 restarts left)" in said, said
    assert np.allclose(results["trainer0"]["steps"], np.repeat([[0.7], [0.4], [0.1]], 3, 1))
    assert np.allclose(results["trainer1"]["steps"], np.repeat([[0.4], [0.1]], 3, 1))  # of the one that came again
    assert np.allclose(results["server0"]["w"], 0.1)


_STAYING = """
    step()
    open(folder + "/stepped", "w").close()
    time.sleep(50)
"""
_DIES = "import threading; threading.Thread(target=lambda: (until('stepped'), die()), daemon=True).start()"


@pytest.mark.parametrize("server", ["pass", _DIES], ids=["ended", "server lost"])
def test_nothing_is_started_again_beside_a_lost_server_and_in_a_job_that_is_to_end(tmp_path: Path, server: str) -> None:
    script = _SERVE.format(mode=2, server=server) + textwrap.indent(_STAYING, "    ")
    options = ["--max_restart", "3", "--servers", *free_endpoints(1)]
    with launched(tmp_path, script, trainers=1, options=options) as job:
        if server == "pass":
            while not (tmp_path / "stepped").exists():
                time.sleep(0.05)
            job.send_signal(signal.SIGTERM)
        said = job.communicate(timeout=60)[0]
    assert "started again" not in said
    if server == "pass":
        assert job.returncode == 128 + signal.SIGTERM, said
    else:
        assert job.returncode == 128 + signal.SIGKILL and "process 1 failed first: server 0 was killed" in said, said


_RESTARTED = (
    _SERVE.format(mode=0, server="if 'AGAIN' not in os.environ: " + _LATER)
    + """
        for number in range(4):
            results["w"] = step()
            if number == 1 and "AGAIN" not in os.environ:
                open(f"{folder}/stepped{index}", "w").close()
                while True:  # until the server is killed
                    step()
        executor.close()
"""
)


def test_a_killed_server_ends_the_job_which_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    kept = {"FLAGS_server_checkpoint": str(tmp_path / "kept"), "FLAGS_server_checkpoint_every": "1"}
    with launched(tmp_path, _RESTARTED, **kept) as job:
        said = job.communicate(timeout=80)[0]
    assert job.returncode not in (0, None), said
    assert "server 0 was killed" in said or "is lost: its process is gone" in said
    assert len(list((tmp_path / "kept").glob("*.safetensors"))) == 1
    with launched(tmp_path, _RESTARTED, AGAIN="1", **kept) as job:
        said = job.communicate(timeout=80)[0]
    assert job.returncode == 0, said
    steps = round((1 - results_in(tmp_path)["trainer0"]["w"][0]) / 0.3)
    assert steps >= 6  # two at least were answered before it was killed, four after


def _started(room: Path, script: str, trainers: int, servers: int) -> int:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    try:
        return starter.Starter(room, ["sh", "-c", script], ServerRoles(trainers, servers), restarts=2).run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_trainer_that_breaks_down_after_its_end_is_not_started_again(tmp_path: Path) -> None:
    """As where a library fails while its interpreter goes: what it trained has been applied."""
    script = f"echo started >> {tmp_path}/starts; touch {tmp_path}/ended.0; kill -SEGV $$"
    assert _started(tmp_path, script, 1, 0) == 128 + signal.SIGSEGV
    assert (tmp_path / "starts").read_text().split() == ["started"]


def test_who_does_not_end_when_asked_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "GRACE", 0.5)
    script = (
        'trap "" TERM; [ "$WORKBENCH_RANK" = 0 ] && exit 3; n=0; while [ $n -lt 300 ]; do sleep 0.1; n=$((n+1)); done'
    )
    begin = time.monotonic()
    assert _started(tmp_path, script, 1, 1) == 3 and time.monotonic() - begin < 20


def test_who_is_just_being_started_when_all_are_to_end_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class AskedMeanwhile(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            started.append(self.pid)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(starter, "GRACE", 100.0)
    monkeypatch.setattr(subprocess, "Popen", AskedMeanwhile)
    script = f"n=0; while [ $n -lt 100 ]; do sleep 0.1; n=$((n+1)); done; touch {tmp_path}/came_to_its_end"
    assert _started(tmp_path, script, 1, 1) == 128 + signal.SIGTERM
    assert len(started) == 1 and not (tmp_path / "came_to_its_end").exists()


def test_who_comes_when_its_job_is_over_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, json.dumps({"room": str(tmp_path / "gone"), "host": socket.gethostname()}))
    monkeypatch.setenv(starter.RANK, "1")
    with pytest.raises(SystemExit, match="process 1 does not begin"):
        run_in_job(lambda door: pytest.fail("it has begun"))
