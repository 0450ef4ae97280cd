"""Programs in several processes (Paddle 2.x's `paddle.distributed`)."""

from workbench.facade import lazy

DISTRIBUTED = {
    "workbench.builders.table_entries": "CountFilterEntry ProbabilityEntry ShowClickEntry",
    "workbench.parallel.launch.spawn": "ChildFailed SpawnContext spawn",
    "workbench.parallel.groups.group": (
        "Group destroy_process_group get_group init_parallel_env is_initialized new_group"
    ),
    "workbench.parallel.groups.parallel_env": "ParallelEnv get_rank get_world_size",
    "workbench.parallel.groups.collectives": (
        "ReduceOp all_gather all_reduce alltoall barrier broadcast reduce reduce_scatter scatter wait"
    ),
    "workbench.parallel.groups.messages": "P2POp batch_isend_irecv irecv isend recv send",
    "workbench.parallel.groups.split": "split",
    "workbench.parallel.groups.objects": "all_gather_object broadcast_object_list scatter_object_list",
    "workbench.parallel.groups.checkpoint": "load_state_dict save_state_dict",
    "workbench.parallel.cluster.cluster": "Cluster",
    "workbench.experiments.launch.cluster": "cluster",
    "workbench.parallel.cluster.rank_errors": "RankLost",
}

__getattr__, __dir__ = lazy("workbench.distributed", DISTRIBUTED, ["launch", "fleet"])
