"""Programs over trainers: the same bits as in one process, and what their steps share."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes.programs import CASES, Mode
from tests.processes.ranks import ROOT, environment, run_ranks
from tests.processes.trainer_steps import STEPS

pytestmark = pytest.mark.processes

_TRAIN = """
    import sys
    from pathlib import Path
    from tests.processes.programs import main

    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
"""


@pytest.mark.parametrize(("trainers", "devices", "nodes"), [(2, 1, ""), (2, 2, ""), (3, 1, "0,1,0")])
def test_trainers_compute_the_bits_of_as_many_devices_in_one_process(
    trainers: int, devices: int, nodes: str, tmp_path: Path
) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    alone.mkdir()
    together.mkdir()
    command = [sys.executable, "-m", "tests.processes.programs", "1", str(trainers * devices), str(alone)]
    subprocess.run(command, cwd=ROOT, env=environment(), check=True, timeout=120)
    arguments = str(trainers), str(devices), str(together)
    job = run_ranks(_TRAIN, trainers, timeout=120, args=arguments, FLAGS_nodes_of_ranks=nodes)
    assert job.code == 0, str(job)
    for name, mode in itertools.product(CASES, Mode):
        one = np.load(alone / f"{name} {mode.name} 0.npz")
        many = [np.load(together / f"{name} {mode.name} {trainer}.npz") for trainer in range(trainers)]
        assert len(one.files) > 5
        for key in one.files:
            where = name, mode.name, key
            if key.startswith("loss"):
                assert np.array_equal(one[key], np.concatenate([rank[key] for rank in many])), where
            elif name == "normed" and key in ("batch_norm_0.w_1", "batch_norm_0.w_2"):
                assert one[key].tobytes() == many[0][key].tobytes(), where  # every device has statistics of its own
            else:
                assert {rank[key].tobytes() for rank in many} == {one[key].tobytes()}, where


def test_a_step_of_trainers_needs_no_python_between_its_ops_or_for_the_vote() -> None:
    job = run_ranks(
        STEPS
        + """
    from workbench.runtime.comm.mpi.exchange.channel import Channel
    from workbench.runtime.comm.mpi.exchange.vote import Ballot

    calls = []
    for owner, name in ((Channel, "start"), (Channel, "exchange"), (Channel, "until"), (Ballot, "agree")):
        own = getattr(owner, name)
        setattr(owner, name, lambda *args, own=own, name=name: (calls.append(name), own(*args))[1])
    counts = []
    for number in range(60):
        calls.clear()
        step()
        counts.append(len(calls))
    assert counts[0] > 0 and min(counts) == 0, counts  # who comes late is waited for in Python
    print("done")
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_a_step_by_hand_is_refused_at_once_and_says_what_makes_the_same() -> None:
    """Of one trainer alone, before the first step, too: it does not wait for the others."""
    job = run_ranks(
        STEPS
        + """
    for again in range(2):
        if rank == 1:
            for by_hand in (executor.stepper, executor.find_nan):
                try:
                    by_hand(feed())
                except Unimplemented as error:
                    print("CPU_NUM=2" in str(error))
        step()
    print(executor.inspection.steps)
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["2\n", "True\n" * 4 + "2\n"], str(job)


def test_gradients_that_travel_together_are_one_array_whatever_reads_them() -> None:
    job = run_ranks(
        """
    import os
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.runtime.comm.mpi.world import world

    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
    rank, size = world().rank, world().size
    decay = wb.ParamAttr(regularizer=wb.regularizer.L2Decay(0.1))

    def layers(x, bias):
        for _ in range(12):  # by name the eleventh comes before the second
            x = static.nn.fc(x, 5, bias_attr=bias, activation="tanh")
        return x

    def is_one_call(bias, optimizer):
        main, startup, scope = static.Program(), static.Program(), static.Scope()
        with wb.utils.unique_name.guard(), static.program_guard(main, startup):
            x, y = static.data("x", [None, 4]), static.data("y", [None, 1], "int64")
            loss = wb.mean(wb.nn.functional.cross_entropy(layers(x, bias), y))
            optimizer.minimize(loss)
        static.Executor().run(startup, scope=scope)
        build = static.BuildStrategy()
        build.num_trainers, build.trainer_id = size, rank
        executor = static.ParallelExecutor(False, loss.name, main, build_strategy=build, scope=scope)
        for _ in range(2):
            executor.run([loss], feed={"x": np.ones((3, 4), "float32"), "y": np.array([[0], [2], [1]])})
        return executor.inspection.last_step.whole is not None

    print(is_one_call(None, wb.optimizer.SGD(0.1)))
    print(is_one_call(decay, wb.optimizer.Momentum(0.1)))  # not all parameters are updated alike
    print(is_one_call(None, wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(0.1))))
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["True\n" * 3] * 2, str(job)


