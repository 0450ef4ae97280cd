"""Which public name comes from which module.

`workbench/__init__.py`, `workbench.static` … load a name's module when it is first used, so that
`import workbench` stays quick and no name is written twice.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from workbench.errors import suggesting

# Functions on tensors, Paddle 2.x's `paddle.*`.
TENSOR = {
    "workbench.framework.values.dtype": "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool=bool_",
    "workbench.framework.values.default_dtype": "get_default_dtype set_default_dtype",
    "workbench.framework.values.limits": "finfo iinfo",
    "workbench.framework.values.place": "CPUPlace CUDAPlace",
    "workbench.framework.values.random": "seed",
    "workbench.framework.values.random_state": "get_cuda_rng_state get_rng_state set_cuda_rng_state set_rng_state",
    "workbench.framework.outside": "disable_signal_handler",
    "workbench.dygraph.tensor.text": "set_printoptions",
    "workbench.data.batched": "batch",
    "workbench.runtime.devices": "is_compiled_with_cuda",
    "workbench.runtime.current_device": "get_device is_compiled_with_ipu set_device",
    "workbench.config": "get_flags set_flags",
    "workbench.dygraph.dispatch.mode": "enable_static disable_static in_dynamic_mode",
    "workbench.dygraph.tensor.methods": "Tensor",
    "workbench.dygraph.tensor.views": "is_complex is_floating_point is_integer masked_select nonzero view view_as",
    "workbench.dygraph.tensor.varying": "bincount unique unique_consecutive",
    "workbench.dygraph.tensor.inplace": (
        "abs_ cast_ cos_ divide_ equal_ erf_ floor_divide_ floor_mod_ greater_equal_ greater_than_ index_add_ "
        "less_equal_ less_than_ log10_ log1p_ log2_ log_ logical_and_ logical_not_ logical_or_ logical_xor_ "
        "mod_ multiply_ neg_ normal_ not_equal_ pow_ remainder_ reshape_ scatter_ sin_ square_ squeeze_ t_ "
        "tanh_ transpose_ tril_ triu_ unsqueeze_ acos_ atan_ bitwise_and_ bitwise_not_ bitwise_or_ bitwise_xor_ "
        "cumprod_ cumsum_ digamma_ erfinv_ gcd_ hypot_ i0_ index_fill_ index_put_ lcm_ ldexp_ lgamma_ logit_ "
        "masked_fill_ multigammaln_ nan_to_num_ polygamma_ renorm_ sinh_ tan_ trunc_"
    ),
    "workbench.dygraph.tensor.making": "is_tensor to_tensor",
    "workbench.ops.math.arithmetic": (
        "add divide floor_divide floor_mod maximum minimum mod multiply pow remainder scale subtract"
    ),
    "workbench.ops.math.cast": "cast",
    "workbench.ops.math.clip": "clip",
    "workbench.ops.math.unary": (
        "abs ceil cos erf exp floor isfinite isinf isnan log log10 log1p log2 neg reciprocal round rsqrt sign sin "
        "sqrt square"
    ),
    "workbench.ops.math.trigonometry": "acos acosh asin asinh atan atanh cosh expm1 frac sinh tan trunc",
    "workbench.ops.math.composed": (
        "deg2rad diff fmax fmin heaviside hypot ldexp lerp logaddexp logit logspace masked_fill nan_to_num rad2deg "
        "trapezoid"
    ),
    "workbench.ops.math.gamma": "digamma erfinv lgamma multigammaln polygamma",
    "workbench.ops.math.bessel": "i0 i0e i1 i1e",
    "workbench.ops.math.pairs": "atan2 bitwise_and bitwise_not bitwise_or bitwise_xor gcd lcm nextafter",
    "workbench.ops.math.reductions.cumulative": "cummax cummin cumprod cumsum cumulative_trapezoid logcumsumexp",
    "workbench.ops.math.products.einsum": "einsum",
    "workbench.ops.math.products.vectors": "cdist cross renorm vander",
    "workbench.ops.linalg.matrices": "inverse=inv",
    "workbench.ops.linalg.norms": "norm",
    "workbench.ops.math.reductions.accumulate": "add_n increment",
    "workbench.ops.math.reductions.folds": "all any logsumexp prod",
    "workbench.ops.math.reductions.reduce": "mean sum",
    "workbench.ops.math.reductions.extreme": "amax amin argmax argmin max min",
    "workbench.ops.math.compare": (
        "equal greater_equal greater_than less_equal less_than logical_and logical_not logical_or logical_xor "
        "not_equal where"
    ),
    "workbench.ops.tensor.assign": "assign",
    "workbench.ops.tensor.creation": "arange eye full full_like linspace ones ones_like zeros zeros_like",
    "workbench.ops.tensor.triangles": "tril triu",
    "workbench.ops.random.choices": "multinomial randint_like",
    "workbench.ops.random.distributions": ("bernoulli normal rand randint randn randperm standard_normal uniform"),
    "workbench.ops.nn.activation": "tanh",
    "workbench.ops.nn.composed_activation": "stanh",
    "workbench.ops.math.products.contractions": "addmm dist inner kron mv outer tensordot trace",
    "workbench.ops.math.reductions.statistics": (
        "allclose count_nonzero equal_all is_empty isclose nanmean nansum std var"
    ),
    "workbench.builders.param_attr": "ParamAttr",
    "workbench.dygraph.dispatch.parameters": "create_parameter",
    "workbench.dygraph.autograd.gradients": "grad",
    "workbench.dygraph.autograd.modes": "enable_grad is_grad_enabled no_grad set_grad_enabled",
    "workbench.layers.summary": "summary",
    "workbench.parallel.data_parallel.layer": "DataParallel",
    "workbench.experiments": "ModelCheckpoint Run compare resume runs sweep train",
    "workbench.experiments.bench.own_program": "bench",
    "workbench.notebook.dashboard.page.dashboard": "dashboard",
    "workbench.notebook.dashboard.page.views": "feeds scopes ssa",
    "workbench.checkpoint.objects": "load save",
    "workbench.hapi.training.layer_model": "Model=LayerModel",
    "workbench.ops.math.products.matmul": "bmm dot matmul mm",
    "workbench.ops.tensor.shape": "flatten numel reshape shape squeeze unsqueeze",
    "workbench.ops.tensor.transpose": "moveaxis t transpose",
    "workbench.ops.tensor.arranged": (
        "atleast_1d atleast_2d atleast_3d broadcast_tensors clone diag diagflat diagonal empty empty_like meshgrid "
        "rank rot90 tril_indices triu_indices vsplit"
    ),
    "workbench.ops.tensor.join": "chunk concat split stack unbind unstack",
    "workbench.ops.conv.images.channel_order": "unflatten",
    "workbench.ops.tensor.tile": "broadcast_shape broadcast_to expand expand_as flip roll tile",
    "workbench.ops.tensor.slicing": "slice strided_slice",
    "workbench.ops.index.along_axis": "put_along_axis take_along_axis",
    "workbench.ops.index.coordinates": "gather_nd scatter_nd_add",
    "workbench.ops.index.gather": "gather index_add index_select",
    "workbench.ops.index.scatter": "scatter",
    "workbench.ops.index.order.sort": "argsort sort topk",
    "workbench.ops.index.order.buckets": "bucketize histogram searchsorted",
    "workbench.ops.index.composed.diagonals": "diag_embed diagonal_scatter",
    "workbench.ops.index.composed.filling": "index_fill index_put multiplex scatter_nd select_scatter shard_index take",
    "workbench.ops.index.order.order_statistics": (
        "index_sample kthvalue median mode nanmedian nanquantile quantile repeat_interleave"
    ),
    "workbench.ops.index.composed.parts": "as_strided combinations crop tolist unfold=windows",
}

# Names of Paddle 2.x that are to come, by module, and what to do until then.
_DEVICES = "programs run on the CPU; CPU_NUM, or cpu_places(N) as places, says on how many devices"
PLANNED = {
    "workbench": {},
    "workbench.static": {"CUDAPlace CUDAPinnedPlace": _DEVICES},
}

# Sub-modules that `import workbench` makes reachable without importing them.
MODULES = [
    "static", "nn", "autograd", "optimizer", "regularizer", "io", "metric", "amp", "callbacks", "experiments", "utils",
    "events", "profiler", "jit", "device",
    "base", "linalg", "distributed", "fluid",
]  # fmt: skip

FUNCTIONAL: dict[str, str] = {  # `workbench.nn.functional`
    "workbench.ops.nn.activation": (
        "celu elu gelu log_sigmoid mish selu sigmoid silu softplus softsign swish tanh tanhshrink"
    ),
    "workbench.ops.nn.piecewise": "hardsigmoid hardswish hardtanh leaky_relu relu relu6",
    "workbench.ops.nn.composed_activation": "glu hardshrink maxout prelu rrelu softshrink thresholded_relu",
    "workbench.dygraph.tensor.activations": "elu_ hardtanh_ leaky_relu_ relu_ softmax_ thresholded_relu_",
    "workbench.dygraph.tensor.inplace": "tanh_",
    "workbench.ops.loss.gumbel": "gumbel_softmax",
    "workbench.ops.math.products.linear": "bilinear linear",
    "workbench.ops.loss.attention": "scaled_dot_product_attention",
    "workbench.ops.loss.softmax": "log_softmax softmax softmax_with_cross_entropy",
    "workbench.ops.loss.cross_entropy": "cross_entropy nll_loss",
    "workbench.ops.loss.losses": (
        "binary_cross_entropy binary_cross_entropy_with_logits kl_div l1_loss mse_loss smooth_l1_loss square_error_cost"
    ),
    "workbench.ops.index.label": "label_smooth",
    "workbench.ops.loss.margins": (
        "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_label_soft_margin_loss "
        "multi_margin_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss"
    ),
    "workbench.ops.loss.likelihoods": (
        "dice_loss gaussian_nll_loss log_loss npair_loss poisson_nll_loss sigmoid_focal_loss"
    ),
    "workbench.ops.loss.ctc": "ctc_loss",
    "workbench.ops.math.products.distance": "cosine_similarity normalize pairwise_distance",
    "workbench.ops.nn.norm": "batch_norm layer_norm",
    "workbench.ops.nn.group_norm": "group_norm instance_norm local_response_norm",
    "workbench.ops.index.embedding": "embedding one_hot",
    "workbench.ops.tensor.sequence": "sequence_mask",
    "workbench.ops.random.dropout": "dropout dropout2d dropout3d",
    "workbench.ops.nn.alpha_dropout": "alpha_dropout",
    "workbench.ops.conv.convolutions.conv": "conv2d conv2d_transpose",
    "workbench.ops.conv.convolutions.conv1d": "conv1d conv1d_transpose",
    "workbench.ops.conv.convolutions.conv3d": "conv3d conv3d_transpose",
    "workbench.ops.conv.pools.pool": "adaptive_avg_pool2d adaptive_max_pool2d avg_pool2d max_pool2d",
    "workbench.ops.conv.pools.pool1d": "adaptive_avg_pool1d adaptive_max_pool1d avg_pool1d max_pool1d",
    "workbench.ops.conv.pools.pool3d": "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d max_pool3d",
    "workbench.ops.conv.pools.unpool": "max_unpool1d max_unpool2d max_unpool3d",
    "workbench.ops.tensor.pad": "pad zeropad2d",
    "workbench.ops.conv.images.interpolate": "interpolate upsample",
    "workbench.ops.conv.images.patches": "fold unfold",
    "workbench.ops.conv.images.channel_order": "channel_shuffle pixel_shuffle pixel_unshuffle",
}

NN = {  # `workbench.nn`
    "workbench.optimizer.clip": "ClipGradByGlobalNorm ClipGradByNorm ClipGradByValue",
    "workbench.layers.layer": "Layer",
    "workbench.layers.containers": "LayerDict LayerList ParameterList Sequential",
    "workbench.layers.thin.activations": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Maxout Mish "
        "ReLU ReLU6 RReLU SELU Sigmoid Silu Softmax Softmax2D Softplus Softshrink Softsign Swish Tanh Tanhshrink "
        "ThresholdedReLU"
    ),
    "workbench.layers.thin.losses": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HingeEmbeddingLoss "
        "KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss PoissonNLLLoss "
        "SmoothL1Loss SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss"
    ),
    "workbench.layers.thin.pooling": (
        "AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool1D AdaptiveMaxPool2D AdaptiveMaxPool3D "
        "AvgPool1D AvgPool2D AvgPool3D MaxPool1D MaxPool2D MaxPool3D MaxUnPool1D MaxUnPool2D MaxUnPool3D"
    ),
    "workbench.layers.thin.shapes": (
        "AlphaDropout ChannelShuffle CosineSimilarity Dropout Dropout2D Dropout3D Flatten Fold Identity Pad1D Pad2D "
        "Pad3D PairwiseDistance PixelShuffle PixelUnshuffle Unflatten Unfold Upsample UpsamplingBilinear2D "
        "UpsamplingNearest2D ZeroPad2D"
    ),
    "workbench.layers.weighted.linear": "Bilinear Embedding Linear PReLU",
    "workbench.layers.weighted.convolutions": ("Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose"),
    "workbench.layers.weighted.batch_norms": "BatchNorm BatchNorm1D BatchNorm2D BatchNorm3D SyncBatchNorm",
    "workbench.layers.weighted.norms": (
        "GroupNorm InstanceNorm1D InstanceNorm2D InstanceNorm3D LayerNorm LocalResponseNorm SpectralNorm"
    ),
    "workbench.layers.recurrent.cells": "GRUCell LSTMCell RNNCellBase SimpleRNNCell",
    "workbench.layers.recurrent.sequences": "BiRNN RNN",
    "workbench.layers.recurrent.stacks": "GRU LSTM SimpleRNN",
    "workbench.layers.attention.heads": "MultiHeadAttention",
    "workbench.layers.attention.transformers": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
}

NN_UTILS = {  # `workbench.nn.utils`
    "workbench.layers.reparameter.vectors": "parameters_to_vector vector_to_parameters",
    "workbench.layers.reparameter.gradients": "clip_grad_norm_ clip_grad_value_",
    "workbench.layers.reparameter.weights": "remove_weight_norm spectral_norm weight_norm",
}

STATIC = {
    "workbench.framework.program.program": "Program",
    "workbench.framework.program.variable": "Variable",
    "workbench.framework.program.guard": ("program_guard default_main_program default_startup_program"),
    "workbench.autodiff": "append_backward gradients",
    "workbench.runtime.storage.scope": "Scope global_scope scope_guard",
    "workbench.executors.api.executor": "Executor",
    "workbench.executors.api.parallel": "ParallelExecutor",
    "workbench.executors.api.compiled": "CompiledProgram",
    "workbench.executors.execution_strategy": "ExecutionStrategy",
    "workbench.graph.strategy": "BuildStrategy",
    "workbench.runtime.devices": "cpu_places cuda_places",
    "workbench.checkpoint.program_files": ("load load_persistables load_vars save save_persistables save_vars"),
    "workbench.checkpoint.program_state": "load_program_state set_program_state",
    "workbench.checkpoint.serialized": (
        "deserialize_persistables deserialize_program load_from_file normalize_program save_to_file "
        "serialize_persistables serialize_program"
    ),
    "workbench.builders.data": "data",
    "workbench.builders.input_spec": "InputSpec",
    "workbench.checkpoint.inference_model": "load_inference_model save_inference_model",
    "workbench.builders.variables": "create_global_var create_parameter",
    "workbench.ops.loss.metric": "accuracy",
}

STATIC_NN = {  # `workbench.static.nn`
    "workbench.builders.nn.conv": "conv2d conv2d_transpose deform_conv2d",
    "workbench.builders.nn.dense": "embedding fc sparse_embedding",
    "workbench.builders.nn.norm": "batch_norm data_norm layer_norm",
    "workbench.builders.nn.contrastive": "nce",
    "workbench.builders.nn.py_layer": "static_pylayer",
    "workbench.builders.nn.sequences": (
        "row_conv sequence_concat sequence_conv sequence_enumerate sequence_expand sequence_expand_as "
        "sequence_first_step sequence_last_step sequence_pad sequence_pool sequence_reshape sequence_reverse "
        "sequence_scatter sequence_slice sequence_softmax sequence_unpad"
    ),
    "workbench.builders.flow.control_flow": "cond while_loop",
    "workbench.builders.flow.branches": "case switch_case",
    "workbench.builders.nn.channelwise": "bilinear_tensor_product group_norm instance_norm prelu spectral_norm",
    "workbench.builders.nn.volumes": "conv3d conv3d_transpose",
}

AUTOGRAD = {  # `workbench.autograd`
    "workbench.dygraph.autograd.gradients": "backward",
    "workbench.dygraph.autograd.functional": "hessian jacobian",
    "workbench.dygraph.autograd.py_layer": "PyLayer PyLayerContext saved_tensors_hooks",
}

PROFILER = {"workbench.executors.profiling.profile": "profile=Profile"}  # `workbench.profiler`

IO = {  # `workbench.io`
    "workbench.data": (
        "BatchSampler ChainDataset ComposeDataset ConcatDataset DataLoader Dataset DistributedBatchSampler "
        "IterableDataset RandomSampler Sampler SequenceSampler Subset SubsetRandomSampler TensorDataset "
        "WeightedRandomSampler get_worker_info random_split"
    ),
}

AMP = {  # `workbench.amp`
    "workbench.precision.auto_cast": "auto_cast",
    "workbench.precision.grad_scaler": "GradScaler",
    "workbench.precision.decorate": "decorate",
    "workbench.precision.supported": "is_bfloat16_supported is_float16_supported",
}

CALLBACKS = {  # `workbench.callbacks`
    "workbench.hapi.callbacks.callback": "Callback",
    "workbench.hapi.callbacks.progress": "ProgBarLogger",
    "workbench.hapi.callbacks.saving": "ModelCheckpoint=SavingCallback",
    "workbench.hapi.callbacks.rates": "LRScheduler=ScheduleCallback ReduceLROnPlateau=PlateauCallback",
    "workbench.hapi.callbacks.stopping": "EarlyStopping",
}

LINALG = {  # `workbench.linalg`
    "workbench.ops.linalg.factors": "cholesky eigh eigvalsh qr svd",
    "workbench.ops.linalg.lu": "lu lu_unpack",
    "workbench.ops.linalg.matrices": "det inv matrix_power slogdet",
    "workbench.ops.linalg.norms": ("cond corrcoef cov householder_product matrix_rank multi_dot norm pca_lowrank pinv"),
    "workbench.ops.linalg.solving": "cholesky_solve lstsq solve triangular_solve",
}

DEVICE = {  # `workbench.device`
    "workbench.runtime.devices": "is_compiled_with_cuda",
    "workbench.runtime.current_device": (
        "get_all_device_type get_available_device get_cudnn_version get_device is_compiled_with_custom_device "
        "is_compiled_with_rocm is_compiled_with_xpu set_device get_all_custom_device_type get_available_custom_device "
        "is_compiled_with_cinn is_compiled_with_distribute is_compiled_with_ipu"
    ),
}

FRAMEWORK = {  # `workbench.framework`, what of `paddle.framework` is public
    "workbench.builders.param_attr": "ParamAttr",
    "workbench.builders.variables": "create_parameter",
    "workbench.framework.values.place": "CPUPlace CUDAPlace",
    "workbench.framework.values.random": "seed",
    "workbench.checkpoint.objects": "load save",
}

BASE = {  # `workbench.base`
    "workbench.builders.param_attr": "ParamAttr",
    "workbench.config": "get_flags set_flags",
    "workbench.dygraph.dispatch.mode": (
        "disable_dygraph=enable_static enable_dygraph=disable_static in_dygraph_mode=in_dynamic_mode"
    ),
    "workbench.executors.api.compiled": "CompiledProgram",
    "workbench.executors.api.executor": "Executor",
    "workbench.executors.execution_strategy": "ExecutionStrategy",
    "workbench.framework.program.guard": "default_main_program default_startup_program program_guard",
    "workbench.framework.program.program": "Program",
    "workbench.framework.program.variable": "Variable",
    "workbench.framework.values.place": "CPUPlace CUDAPlace",
    "workbench.graph.strategy": "BuildStrategy",
    "workbench.runtime.devices": "cpu_places cuda_places is_compiled_with_cuda",
    "workbench.runtime.storage.scope": "Scope global_scope scope_guard",
}

BASE_DYGRAPH = {  # `workbench.base.dygraph`
    "workbench.dygraph.dispatch.mode": "guard=dynamic_guard",
    "workbench.dygraph.tensor.making": "to_variable",
}

METRIC = {  # `workbench.metric`
    "workbench.metrics.metric": "Metric",
    "workbench.metrics.accuracy": "Accuracy Precision Recall",
    "workbench.metrics.auc": "Auc",
    "workbench.ops.loss.metric": "accuracy",
}


def names(table: dict[str, str]) -> dict[str, str]:
    """`{public name: module}` from `{module: "name name …"}`; `public=own` where the module calls it otherwise."""
    return {name.split("=")[0]: module for module, line in table.items() for name in line.split()}


def lazy(
    module: str, table: dict[str, str], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module whose public names live elsewhere.

    Args:
        module: its name.
        table: `{module a name comes from: "name name …"}`.
        submodules: sub-modules imported when they are first used.
    """
    where, own = names(table), dict(n.split("=") for line in table.values() for n in line.split() if "=" in n)
    planned = {name: hint for line, hint in PLANNED.get(module, {}).items() for name in line.split()}
    children = frozenset(submodules)
    unknown = suggesting(module, {*where, *children})

    def __getattr__(name: str) -> Any:
        if name in where:
            value = getattr(importlib.import_module(where[name]), own.get(name, name))
        elif name in children:
            value = importlib.import_module(f"{module}.{name}")
        elif name in planned:
            raise AttributeError(f"{module}.{name} is not available yet: {planned[name]}")
        else:
            return unknown(name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:
        special = (name for name in vars(sys.modules[module]) if name.startswith("__"))
        return sorted({*special, *where, *children})

    return __getattr__, __dir__, sorted({*where, *children})
