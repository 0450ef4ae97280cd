"""Programs over trainers: the same bits as in one process, and a step that is applied by all or by none."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes.programs import CASES, Mode
from tests.processes.ranks import ROOT, environment, run_ranks
from workbench import static
from workbench.errors import PreconditionNotMet

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


_STEPS = """
    import os, signal, sys, time
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.errors import *
    from workbench.runtime.comm.mpi.world import world

    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
    rank, size = world().rank, world().size
    x, y = static.data("x", [None, 4]), static.data("y", [None, 1], "int64")
    loss = wb.mean(wb.nn.functional.cross_entropy(static.nn.fc(x, 3), y))
    wb.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    build = static.BuildStrategy()
    build.num_trainers, build.trainer_id = size, rank
    executor = static.ParallelExecutor(False, loss_name=loss.name, build_strategy=build)
    weights = [v.name for v in static.default_main_program().list_vars() if v.persistable]

    def held():
        return b"".join(np.array(static.global_scope().find_var(name).get_tensor()).tobytes() for name in weights)

    def feed(label=2):
        return {"x": np.ones((3, 4), "float32") + rank, "y": np.array([[0], [label], [1]])}

    def step(label=2):
        return executor.run([loss], feed=feed(label))
"""


def test_a_step_of_trainers_needs_no_python_between_its_ops_or_for_the_vote() -> None:
    job = run_ranks(
        _STEPS
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
        _STEPS
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


def test_gradients_that_lie_in_another_order_on_one_trainer_are_refused() -> None:
    job = run_ranks(
        """
    import os
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.errors import PeerFailed, PreconditionNotMet
    from workbench.executors.planning import plan
    from workbench.runtime.comm.mpi.world import world

    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
    rank, together = world().rank, plan._summed_together
    if rank == 1:
        plan._summed_together = lambda graph: [values[::-1] for values in together(graph)]
    x = static.data("x", [None, 4])
    loss = wb.mean(static.nn.fc(x, 4, weight_attr="w", bias_attr="b"))
    wb.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    build = static.BuildStrategy()
    build.num_trainers, build.trainer_id, build.fuse_all_optimizer_ops = 2, rank, False
    executor = static.ParallelExecutor(False, loss.name, build_strategy=build)
    try:
        executor.run([loss], feed={"x": np.ones((2, 4), "float32")})
        raise SystemExit("gradients of other parameters were added")
    except (PreconditionNotMet, PeerFailed) as error:
        assert "order b@GRAD, w@GRAD" in str(error) and "order w@GRAD, b@GRAD" in str(error), str(error)
    print("done")
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


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
        _STEPS
        + """
    import gc

    def mapped():
        with open("/proc/self/maps") as maps:
            return sum("/dev/shm" in line or "sm_segment" in line or "osc" in line for line in maps)

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


def test_the_error_of_one_trainer_discards_the_step_on_all() -> None:
    job = run_ranks(
        _STEPS
        + """
    for number in range(8):
        before, culprit = held(), {2: 0, 4: 1, 5: 2}.get(number)
        try:
            step(7 if culprit == rank else 2)
            assert culprit is None and held() != before
        except EnforceNotMet as error:
            assert culprit is not None and held() == before, error
            text = str(error)
            assert "softmax_with_cross_entropy" in text and "label 7" in text and "script.py, line" in text, text
            if rank != culprit:
                assert type(error) is PeerFailed and error.ranks == (culprit,), repr(error)
                assert f"was given up: rank {culprit} failed: InvalidArgument" in text, text
            else:
                assert type(error) is InvalidArgument
    print(executor.inspection.steps, held().hex())
    """,
        3,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("5 "), str(job)


def test_a_nan_on_one_trainer_and_an_interrupted_one_discard_the_step_on_all() -> None:
    """What fails behind the last collective is found by the vote."""
    job = run_ranks(
        _STEPS
        + """
    def refuse(take):
        raise ValueError("a NaN in the loss")

    executor.inspection.guard(refuse)
    for number in range(4):
        before, given = held(), feed()
        if number == 1 and rank == 1:
            given["x"][0, 0] = np.nan
        try:
            executor.run([loss], feed=given)
            assert number != 1 and held() != before
        except (ValueError, PeerFailed) as error:
            assert number == 1 and held() == before and "NaN" in str(error), (number, error)

    # Ctrl-C while this trainer waits for another one
    before = held()
    if rank == 1:
        import threading
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            step()
            raise SystemExit("not interrupted")
        except KeyboardInterrupt:
            pass
    else:
        time.sleep(1.0)
        try:
            step()
            raise SystemExit("the others were not told")
        except PeerFailed as error:
            assert "rank 1 failed: KeyboardInterrupt" in str(error)
    assert held() == before
    step()
    print(executor.inspection.steps, held().hex())
    """,
        2,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("4 "), str(job)


def test_a_trainer_that_does_not_come_is_named_with_the_op_that_waits() -> None:
    job = run_ranks(
        _STEPS.replace("executor = static", "strategy = static.ExecutionStrategy()\n    executor = static").replace(
            "build_strategy=build)", "build_strategy=build, exec_strategy=strategy)\n    strategy.timeout = 1.0"
        )
        + """
    step()
    before = held()
    try:
        if rank == 1:
            time.sleep(2.5)
        step()
        raise SystemExit("the step was applied")
    except PeerTimeout as error:
        assert rank == 0 and error.ranks == (1,), error
        text = str(error)
    except PeerFailed as error:
        assert rank == 1 and error.ranks == (0,), error
        text = str(error)
        assert "rank 0 failed: PeerTimeout" in text
    assert "all_reduce of 'fc_0.b_0@GRAD'" in text and "waiting for rank 1" in text
    assert "at op 'fused_all_reduce', built at" in text and "script.py, line" in text, text
    assert held() == before
    step()
    print(executor.inspection.steps, held().hex())
    """,
        2,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("2 "), str(job)


@pytest.mark.parametrize("how", ["met", "strangers"])
def test_the_first_step_of_trainers_waits_as_long_as_any_other(how: str, tmp_path: Path) -> None:
    """Also where they have not met before; both come back, and go on together."""
    job = run_ranks(
        _STEPS.replace(
            "rank, size = world().rank, world().size", "rank, size = int(os.environ['OMPI_COMM_WORLD_RANK']), 2"
        )
        .replace("executor = static", "strategy = static.ExecutionStrategy()\n    executor = static")
        .replace("build_strategy=build)", "build_strategy=build, exec_strategy=strategy)\n    strategy.timeout = 1.0")
        + """
    from pathlib import Path
    from mpi4py import MPI  # MPI itself begins on all of them together

    met = Path(sys.argv[1]) / "met"
    if sys.argv[2] == "met":
        world()
    if rank == 0:
        begun = time.monotonic()
        try:
            step()
            raise SystemExit("trained alone")
        except (PeerTimeout, Unavailable) as error:
            assert "rank 1" in str(error) and time.monotonic() - begun < 20, error
        met.touch()
    while not met.exists():
        time.sleep(0.01)
    strategy.timeout = 60.0
    step()
    print(executor.inspection.steps, held().hex())
    """,
        2,
        args=(str(tmp_path), how),
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1 and job.outputs[0].startswith("1 "), str(job)


@pytest.mark.parametrize("nodes", ["", "0,1"], ids=["one machine", "two machines"])
def test_a_storm_of_interrupts_leaves_all_trainers_with_the_same_number_of_steps(nodes: str) -> None:
    job = run_ranks(
        _STEPS
        + """
    step()
    rng, parent = np.random.default_rng(rank), os.getpid()
    applied, until = 1, time.monotonic() + 3.0
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    stop = False
    while not stop:
        try:
            signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-5, 0.03)))
            step()
        except (KeyboardInterrupt, Aborted):  # who wanted to leave a vote that went on makes all leave the next step
            pass
        finally:
            while True:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    break
                except KeyboardInterrupt:
                    pass
        flags = world().all_reduce(np.array([time.monotonic() > until, 0]).astype("int64"), op="max").wait()
        stop = bool(flags[0])
        counts = world().all_gather(np.array(executor.inspection.steps)).wait()
        assert len(set(counts.tolist())) == 1, counts
    print(executor.inspection.steps, held().hex())
    """,
        2,
        FLAGS_nodes_of_ranks=nodes,
    )
    assert job.code == 0, str(job)
    assert len(set(job.outputs)) == 1, str(job)


def test_parameters_that_were_changed_on_one_trainer_are_noticed() -> None:
    job = run_ranks(
        _STEPS.replace("static.nn.fc(x, 3)", "static.nn.fc(static.nn.batch_norm(x), 3)")
        + """
    for number in range(20):
        step()
    weight = next(name for name in weights if name.startswith("fc") and ".w_" in name)
    tensor = static.global_scope().find_var(weight).get_tensor()
    before = np.array(tensor)
    if rank == 1:
        tensor.set(before + 1, wb.CPUPlace())
    for number in range(12):
        step()
    for attempt in range(2):
        try:
            step()
            raise SystemExit("went on with different parameters")
        except PreconditionNotMet as error:
            assert f"rank 1 holds another {weight!r} than rank 0 before step 32" in str(error), str(error)
    tensor.set(before, wb.CPUPlace())
    step()
    print(executor.inspection.steps)
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["33\n"] * 2, str(job)


