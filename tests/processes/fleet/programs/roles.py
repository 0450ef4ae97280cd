"""A process of a fleet whose role a maker of 1.x says: w = 1, trainer r is fed 2 + 2r, SGD with rate 0.1.

python roles.py user_defined SERVERS NUMBER_OF_TRAINERS (trainer | server) INDEX
python roles.py user_defined_collective
python roles.py general FOLDER
python roles.py mpi_symetric
"""

import os
import sys

import numpy as np

import workbench.fluid as fluid
from workbench.fluid.incubate.fleet.base import role_maker
from workbench.fluid.incubate.fleet.collective import fleet as collective_fleet
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet as server_fleet

kind, *told = sys.argv[1:]
fleet, strategy = server_fleet, StrategyFactory.create_sync_strategy()
if kind == "user_defined":
    role = role_maker.Role.SERVER if told[2] == "server" else role_maker.Role.WORKER
    maker = role_maker.UserDefinedRoleMaker(int(told[3]), role, int(told[1]), told[0].split(","))
elif kind == "user_defined_collective":
    fleet, strategy = collective_fleet, None
    endpoints = os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")
    maker = role_maker.UserDefinedCollectiveRoleMaker(int(os.environ["PADDLE_TRAINER_ID"]), endpoints)
elif kind == "general":
    maker = role_maker.GeneralRoleMaker(path=told[0], init_timeout_seconds=100)
else:
    maker = role_maker.MPISymetricRoleMaker()
fleet.init(maker)
x = fluid.data("x", [None, 1])
one = fluid.initializer.NumpyArrayInitializer(np.ones((1, 1), np.float32))
w = fluid.ParamAttr(name="w", initializer=one)
loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=w))
fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
if strategy is not None and fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    print("served")
    sys.exit(0)
if strategy is not None:
    fleet.init_worker()
executor = fluid.Executor(fluid.CPUPlace())
executor.run(fleet.startup_program)
values = []
for _ in range(3):
    fed = np.full((1, 1), 2.0 + 2 * fleet.worker_index(), np.float32)
    executor.run(fleet.main_program, feed={"x": fed}, fetch_list=[loss])
    values.append(round(float(np.array(fluid.global_scope().find_var("w").get_tensor()).item()), 5))
print("w", values)
if strategy is not None:
    fleet.stop_worker()
