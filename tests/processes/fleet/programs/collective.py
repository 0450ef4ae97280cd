"""A trainer of collective fleets, one by one: w = 1, trainer r is fed 2 + 2r, so the mean gradient of two is 3.

python collective.py MODE...
"""

import sys

import numpy as np

import workbench.fluid as fluid
from workbench.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
from workbench.fluid.incubate.fleet.collective import DistributedStrategy, fleet


def strategy_of(mode):
    strategy = DistributedStrategy()
    if mode == "local_sgd":
        strategy.use_local_sgd = True
    elif mode == "hierarchical":
        strategy.use_hierarchical_allreduce, strategy.hierarchical_allreduce_inter_nranks = True, 2
    elif mode != "nccl2":
        strategy.mode, strategy.collective_mode = "collective", mode
    return strategy


def train(mode):
    x = fluid.data("x", [None, 1])
    one = fluid.initializer.NumpyArrayInitializer(np.ones((1, 1), np.float32))
    w = fluid.ParamAttr(name="w", initializer=one)
    loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=w, bias_attr=False))
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy_of(mode)).minimize(loss)
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fleet.startup_program)
    values = []
    for _ in range(3):
        fed = np.full((1, 1), 2.0 + 2 * fleet.worker_index(), np.float32)
        executor.run(fleet.main_program, feed={"x": fed}, fetch_list=[loss])
        values.append(round(float(np.array(fluid.global_scope().find_var("w").get_tensor()).item()), 5))
    print(mode, "w", values)


fleet.init(PaddleCloudRoleMaker(is_collective=True))
for mode in sys.argv[1:]:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        train(mode)
