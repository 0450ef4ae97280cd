"""`c_broadcast` and `c_allreduce_sum` wherever a program has them: to infer, to train, in place and aside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.processes.ranks import run_ranks

pytestmark = pytest.mark.processes

_PROGRAMS = """
    import sys
    import numpy as np
    from workbench import fluid
    from workbench.framework.values.spec import RAW
    from workbench.runtime.comm.mpi.world import world

    rank, size, root = world().rank, world().size, 1
    trainers = [f"127.0.0.1:{6170 + i}" for i in range(size)]
    exe = fluid.Executor(fluid.CPUPlace())

    def append(block, type, x, out, **attrs):
        block.append_op(type, {"X": x}, {"Out": out}, {"ring_id": 0} | attrs)

    def with_ring(startup):
        block = startup.global_block()
        block.create_var("id", dtype="uint8", kind=RAW, persistable=True, stop_gradient=True)
        others = [one for one in trainers if one != trainers[rank]]
        told = {"rank": rank, "endpoint": trainers[rank], "other_endpoints": others}
        block.append_op("c_gen_nccl_id", {}, {"Out": "id"}, told)
        block.append_op("c_comm_init", {"X": "id"}, {}, {"nranks": size, "rank": rank, "ring_id": 0})

    def inferred(type, aside, dtype):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            block, x = main.global_block(), fluid.data("x", [None, 3], dtype)
            y = fluid.layers.assign(x)
            out = block.create_var("out", [-1, 3], dtype) if aside else y
            append(block, type, y, out, **({"root": root} if type == "c_broadcast" else {}))
            back = fluid.layers.assign(out)
        with_ring(startup)
        scope = fluid.Scope()
        exe.run(startup, scope=scope)
        first = np.array([[-0.0, 2.5 if dtype == "float32" else 7, 3]], dtype) * (rank + 1)
        for rows in (1, 4):
            found = exe.run(main, feed={"x": np.tile(first, (rows, 1))}, fetch_list=[back, y], scope=scope)
        return found

    def trained(root):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 3]), 1))
            fluid.optimizer.SGD(1.0).minimize(loss)
            append(main.global_block(), "c_broadcast", "fc_0.w_0", "fc_0.w_0", root=root)
        with_ring(startup)
        scope = fluid.Scope()
        exe.run(startup, scope=scope)
        for name, shape in (("fc_0.w_0", (3, 1)), ("fc_0.b_0", (1,))):
            scope.find_var(name).get_tensor().set(np.zeros(shape, np.float32), fluid.CPUPlace())
        for step in (1, 2):
            exe.run(main, feed={"x": np.full((2, 3), step * (rank + 1.0), np.float32)}, scope=scope)
        return [np.array(scope.find_var(name).get_tensor()) for name in ("fc_0.w_0", "fc_0.b_0")]

    found = {}
    for type in ("c_broadcast", "c_allreduce_sum"):
        for aside in (False, True):
            for dtype in ("float32", "int64"):
                key = f"{type} {aside} {dtype}"
                found[key], found[f"{key} own"] = inferred(type, aside, dtype)
    found["w"], found["b"] = trained(root)
    try:
        trained(size)
    except Exception as error:
        found["refused"] = np.array(str(error))
    np.savez(f"{sys.argv[1]}/{rank}.npz", **found)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, np.ndarray]]:
    folder: Path = tmp_path_factory.mktemp("collectives")
    job = run_ranks(_PROGRAMS, 2, timeout=120, args=(str(folder),))
    assert job.code == 0, str(job)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(2)]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("aside", [False, True])
@pytest.mark.parametrize("type", ["c_broadcast", "c_allreduce_sum"])
def test_programs_that_only_infer_exchange(told: list, type: str, aside: bool, dtype: str) -> None:
    own = [np.tile(np.array([[-0.0, 2.5 if dtype == "float32" else 7, 3]], dtype) * (r + 1), (4, 1)) for r in (0, 1)]
    want = own[1] if type == "c_broadcast" else own[0] + own[1]
    for rank, one in enumerate(told):
        key = f"{type} {aside} {dtype}"
        assert one[key].tobytes() == want.tobytes()  # -0.0 stays what it is
        kept = own[rank] if aside else want
        assert one[f"{key} own"].tobytes() == kept.tobytes()


def test_what_is_trained_can_be_sent_to_everybody_in_every_step(told: list) -> None:
    """Rank 1's weights, of two steps with gradients 2 and 4; the bias is each one's own."""
    for one in told:
        np.testing.assert_array_equal(one["w"].reshape(-1), np.full(3, -6.0, np.float32))
        np.testing.assert_array_equal(one["b"], np.array([-2.0], np.float32))


def test_a_root_that_is_no_member_is_refused(told: list) -> None:
    for one in told:
        assert "root is in [0, 2), got 2" in str(one["refused"])
