"""Trainers whose programs, parameters or number are not what the others have are refused."""

from __future__ import annotations

import pytest

from tests.processes.ranks import run_ranks
from tests.processes.trainer_steps import STEPS
from workbench import static
from workbench.errors import PreconditionNotMet

pytestmark = pytest.mark.processes


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


def test_parameters_that_were_changed_on_one_trainer_are_noticed() -> None:
    job = run_ranks(
        STEPS.replace("static.nn.fc(x, 3)", "static.nn.fc(static.nn.batch_norm(x), 3)")
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
