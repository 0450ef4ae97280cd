"""Programs transpiled in collective modes and in nccl2 mode, on two ranks, against the same arithmetic in NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.processes.ranks import run_ranks

pytestmark = pytest.mark.processes

RANKS, STEPS, ROWS = 2, 6, 5
MODES = ("grad_allreduce", "local_sgd", "nccl2")

_TRAIN = """
    import os, sys, warnings
    import numpy as np
    from workbench import fluid
    from workbench.framework.notice import Notice
    from workbench.parallel.transpiler.config import DistributeTranspilerConfig
    from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler
    from workbench.runtime.comm.mpi.world import world

    os.environ["CPU_NUM"] = "1"
    rank, size, steps, rows = world().rank, world().size, int(sys.argv[2]), int(sys.argv[3])
    trainers = [f"127.0.0.1:{6170 + i}" for i in range(size)]
    place = fluid.CPUPlace()
    OPTIMIZERS = {
        "sgd": lambda: fluid.optimizer.SGD(0.1),
        "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9),
        "adam": lambda: fluid.optimizer.Adam(0.1),
    }

    def build(optimizer):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1])
            loss = fluid.layers.mean(fluid.layers.square_error_cost(fluid.layers.fc(x, 1), y))
            OPTIMIZERS[optimizer]().minimize(loss)
        return main, startup, loss

    def transpile(mode, main, startup, rings=1):
        config = DistributeTranspilerConfig()
        config.mode = "nccl2" if mode == "nccl2" else "collective"
        config.collective_mode, config.nccl_comm_num = mode, rings
        told = {"trainers": ",".join(trainers), "current_endpoint": trainers[rank]}
        DistributeTranspiler(config).transpile(rank, main, startup_program=startup, **told)

    def value(scope, name):
        return np.array(scope.find_var(name).get_tensor())

    data = np.random.RandomState(rank).standard_normal((steps, rows, 4)).astype(np.float32)
    feeds = [{"x": part[:, :3], "y": part[:, 3:]} for part in data]

    def train(mode, optimizer, rings=1):
        main, startup, loss = build(optimizer)
        transpile(mode, main, startup, rings)
        scope, executor = fluid.Scope(), fluid.Executor(place)
        executor.run(startup, scope=scope)
        told = {"num_trainers": size, "trainer_id": rank, "scope": scope, "loss_name": loss.name}
        if mode == "nccl2":
            parallel = fluid.ParallelExecutor(use_cuda=False, main_program=main, **told)
            run = lambda feed: parallel.run([loss], feed=feed)
        else:
            run = lambda feed: executor.run(main, feed=feed, fetch_list=[loss], scope=scope)
        begun = [value(scope, name) for name in ("fc_0.w_0", "fc_0.b_0")]
        losses = [float(run(feed)[0][0]) for feed in feeds]
        return begun, [value(scope, name) for name in ("fc_0.w_0", "fc_0.b_0")], losses
"""

_NUMBERS = (
    _TRAIN
    + """
    found = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for mode in ("grad_allreduce", "local_sgd", "nccl2"):
            for optimizer in OPTIMIZERS:
                begun, ended, losses = train(mode, optimizer, rings=2)
                key = f"{mode} {optimizer}"
                found |= {f"{key} w": begun[0], f"{key} b": begun[1]}
                found |= {f"{key} w end": ended[0], f"{key} b end": ended[1]}
                found[f"{key} losses"] = np.array(losses)
    found["told"] = np.array(sum("MPI group" in str(one.message) for one in caught))
    np.savez(f"{sys.argv[1]}/{rank}.npz", x=data, **found)
    """
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("transpiled")
    job = run_ranks(_NUMBERS, RANKS, timeout=120, args=(str(folder), str(STEPS), str(ROWS)))
    assert job.code == 0, str(job)
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(RANKS)]


Update = Callable[[np.ndarray], np.ndarray]


def update(optimizer: str) -> Update:
    """What an optimizer of rate 0.1 subtracts, from one gradient after the other."""
    state = {"m": 0.0, "v": 0.0, "t": 0}

    def adam(g: np.ndarray) -> np.ndarray:
        state["t"] += 1
        state["m"] = 0.9 * state["m"] + 0.1 * g
        state["v"] = 0.999 * state["v"] + 0.001 * g * g
        scale = np.sqrt(1 - 0.999 ** state["t"])
        return 0.1 * scale / (1 - 0.9 ** state["t"]) * state["m"] / (np.sqrt(state["v"]) + 1e-8 * scale)

    def momentum(g: np.ndarray) -> np.ndarray:
        state["v"] = 0.9 * state["v"] + g
        return 0.1 * state["v"]

    return {"sgd": lambda g: 0.1 * g, "momentum": momentum, "adam": adam}[optimizer]


def gradient(p: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of the mean of squares of `x w + b - y`, for `p = [w, b]`."""
    x = np.concatenate([rows[:, :3], np.ones((len(rows), 1))], axis=1)
    return 2 * x.T @ (x @ p - rows[:, 3]) / len(rows)


