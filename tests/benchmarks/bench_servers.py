"""Parameter servers on this machine: how long steps take with them.

    python -m tests.benchmarks.bench_servers [--quick]

Prints, for ranks of an MPI job and for gRPC, the time of pushing and pulling 1 MiB with its update, and what that
update takes by itself, each the best of three jobs: how near to one another the system puts two processes is another
in each, and stays so; the synchronous step of a model of 25 MiB with 2 trainers and 1 server beside the same step with
an all-reduce; and what 4,096 rows of a table of 10 million rows on 2 servers cost, pulled and pushed, with the memory
of the trainer. Times are the best of many: the machine is shared. Compare ratios only.
"""

from __future__ import annotations

import argparse
from typing import Any

from tests.processes.ranks import run_ranks
from tests.servers.job import RUNS

_BEST = """
    import resource
    def best_of(call, count):
        times = []
        for _ in range(count):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return min(times)
"""
_ONE = (
    _BEST
    + """
    shape = (1 << 18,)
    if role == "server":
        main, startup = server_programs(endpoints[0], 1, shape=shape)
        executor.run(startup)
        executor.run(main)
    else:
        from workbench.framework.program.remote import runnable
        from workbench.runtime.servers.standing import client_of
        main, startup = trainer_programs(endpoints[0], 0, 1, shape=shape)
        executor.run(startup)
        exchange = client_of(runnable(main).global_block().ops[-1].attrs)
        gradient = [np.ones(shape, np.float32)]
        def step():
            exchange.exchange(gradient)
            exchange.is_applied = True
        results["seconds"] = best_of(step, 200)
        executor.close()
        from workbench import static
        alone = static.Program()
        with static.program_guard(alone):
            pushed = static.data("pushed", shape)
            block = alone.global_block()
            block.create_parameter("w", shape, "float32")
            block.create_var("rate", [1], "float32", persistable=True)
            mean = pushed * 1.0  # a server scales the sum of what trainers push
            read = {"Param": "w", "Grad": mean, "LearningRate": "rate"}
            block.append_op("sgd", read, {"ParamOut": "w"}, {"op_role": 2})
        for name, value in (("w", gradient[0]), ("rate", np.ones(1, np.float32))):
            static.global_scope().var(name).get_tensor().set(value, static.cpu_places(1)[0])
        updating = static.Executor()
        results["update"] = best_of(lambda: updating.run(alone, feed={"pushed": gradient[0]}), 200)
"""
)
_MODEL = """
    from workbench import fluid
    def model():
        x = fluid.data("x", [None, 2560])
        y = fluid.layers.fc(x, 2560, bias_attr=False)
        loss = fluid.layers.mean(y)
        fluid.optimizer.SGD(0.1).minimize(loss)
        return loss
    feed = {"x": np.random.default_rng(0).standard_normal((8, 2560)).astype(np.float32)}
"""
_SERVERS = (
    _BEST
    + _MODEL
    + """
    model()
    config = fluid.DistributeTranspilerConfig()
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(index if role == "trainer" else 0, pservers=",".join(endpoints), trainers=trainers)
    if role == "server":
        main, startup = transpiler.get_pserver_programs(endpoints[index])
        executor.run(startup)
        executor.run(main)
    else:
        main = transpiler.get_trainer_program()
        executor.run(fluid.default_startup_program())
        results["seconds"] = best_of(lambda: executor.run(main, feed=feed), 30)
        executor.close()
"""
)
_REDUCED = (
    """
    import json, os, time
    import numpy as np
    import workbench as wb
    from workbench import static
    from workbench.runtime.comm.mpi.world import world
    os.environ["CPU_NUM"] = "1"
    wb.enable_static()
"""
    + _BEST
    + _MODEL
    + """
    loss = model()
    static.Executor().run(static.default_startup_program())
    executor = static.ParallelExecutor(False, loss.name, num_trainers=2, trainer_id=world().rank)
    print(json.dumps(best_of(lambda: executor.run([], feed=feed), 30)))
"""
)
_TABLE = (
    _BEST
    + """
    from workbench import fluid
    rows, width = {rows}, 16
    ids = fluid.data("ids", [None], "int64")
    start = fluid.initializer.ConstantInitializer(0.5)
    looked_up = fluid.embedding(ids, [rows, width], is_sparse=True, param_attr=fluid.ParamAttr(initializer=start))
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(looked_up))
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(index if role == "trainer" else 0, pservers=",".join(endpoints), trainers=trainers)
    if role == "server":
        main, startup = transpiler.get_pserver_programs(endpoints[index])
        executor.run(startup)
        executor.run(main)
    else:
        main = transpiler.get_trainer_program()
        executor.run(fluid.default_startup_program())
        chance = np.random.default_rng(0)
        feed = {{"ids": chance.integers(0, rows, 4096)}}
        results["seconds"] = best_of(lambda: executor.run(main, feed=feed), 40)
        results["MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        executor.close()
"""
)


def trainer(run: Any, script: str, **sizes: Any) -> Any:
    """What the first trainer of a job has found."""
    return run(script, **sizes)["trainer0"]


def all_reduce_step() -> float:
    """Seconds of the step of two trainers that add up their gradients."""
    job = run_ranks(_REDUCED, timeout=120)
    assert job.code == 0, str(job)
    return float(job.outputs[0].split()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a table of 1 million rows")
    rows = 1_000_000 if parser.parse_args().quick else 10_000_000
    for name, run in RUNS.items():
        jobs = [trainer(run, _ONE, trainers=1) for _ in range(3)]
        whole, update = (1e3 * min(job[key] for job in jobs) for key in ("seconds", "update"))
        print(
            f"{name:>10}: push, update and pull of 1 MiB  {whole:7.2f} ms; the update alone {update:.2f}, so push and "
            f"pull {whole - update:.2f}"
        )
    steps = [(all_reduce_step(), trainer(RUNS["launched"], _SERVERS)["seconds"]) for _ in range(2)]
    reduced, served = (min(column) for column in zip(*steps))
    print(
        f"25 MiB, 2 trainers: all-reduce {1e3 * reduced:.1f} ms, server {1e3 * served:.1f} ms, {served / reduced:.2f}x"
    )
    for name, run in RUNS.items():
        measured, small = (trainer(run, _TABLE.format(rows=n), trainers=1, servers=2) for n in (rows, rows // 10))
        print(
            f"{name:>10}: 4,096 rows of {rows} x 16 on 2 servers, a step {1e3 * measured['seconds']:7.2f} ms, trainer "
            f"{measured['MiB']} MiB; of {rows // 10}: {small['MiB']} MiB"
        )


if __name__ == "__main__":
    main()
