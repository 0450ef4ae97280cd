"""Rules T-5 … T-12 with real processes, as ranks of an MPI job and started by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.servers.job import RUNS, run_by_hand

pytestmark = pytest.mark.processes

SCRIPT = """
    for mode, steps in (0, 3), (2, 4):
        scope = static.Scope()
        executor = static.Executor()
        with static.scope_guard(scope):
            if role == "server":
                main, startup = server_programs(endpoints[0], trainers, mode=mode)
                executor.run(startup)
                executor.run(main)
                results[f"w{mode}"] = scope.find_var("w").get_tensor().array.tolist()
                continue
            main, startup = trainer_programs(endpoints[0], index, trainers, sync=mode == 0)
            executor.run(startup)
            results[f"begin{mode}"] = scope.find_var("w").get_tensor().array.tolist()
            feed = {"x": np.full(1, 2.0 * (index + 1), np.float32)}
            time.sleep(0.3 * index)  # one trainer is ahead of the other
            fetched = [executor.run(main, feed=feed, fetch_list=["w"])[0].tolist() for step in range(steps)]
            results[f"fetched{mode}"] = fetched
            results[f"held{mode}"] = scope.find_var("w").get_tensor().array.tolist()
            executor.close()  # the next server is at the same place, once the other trainer has left this one
"""


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_T5_T6_T7_T10_T11_two_trainers(run: Any) -> None:
    results = run(SCRIPT)
    for trainer in ("trainer0", "trainer1"):
        assert results[trainer]["begin0"] == [1.0]  # T-6: the server's value, not the trainer's own
        assert np.allclose(results[trainer]["fetched0"], [[0.7], [0.4], [0.1]])  # T-10: what was received in the step
        assert results[trainer]["held0"] == results[trainer]["fetched0"][-1]
        steps = np.ravel(results[trainer]["fetched2"])
        assert (np.diff(steps) < 0).all() and steps[0] < 1
    assert results["server0"]["w0"] == results["trainer0"]["held0"]  # T-11: it has ended by itself
    assert np.allclose(results["server0"]["w2"], 1 - 0.1 * 4 * (2 + 4))  # T-7: nothing is divided


def test_T11_one_synchronous_trainer_trains() -> None:
    assert np.allclose(run_by_hand(SCRIPT, trainers=1)["trainer0"]["fetched0"], [[0.8], [0.6], [0.4]])
