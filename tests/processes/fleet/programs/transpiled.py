"""Programs as 1.x's guides write them, without a fleet: w = 1, trainer r is fed 2 + 2r, SGD with rate 0.1.

python transpiled.py pserver_sync | pserver_async | [nccl2] [grad_allreduce] [local_sgd]
"""

import os
import sys

import numpy as np

import workbench.fluid as fluid

trainer = int(os.environ.get("PADDLE_TRAINER_ID", "0"))


def train(mode):
    x = fluid.data("x", [None, 1])
    one = fluid.initializer.NumpyArrayInitializer(np.ones((1, 1), np.float32))
    w = fluid.ParamAttr(name="w", initializer=one)
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=w, bias_attr=False))
    fluid.optimizer.SGD(0.1).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    run = with_servers(mode, executor) if mode.startswith("pserver") else among_trainers(mode, executor, loss)
    if run is None:
        print("served")
        return
    values = []
    for _ in range(3):
        run({"x": np.full((1, 1), 2.0 + 2 * trainer, np.float32)})
        values.append(round(float(np.array(fluid.global_scope().find_var("w").get_tensor()).item()), 5))
    print("w", values)
    executor.close()


def with_servers(mode, executor):
    config = fluid.DistributeTranspilerConfig()
    sync = config.sync_mode = mode == "pserver_sync"
    servers, trainers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"], int(os.environ["PADDLE_TRAINERS_NUM"])
    transpiler = fluid.DistributeTranspiler(config=config)
    transpiler.transpile(trainer, pservers=servers, trainers=trainers, sync_mode=sync)
    if os.environ["TRAINING_ROLE"] == "PSERVER":
        main, startup = transpiler.get_pserver_programs(os.environ["POD_IP"] + ":" + os.environ["PADDLE_PORT"])
        executor.run(startup)
        executor.run(main)
        return None
    main = transpiler.get_trainer_program()
    executor.run(fluid.default_startup_program())
    return lambda feed: executor.run(main, feed=feed)


def among_trainers(mode, executor, loss):
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2" if mode == "nccl2" else "collective"
    config.collective_mode = None if mode == "nccl2" else mode
    endpoints = os.environ["PADDLE_TRAINER_ENDPOINTS"]
    transpiler = fluid.DistributeTranspiler(config=config)
    transpiler.transpile(trainer, trainers=endpoints, current_endpoint=endpoints.split(",")[trainer])
    executor.run(fluid.default_startup_program())
    main = fluid.default_main_program()
    if mode != "nccl2":
        return lambda feed: executor.run(main, feed=feed, fetch_list=[loss])
    number = len(endpoints.split(","))
    parallel = fluid.ParallelExecutor(
        use_cuda=False, loss_name=loss.name, main_program=main, num_trainers=number, trainer_id=trainer
    )
    return lambda feed: parallel.run([loss.name], feed=feed)


for mode in sys.argv[1:]:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        train(mode)