def test_trainers_of_one_machine_share_its_processors() -> None:
    job = run_ranks(
        """
    import os
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.runtime.comm.mpi.world import world
    from workbench.runtime.devices import processors

    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
    x = static.data("x", [None, 512])
    loss = wb.mean(static.nn.fc(static.nn.fc(x, 1024), 1024))
    wb.optimizer.SGD(0.01).minimize(loss)
    static.Executor().run(static.default_startup_program())
    build = static.BuildStrategy()
    build.num_trainers, build.trainer_id = world().size, world().rank
    executor = static.ParallelExecutor(False, loss.name, build_strategy=build)
    executor.run([loss], feed={"x": np.ones((256, 512), "float32")})
    plan, most = executor.inspection.last.plan, max(1, processors() // 2)
    print(plan.shares.threads <= most and plan.schedule.threads <= most)
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["True\n"] * 2, str(job)


def test_what_an_executor_shared_with_other_trainers_is_used_again_when_it_is_gone() -> None:
    """Also if its last step has failed, on one of them or on the other."""
    job = run_ranks(
        STEPS
        + """
    import gc

    step()
    counts = []
    for number in range(8):
        executor = static.ParallelExecutor(False, loss_name=loss.name, build_strategy=build)
        for bad in [None, number % 3]:
            try:
                step(7 if bad == rank else 2)
            except EnforceNotMet:
                assert bad in (0, 1)
        del executor
        gc.collect()
        counts.append(mapped())
    print(counts[0] > 0 and counts == counts[:1] * 8, counts)
    """,
        2,
    )
    assert job.code == 0 and all(output.startswith("True") for output in job.outputs), str(job)


def test_shares_of_the_batch_follow_the_rows_of_the_other_trainers() -> None:
    """The first trainer's own rows are as many in every step: what changes is how many there are in all."""
    job = run_ranks(
        """
    import os
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.runtime.comm.mpi.world import world

    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
    rank, size = world().rank, world().size
    x = static.data("x", [None, 2])
    w = static.create_parameter([2, 1], "float32", "w", default_initializer=wb.nn.initializer.Constant(1.0))
    loss = wb.mean(wb.matmul(x, w))
    wb.optimizer.SGD(0.5).minimize(loss)
    static.Executor().run(static.default_startup_program())
    build = static.BuildStrategy()
    build.num_trainers, build.trainer_id = size, rank
    build.gradient_scale_strategy = static.BuildStrategy.GradientScaleStrategy.WeightedBySamples
    executor = static.ParallelExecutor(False, loss_name=loss.name, build_strategy=build)
    expected = np.ones((2, 1))
    for number, others in enumerate([3, 6, 3, 1, 6, 6, 1]):
        batches = [np.arange(2.0 * rows).reshape(rows, 2) + number + 7 * i for i, rows in enumerate([3, others])]
        executor.run([loss], feed={"x": batches[rank].astype("float32")})
        expected -= 0.5 * np.concatenate(batches).mean(axis=0)[:, None]  # of the mean over all rows there are
        got = np.array(static.global_scope().find_var("w").get_tensor())
        print(number, np.allclose(got, expected, rtol=1e-5))
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["".join(f"{n} True\n" for n in range(7))] * 2, str(job)