def expected(mode: str, optimizer: str, p: np.ndarray, data: list[np.ndarray]) -> np.ndarray:
    local = mode == "local_sgd"
    updates = [update(optimizer) for _ in data]
    for step in range(STEPS):
        grads = [gradient(p, part[step].astype(np.float64)) for part in data]
        p = p - (
            np.mean([u(g) for u, g in zip(updates, grads)], axis=0) if local else updates[0](np.mean(grads, axis=0))
        )
    return p


def joined(values: dict[str, np.ndarray], key: str, end: str = "") -> np.ndarray:
    return np.concatenate([values[f"{key} w{end}"].reshape(-1), values[f"{key} b{end}"]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_t21_t30_t31_two_ranks_compute_what_the_rules_say(trained: list, mode: str, optimizer: str) -> None:
    key = f"{mode} {optimizer}"
    ends = [joined(rank, key, " end") for rank in trained]
    assert ends[0].tobytes() == ends[1].tobytes()
    want = expected(mode, optimizer, joined(trained[0], key).astype(np.float64), [rank["x"] for rank in trained])
    np.testing.assert_allclose(ends[0], want, rtol=1e-4, atol=2e-5)
    assert not np.array_equal(trained[0][f"{key} losses"], trained[1][f"{key} losses"])  # each has rows of its own


@pytest.mark.parametrize("mode", ["grad_allreduce", "local_sgd"])
def test_t30_trainers_begin_with_the_parameters_of_the_first(trained: list, mode: str) -> None:
    assert trained[0][f"{mode} sgd w"].tobytes() == trained[1][f"{mode} sgd w"].tobytes()


def test_t33_local_sgd_is_averaging_of_gradients_unless_the_update_is_not_linear(trained: list) -> None:
    data = [rank["x"] for rank in trained]
    begun = np.array([0.5, -0.25, 1.0, 0.0])
    for optimizer, is_linear in (("sgd", True), ("momentum", True), ("adam", False)):
        one, other = (expected(mode, optimizer, begun, data) for mode in ("local_sgd", "grad_allreduce"))
        assert np.allclose(one, other, atol=1e-12) == is_linear


def test_nccl2_and_collectives_on_cpu_devices_say_once_what_they_go_through(trained: list) -> None:
    assert [int(rank["told"]) for rank in trained] == [1, 1]


_BITS = (
    _TRAIN
    + """
    main, startup, loss = build("momentum")
    plain = main.clone()
    transpile("grad_allreduce", main, startup)
    mine, other = fluid.Scope(), fluid.Scope()
    executor = fluid.Executor(place)
    executor.run(startup, scope=mine)
    for variable in plain.persistables():
        other.var(variable.name).get_tensor().set(value(mine, variable.name), place)
    told = {"num_trainers": size, "trainer_id": rank, "scope": other, "loss_name": loss.name}
    parallel = fluid.ParallelExecutor(use_cuda=False, main_program=plain, **told)
    for feed in feeds:
        one = executor.run(main, feed=feed, fetch_list=[loss], scope=mine)[0]
        two = parallel.run([loss], feed=feed)[0]
        assert one.tobytes() == two.tobytes()
    for variable in plain.persistables():
        assert value(mine, variable.name).tobytes() == value(other, variable.name).tobytes(), variable.name
    graphs = [compiled.graph([loss]) for compiled in (executor.compiled(main, mine), parallel)]
    kinds = [[(node.type, str(node.reads)) for node in graph.collectives()] for graph in graphs]
    assert kinds[0] == kinds[1] and kinds[0], kinds
    """
)


def test_t30_a_transpiled_program_has_the_collectives_and_the_bits_of_the_parallel_executor() -> None:
    job = run_ranks(_BITS, RANKS, timeout=90, args=("", str(STEPS), str(ROWS)))
    assert job.code == 0, str(job)


_OTHERS = (
    _TRAIN
    + """
    from workbench.errors import *

    main, startup, loss = build("sgd")
    trainers = [*trainers, "127.0.0.1:7000"]
    transpile("grad_allreduce", main, startup)
    try:
        fluid.Executor(place).run(startup, scope=fluid.Scope())
        raise SystemExit("ran")
    except EnforceNotMet as error:
        assert f"rank {rank} of 2" in str(error) and f"rank {rank} of 3" in str(error), error
    """
)


def test_other_trainers_than_were_started_are_refused() -> None:
    job = run_ranks(_OTHERS, RANKS, timeout=60, args=("", str(STEPS), str(ROWS)))
    assert job.code == 0, str(job)


def test_the_reference_is_right() -> None:
    """Its gradient against differences of the loss."""
    rng = np.random.default_rng(5)
    rows, p = rng.standard_normal((7, 4)), rng.standard_normal(4)
    loss = lambda q: np.mean((rows[:, :3] @ q[:3] + q[3] - rows[:, 3]) ** 2)  # noqa: E731
    steps = np.eye(4) * 1e-6
    numeric = [(loss(p + d) - loss(p - d)) / 2e-6 for d in steps]
    np.testing.assert_allclose(gradient(p, rows), numeric, rtol=1e-6)
