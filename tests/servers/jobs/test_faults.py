"""What is lost, comes again or makes no sense: nobody waits without an end, and nothing is applied twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.servers.job import Job

pytestmark = pytest.mark.processes

_SERVE = """
    if role == "server":
        main, startup = server_programs(endpoints[0], trainers, mode={mode})
        executor.run(startup)
        executor.run(main)
        results["w"] = static.global_scope().find_var("w").get_tensor().array.tolist()
        raised = None
    else:
        main, startup = trainer_programs(endpoints[0], index, trainers, sync={mode} == 0)
        executor.run(startup)
        feed = {{"x": np.full(1, 2.0 * (index + 1), np.float32)}}
        folder = os.environ["RESULTS"]
"""
_ASYNC = (
    _SERVE.format(mode=2)
    + """
        if index == 1 and "AGAIN" not in os.environ:
            executor.run(main, feed=feed)
            open(folder + "/pushed", "w").close()
            time.sleep(60)                                    # killed here
        while not os.path.exists(folder + "/killed"):
            time.sleep(0.01)
        results["fetched"] = [executor.run(main, feed=feed, fetch_list=["w"])[0].tolist() for _ in range(3)]
        executor.close()
"""
)


def test_a_lost_trainer_does_not_block_the_others_and_comes_again() -> None:
    with Job(_ASYNC) as job:
        job.start_all()
        job.until("pushed")
        job.kill("trainer1")
        (job.folder / "killed").touch()
        job.wait("trainer0")  # trainer 1 is gone
        job.start("trainer", 1, "again", AGAIN="1")
        job.wait("again")
        job.wait("server0")
        results = job.results()
    assert np.allclose(results["server0"]["w"], 1 - 0.1 * (4 + 3 * 2 + 3 * 4))


_SYNC = (
    _SERVE.format(mode=0)
    + """
        executor.run(main, feed=feed)
        open(f"{folder}/stepped{index}", "w").close()
        if index == 1:
            time.sleep(60)                                    # killed here
        while not os.path.exists(folder + "/killed"):
            time.sleep(0.01)
        try:
            executor.run(main, feed=feed)
        except PeerFailed as error:
            results["error"], results["ranks"] = str(error), list(error.ranks)
        results["held"] = static.global_scope().find_var("w").get_tensor().array.tolist()
        executor.close()
"""
)


def test_of_a_lost_synchronous_trainer_the_others_are_told_within_the_deadline() -> None:
    with Job(_SYNC, FLAGS_rpc_deadline="1500") as job:
        job.start_all()
        job.until("stepped0")
        job.until("stepped1")
        job.kill("trainer1")
        (job.folder / "killed").touch()
        job.wait("trainer0")
        said = job.wait("server0")
        results = job.results()
    assert "step 1: trainer 1 did not push within 1.5 s" in results["trainer0"]["error"]
    assert np.allclose(results["trainer0"]["held"], 0.7)  # the step was not applied, there or here
    assert np.allclose(results["server0"]["w"], 0.7)
    assert "trainers 1 were not heard of" in said


_RESTARTED = (
    _SERVE.format(mode=0)
    + """
        steps = 0
        try:
            while steps < 4:
                results["w"] = executor.run(main, feed=feed, fetch_list=["w"])[0].tolist()
                steps += 1
                if steps == 2 and "AGAIN" not in os.environ:
                    open(f"{folder}/stepped{index}", "w").close()
                    while not os.path.exists(folder + "/killed"):
                        time.sleep(0.01)
        except PeerFailed as error:
            results["error"] = str(error)
        executor.close()
"""
)


def test_a_lost_server_is_named_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    kept = {"FLAGS_server_checkpoint": str(tmp_path), "FLAGS_server_checkpoint_every": "1"}
    with Job(_RESTARTED, **kept) as job:
        job.start_all()
        job.until("stepped0")
        job.until("stepped1")
        job.kill("server0")
        (job.folder / "killed").touch()
        for name in ("trainer0", "trainer1"):
            job.wait(name)
        lost = job.results()
        job.start("server", 0, "server again")
        for index in (0, 1):
            job.start("trainer", index, f"again{index}", AGAIN="1")
        for name in ("again0", "again1", "server again"):
            job.wait(name)
        results = job.results()
        endpoint = job.endpoints[0]
    for name in ("trainer0", "trainer1"):
        assert f"server {endpoint} is lost" in lost[name]["error"] and np.allclose(lost[name]["w"], 0.4)
        assert np.allclose(results[name]["w"], 1 - 0.3 * (2 + 4))  # two steps before, four after
    assert results["server0"]["w"] == results["trainer0"]["w"]


_EIGHT = (
    _SERVE.format(mode=0)
    + """
        results["fetched"] = [executor.run(main, feed=feed, fetch_list=["w"])[0].tolist() for _ in range(3)]
        executor.close()
"""
)


@pytest.mark.slow
def test_a_server_serves_eight_trainers() -> None:
    with Job(_EIGHT, trainers=8, limit=120) as job:
        job.start_all()
        results = job.wait_all()
    mean = np.mean([2.0 * (index + 1) for index in range(8)])
    for index in range(8):
        assert np.allclose(np.ravel(results[f"trainer{index}"]["fetched"]), 1 - 0.1 * mean * np.arange(1, 4), atol=1e-5)
