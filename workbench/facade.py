"""Which public name comes from which module.

`workbench/__init__.py`, `workbench.static` … load a name's module when it is first used, so that
`import workbench` stays quick and no name is written twice. A file of ops says itself which functions
it offers, a file of an optimizer which class, and where:

    OFFERED = {"workbench": "inverse=inv", "workbench.linalg": "det inv"}

This is read from the text of files, for to import them all takes a hundred times as long. Names that
come from elsewhere are in the tables here.
"""

from __future__ import annotations

import importlib
import re
import sys
from ast import literal_eval
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from workbench.errors import suggesting
from workbench.framework.op.record import LIBRARIES

OFFERED = re.compile(r"^OFFERED = (\{[^}]*\})", re.MULTILINE)

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
    "workbench.dygraph.tensor.activations": "elu_ hardtanh_ leaky_relu_ relu_ softmax_ thresholded_relu_",
    "workbench.dygraph.tensor.inplace": "tanh_",
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

OPTIMIZER = {"workbench.optimizer.optimizer": "Optimizer"}  # `workbench.optimizer`, but for what `rules` offers

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
}


def names(table: dict[str, str]) -> dict[str, str]:
    """`{public name: module}` from `{module: "name name …"}`; `public=own` where the module calls it otherwise."""
    return {name: module for name, (module, _) in _homes(table).items()}


def _homes(table: dict[str, str]) -> dict[str, tuple[str, str]]:
    """`{public name: (module, what the module calls it)}`."""
    pairs = ((module, name.partition("=")) for module, line in table.items() for name in line.split())
    return {public: (module, own or public) for module, (public, _, own) in pairs}


def offered(module: str) -> dict[str, str]:
    """What files of ops and optimizers offer in a public module, as a table: `{module of the file: "name name …"}`."""
    return {file: table[module] for file, table in _offers().items() if module in table}


@cache
def _offers() -> dict[str, dict[str, str]]:
    """`{module of a file: its OFFERED}`."""
    root = Path(__file__).parent
    offers = {}
    for path in sorted(path for folder in LIBRARIES for path in (root / folder).rglob("*.py")):
        if said := OFFERED.search(path.read_text(encoding="utf-8")):
            offers[".".join((root.name, *path.relative_to(root).with_suffix("").parts))] = literal_eval(said[1])
    return offers


def lazy(
    module: str, table: dict[str, str], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose public names live elsewhere; `__all__` is among its attributes.

    Args:
        module: its name. What files of ops and optimizers offer there is added to its names.
        table: `{module a name comes from: "name name …"}`.
        submodules: sub-modules imported when they are first used.
    """
    tabled, children = _homes(table), frozenset(submodules)
    planned = {name: hint for line, hint in PLANNED.get(module, {}).items() for name in line.split()}

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        return {**_homes(offered(module)), **tabled}

    def look_up(name: str) -> Any:
        if name == "__all__":
            return sorted({*homes(), *children})
        if home := tabled.get(name):
            return getattr(importlib.import_module(home[0]), home[1])
        if name in children:
            return importlib.import_module(f"{module}.{name}")
        if name.startswith("_"):
            return suggesting(module, ())(name)
        if home := homes().get(name):
            return getattr(importlib.import_module(home[0]), home[1])
        if name in planned:
            raise AttributeError(f"{module}.{name} is not available yet: {planned[name]}")
        return suggesting(module, {*homes(), *children})(name)

    def __getattr__(name: str) -> Any:
        value = look_up(name)
        setattr(sys.modules[module], name, value)
        return value

    def __dir__() -> list[str]:
        special = (name for name in vars(sys.modules[module]) if name.startswith("__"))
        return sorted({*special, *homes(), *children})

    return __getattr__, __dir__
