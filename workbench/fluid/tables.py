"""Which name of Paddle 1.x's `paddle.fluid` comes from which module, and how its modules offer them.

A program that uses such a name is static without `enable_static()`, as in 1.x, unless it has chosen a mode; `core`,
`framework` and `dygraph`, which programs of dynamic mode import as well, leave the mode alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from workbench.dygraph.dispatch.mode import static_by_default
from workbench.facade import BASE, BASE_DYGRAPH, lazy

CONTROL_FLOW = {
    "workbench.builders.flow.control_flow": "cond while_loop",
    "workbench.builders.flow.branches": "case switch_case",
}

LAYERS = {  # `workbench.fluid.layers`
    "workbench.builders.fluid.layers": "data dropout fc group_norm matmul mul softmax",
    "workbench.builders.fluid.activations": (
        "brelu gelu hard_shrink hard_sigmoid hard_swish leaky_relu log_softmax maxout mish prelu relu6 selu soft_relu "
        "softplus softshrink swish thresholded_relu"
    ),
    "workbench.builders.fluid.blocks": "Switch While",
    "workbench.builders.fluid.comparing": (
        "equal greater_equal greater_than increment less_equal less_than logical_and logical_not logical_or "
        "logical_xor not_equal"
    ),
    "workbench.builders.fluid.creation": (
        "assign diag eye fill_constant fill_constant_batch_size_like full_like gaussian_random "
        "gaussian_random_batch_size_like linspace ones ones_like range uniform_random uniform_random_batch_size_like "
        "zeros zeros_like"
    ),
    "workbench.builders.fluid.elementwise": (
        "cast clip clip_by_norm elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min "
        "elementwise_mod elementwise_mul elementwise_pow elementwise_sub mean pow reduce_all reduce_any reduce_max "
        "reduce_mean reduce_min reduce_prod reduce_sum scale sign sum sums"
    ),
    "workbench.builders.fluid.images": (
        "adaptive_pool2d adaptive_pool3d affine_channel image_resize image_resize_short lrn pixel_shuffle pool2d "
        "pool3d resize_bilinear resize_nearest resize_trilinear shuffle_channel"
    ),
    "workbench.builders.fluid.schedules": (
        "cosine_decay exponential_decay inverse_time_decay linear_lr_warmup natural_exp_decay noam_decay "
        "piecewise_decay polynomial_decay"
    ),
    "workbench.builders.fluid.labels": "accuracy auc cross_entropy embedding one_hot topk",
    "workbench.builders.fluid.losses": (
        "bpr_loss cos_sim huber_loss kldiv_loss l2_normalize label_smooth margin_rank_loss mse_loss rank_loss "
        "sigmoid_cross_entropy_with_logits smooth_l1"
    ),
    "workbench.builders.fluid.picking": (
        "argmax argmin argsort cumsum gather index_select multiplex scatter scatter_nd_add"
    ),
    "workbench.builders.fluid.shapes": (
        "concat crop crop_tensor=crop expand expand_as flatten flip pad pad2d pad_constant_like reshape reverse roll "
        "split squeeze stack unsqueeze"
    ),
    "workbench.dygraph.tensor.views": "nonzero where=nonzero",
    "workbench.builders.nn.channelwise": "bilinear_tensor_product instance_norm spectral_norm",
    "workbench.builders.nn.contrastive": "nce",
    "workbench.builders.nn.conv": "conv2d conv2d_transpose",
    "workbench.builders.nn.norm": "batch_norm data_norm layer_norm",
    "workbench.builders.nn.sequences": (
        "row_conv sequence_concat sequence_conv sequence_enumerate sequence_expand sequence_expand_as "
        "sequence_first_step sequence_last_step sequence_pad sequence_pool sequence_reshape sequence_reverse "
        "sequence_scatter sequence_slice sequence_softmax sequence_unpad"
    ),
    "workbench.builders.nn.volumes": "conv3d conv3d_transpose",
    "workbench.builders.variables": "create_global_var create_parameter",
    "workbench.ops.conv.images.patches": "unfold",
    "workbench.ops.index.composed.diagonals": "diag_embed",
    "workbench.ops.index.composed.filling": "scatter_nd shard_index",
    "workbench.ops.index.coordinates": "gather_nd",
    "workbench.ops.index.order.order_statistics": "index_sample",
    "workbench.ops.loss.likelihoods": "dice_loss log_loss npair_loss",
    "workbench.ops.loss.losses": "square_error_cost",
    "workbench.ops.loss.softmax": "softmax_with_cross_entropy",
    "workbench.ops.math.products.matmul": "bmm dot",
    "workbench.ops.math.reductions.folds": "logsumexp",
    "workbench.ops.math.trigonometry": "acos asin atan",
    "workbench.ops.math.unary": "abs ceil cos erf exp floor log log1p reciprocal round rsqrt sin sqrt square",
    "workbench.ops.nn.activation": "elu logsigmoid=log_sigmoid sigmoid softsign tanh tanh_shrink=tanhshrink",
    "workbench.ops.nn.composed_activation": "stanh",
    "workbench.ops.nn.piecewise": "relu",
    "workbench.ops.tensor.arranged": "rank",
    "workbench.ops.tensor.join": "unstack",
    "workbench.ops.tensor.sequence": "sequence_mask",
    "workbench.ops.tensor.shape": "shape size=numel",
    "workbench.ops.tensor.slicing": "slice strided_slice",
    "workbench.ops.tensor.transpose": "t transpose",
    "workbench.ops.tensor.triangles": "tril triu",
    **CONTROL_FLOW,
}

NETS = {  # `workbench.fluid.nets`
    "workbench.builders.fluid.nets": "glu img_conv_group scaled_dot_product_attention simple_img_conv_pool",
}

OPTIMIZER = {  # `workbench.fluid.optimizer`
    "workbench.optimizer.rules.fluid": (
        "Adadelta=AdadeltaOptimizer AdadeltaOptimizer Adagrad=AdagradOptimizer AdagradOptimizer Adam=AdamOptimizer "
        "AdamOptimizer Adamax=AdamaxOptimizer AdamaxOptimizer LambOptimizer Momentum=MomentumOptimizer "
        "MomentumOptimizer RMSProp=RMSPropOptimizer RMSPropOptimizer SGD=SGDOptimizer SGDOptimizer"
    ),
    "workbench.optimizer.optimizer": "Optimizer",
    "workbench.optimizer.recompute": "RecomputeOptimizer",
}

INITIALIZER = {  # `workbench.fluid.initializer`
    "workbench.builders.fluid.initializers": (
        "Constant=ConstantInitializer ConstantInitializer MSRA=MSRAInitializer MSRAInitializer "
        "Normal=NormalInitializer NormalInitializer NumpyArrayInitializer TruncatedNormal=TruncatedNormalInitializer "
        "TruncatedNormalInitializer Uniform=UniformInitializer UniformInitializer Xavier=XavierInitializer "
        "XavierInitializer"
    ),
    "workbench.builders.initializers.initializer": "Initializer",
    "workbench.builders.initializers.shaped": "Bilinear=BilinearInitializer BilinearInitializer",
}

REGULARIZER = {  # `workbench.fluid.regularizer`
    "workbench.optimizer.rules.fluid": (
        "L1Decay=L1DecayRegularizer L1DecayRegularizer L2Decay=L2DecayRegularizer L2DecayRegularizer"
    ),
}

CLIP = {  # `workbench.fluid.clip`
    "workbench.optimizer.clip": (
        "GradientClipByGlobalNorm=ClipGradByGlobalNorm GradientClipByNorm=ClipGradByNorm "
        "GradientClipByValue=ClipGradByValue"
    ),
}

COMMUNICATOR = {  # `workbench.fluid.communicator`
    "workbench.parallel.fleet.server.communicator": "Communicator=TrainerCommunicator",
}

IO = {  # `workbench.fluid.io`
    "workbench.checkpoint.model_folder": (
        "load_inference_model load_params load_persistables load_vars save_inference_model save_params "
        "save_persistables save_vars"
    ),
    "workbench.checkpoint.program_files": "load save",
    "workbench.checkpoint.program_state": "load_program_state set_program_state",
    "workbench.data": "default_collate_fn",
    "workbench.data.batched": "batch",
    "workbench.data.fluid.generated": "DataLoader=FeedLoader PyReader",
    "workbench.data.fluid.readers": (
        "ComposeNotAligned buffered cache chain compose firstn map_readers shuffle xmap_readers"
    ),
}

METRICS = {  # `workbench.fluid.metrics`
    "workbench.metrics.fluid": (
        "Accuracy=WeightedAccuracy Auc=AreaUnderCurve CompositeMetric MetricBase Precision=BinaryPrecision "
        "Recall=BinaryRecall"
    ),
}

COMPILER = {  # `workbench.fluid.compiler`
    "workbench.executors.api.compiled": "CompiledProgram",
    "workbench.executors.execution_strategy": "ExecutionStrategy",
    "workbench.graph.strategy": "BuildStrategy",
}

EXECUTOR = {  # `workbench.fluid.executor`
    "workbench.executors.api.executor": "Executor",
    "workbench.runtime.storage.scope": "global_scope scope_guard",
}

PARAM_ATTR = {"workbench.builders.param_attr": "ParamAttr"}  # `workbench.fluid.param_attr`

UNIQUE_NAME = {"workbench.framework.names": "generate guard switch"}  # `workbench.fluid.unique_name`

ROLE_MAKER = {  # `workbench.fluid.incubate.fleet.base.role_maker`
    "workbench.parallel.roles.base": "RoleMakerBase",
    "workbench.parallel.roles.cloud": "PaddleCloudRoleMaker",
    "workbench.parallel.roles.general": "GeneralRoleMaker",
    "workbench.parallel.roles.mpi": "MPIRoleMaker MPISymetricRoleMaker",
    "workbench.parallel.roles.role": "Role",
    "workbench.parallel.roles.user_defined": "UserDefinedCollectiveRoleMaker UserDefinedRoleMaker",
}

MIXED_PRECISION = {"workbench.precision.program": "AutoMixedPrecisionLists decorate"}  # `….contrib.mixed_precision`

COLLECTIVE = {  # `workbench.fluid.incubate.fleet.collective`
    "workbench.parallel.fleet.base": "DistributedOptimizer",
    "workbench.parallel.fleet.collective.checkpoints": "TrainStatus",
    "workbench.parallel.fleet.collective.fleet": "Collective=CollectiveFleet fleet",
    "workbench.parallel.fleet.collective.optimizer": "CollectiveOptimizer",
    "workbench.parallel.fleet.collective.strategy": "DistributedStrategy=CollectiveStrategy",
}

FLEET_BASE = {
    "workbench.parallel.fleet.base": "DistributedOptimizer Fleet=FleetBase"
}  # `….incubate.fleet.base.fleet_base`

DIST_TRANSPILER = {"workbench.parallel.transpiler.distribute_transpiler": "DistributeTranspiler"}  # `….dist_transpiler`

SERVER_STRATEGIES = {  # `….parameter_server.distribute_transpiler.distributed_strategy`
    "workbench.parallel.fleet.server.strategies": (
        "AsyncStrategy DistributedStrategy=ServerFleetStrategy GeoStrategy HalfAsyncStrategy StrategyFactory "
        "SyncStrategy TrainerRuntimeConfig"
    ),
}

SERVER_FLEET = {  # `workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler`
    "workbench.parallel.fleet.base": "DistributedOptimizer",
    "workbench.parallel.fleet.server.fleet": "FleetTranspiler=ServerFleet fleet",
    "workbench.parallel.fleet.server.optimizer": "ParameterServerOptimizer=ServerFleetOptimizer",
    **SERVER_STRATEGIES,
    "workbench.parallel.transpiler.config": "DistributeTranspilerConfig",
}

DISPATCHERS = {  # `workbench.fluid.transpiler.ps_dispatcher`
    "workbench.parallel.transpiler.dispatch": "HashName PSDispatcher RoundRobin",
}

DISTRIBUTE_TRANSPILER = {  # `workbench.fluid.transpiler.distribute_transpiler`
    "workbench.parallel.transpiler.config": "DistributeTranspilerConfig",
    "workbench.parallel.transpiler.distribute_transpiler": "DistributeTranspiler",
}

TRANSPILER_CLASSES = {  # `workbench.fluid.transpiler.collective`
    "workbench.parallel.transpiler.collective.collective": "Collective=CollectiveTranspiler",
    "workbench.parallel.transpiler.collective.grad_allreduce": "GradAllReduce",
    "workbench.parallel.transpiler.collective.local_sgd": "LocalSGD",
    "workbench.parallel.transpiler.collective.single_process_multi_thread": "SingleProcessMultiThread",
}

TRANSPILER = {  # `workbench.fluid.transpiler`
    **DISTRIBUTE_TRANSPILER,
    "workbench.parallel.transpiler.dispatch": "HashName RoundRobin",
}

BACKWARD = {"workbench.autodiff": "append_backward gradients"}  # `workbench.fluid.backward`

FLUID = {  # `workbench.fluid`
    **BASE,
    "workbench.autodiff": "append_backward gradients",
    "workbench.builders.data": "data",
    "workbench.builders.nn.dense": "embedding",
    "workbench.checkpoint.program_files": "load save",
    "workbench.checkpoint.program_state": "load_program_state set_program_state",
    "workbench.data.fluid.feeder": "DataFeeder",
    "workbench.executors.api.parallel": "ParallelExecutor",
    "workbench.ops.index.embedding": "one_hot",
    "workbench.parallel.transpiler.config": "DistributeTranspilerConfig",
    "workbench.parallel.transpiler.dispatch": "HashName RoundRobin",
    "workbench.parallel.transpiler.distribute_transpiler": "DistributeTranspiler",
    "workbench.runtime.storage.tensor": "LoDTensor Tensor=LoDTensor",
}

MODULES = (
    "backward", "clip", "communicator", "compiler", "contrib", "core", "dygraph", "executor", "framework", "incubate",
    "initializer", "io", "layers", "metrics", "nets", "optimizer", "param_attr", "regularizer", "transpiler",
    "unique_name",
)  # fmt: skip
EITHER_MODE = {"core", "dygraph", "framework"}

CORE = {  # `workbench.fluid.core`
    "workbench.dygraph.tensor.methods": "VarBase=Tensor",
    "workbench.framework.values.place": "CPUPlace CUDAPlace",
    "workbench.runtime.storage.scope": "Scope",
}

FRAMEWORK = {  # `workbench.fluid.framework`
    "workbench.dygraph.dispatch.mode": "in_dygraph_mode=in_dynamic_mode",
    "workbench.dygraph.dispatch.tracer": "_dygraph_tracer=dygraph_tracer",
    "workbench.framework.program.guard": "default_main_program default_startup_program program_guard",
    "workbench.framework.program.program": "Program",
    "workbench.framework.program.variable": "Variable",
}

DYGRAPH = {  # `workbench.fluid.dygraph`
    **BASE_DYGRAPH,
    "workbench.layers.layer": "Layer",
    "workbench.parallel.data_parallel.layer": "DataParallel",
    "workbench.parallel.groups.parallel_env": "ParallelEnv",
}


def first_names(
    module: str, table: dict[str, str], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """As `facade.lazy`, for a module of 1.x: who uses a name of it is in static mode from then on."""
    look_up, names = lazy(module, table, submodules)

    def __getattr__(name: str) -> Any:
        if not name.startswith("__") and name not in EITHER_MODE:
            static_by_default()
        return look_up(name)

    return __getattr__, names
