"""Names of `paddle.distributed.fleet`."""

from workbench.facade import lazy

FLEET = {
    "workbench.parallel.fleet.strategy": "DistributedStrategy=FleetStrategy",
    "workbench.parallel.fleet.unified": (
        "Fleet=UnifiedFleet barrier_worker distributed_model distributed_optimizer init init_server init_worker "
        "is_first_worker is_server is_worker run_server save_inference_model save_persistables server_endpoints "
        "server_index server_num stop_worker worker_endpoints worker_index worker_num"
    ),
    "workbench.parallel.roles.cloud": "PaddleCloudRoleMaker",
    "workbench.parallel.roles.role": "Role",
    "workbench.parallel.roles.user_defined": "UserDefinedRoleMaker",
}

__getattr__, __dir__ = lazy("workbench.distributed.fleet", FLEET, ["utils"])