def test_checkpoints_of_a_run_of_several_trainers_are_written_by_all_of_them(tmp_path: Path) -> None:
    job = run_ranks(
        _STEPS
        + """
    from pathlib import Path
    folder = sys.argv[1]

    def train(steps, **more):
        batches = [feed() for number in range(3)]
        run = wb.train(
            static.default_main_program(), batches, steps=steps, executor=executor, progress=False, record=False, **more
        )
        run.wait()
        return run, held()

    kept = wb.ModelCheckpoint(folder, save_top_k=2, every_n_train_steps=1)
    run, _ = train(5, checkpoints=kept)
    world().barrier().wait()
    paths = [Path(path) for _, path in run.checkpoints]
    assert len(paths) == 3 and all(path.is_dir() for path in paths), run.checkpoints
    assert sorted(part.name for part in paths[0].glob("save-*/*")) == ["part-0.tensors", "part-1.tensors"]
    assert len(os.listdir(folder)) == 3, os.listdir(folder)
    straight = train(2)[1]
    assert train(7, checkpoint=Path(folder) / "last.checkpoint")[1] == straight
    print(straight.hex())
    """,
        2,
        args=(str(tmp_path),),
    )
    assert job.code == 0 and len(set(job.outputs)) == 1, str(job)


def test_trainers_with_different_programs_are_refused_with_the_first_line_that_differs() -> None:
    job = run_ranks(
        """
    import os
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.errors import InvalidArgument
    from workbench.runtime.comm.mpi.world import world

    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
    x = static.data("x", [None, 4])
    hidden = static.nn.fc(x, 3)
    loss = wb.mean(wb.tanh(hidden) if world().rank == 1 else wb.nn.functional.sigmoid(hidden))
    wb.optimizer.SGD(0.1).minimize(loss)
    static.Executor().run(static.default_startup_program())
    build = static.BuildStrategy()
    build.num_trainers, build.trainer_id = 2, world().rank
    executor = static.ParallelExecutor(False, loss_name=loss.name, build_strategy=build)
    try:
        executor.run([loss], feed={"x": np.ones((2, 4), "float32")})
        raise SystemExit("different programs ran")
    except InvalidArgument as error:
        assert "rank 0: " in str(error) and "sigmoid" in str(error) and "tanh" in str(error), str(error)
    build = static.BuildStrategy()
    build.num_trainers, build.trainer_id = 2, 1 - world().rank
    try:
        static.ParallelExecutor(False, loss_name=loss.name, build_strategy=build).run(
            [loss], feed={"x": np.ones((2, 4), "float32")}
        )
        raise SystemExit("another rank than there is")
    except InvalidArgument as error:
        assert f"trainer_id={world().rank}" in str(error) and f"trainer_id={1 - world().rank}" in str(error)
    print("done")
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_trainers_that_were_not_started_together_are_told_how() -> None:
    build = static.BuildStrategy()
    build.num_trainers = 2
    with pytest.raises(PreconditionNotMet, match=r"workbench launch -n 2 train.py, or mpiexec -n 2 python -m mpi4py"):
        build.freeze()
