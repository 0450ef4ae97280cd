"""A process of a fleet with servers: w = 1, trainer r is fed 2 + 2r, SGD with rate 0.1.

python servers.py STRATEGY [FOLDER TO LOAD or ''] [FOLDER TO SAVE]
"""

import sys

import numpy as np

import workbench.fluid as fluid
from workbench.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet

mode, load, save = (*sys.argv[1:], "", "")[:3]
fleet.init(PaddleCloudRoleMaker())
x = fluid.data("x", [None, 1])
one = fluid.initializer.NumpyArrayInitializer(np.ones((1, 1), np.float32))
w = fluid.ParamAttr(name="w", initializer=one)
loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=w, bias_attr=False))
strategy = getattr(StrategyFactory, f"create_{mode}_strategy")()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server(load or None)
    fleet.run_server()
    print("served")
    print("held", round(float(np.array(fluid.global_scope().find_var("w").get_tensor()).item()), 5))
else:
    fleet.init_worker()
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fleet.startup_program)
    values = []
    for _ in range(3):
        fed = np.full((1, 1), 2.0 + 2 * fleet.worker_index(), np.float32)
        executor.run(fleet.main_program, feed={"x": fed}, fetch_list=[loss])
        values.append(round(float(np.array(fluid.global_scope().find_var("w").get_tensor()).item()), 5))
    if save and fleet.is_first_worker():
        fleet.save_persistables(executor, save)
    print("w", values)
    fleet.stop_worker()
