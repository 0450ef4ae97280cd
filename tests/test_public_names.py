"""The public surface: every name a user of Paddle 2.x writes leads somewhere, is documented and typed."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import workbench as paddle
from workbench import facade
from workbench.facade import PLANNED
from workbench.framework.op.record import LIBRARIES, all_ops
from workbench.framework.values.dtype import DType

# What the language of static programs consists of, by the module Paddle 2.x has it in.
NAMES = {
    "": """
        enable_static disable_static in_dynamic_mode no_grad enable_grad grad set_grad_enabled is_grad_enabled
        is_tensor seed get_flags set_flags CPUPlace CUDAPlace ParamAttr is_compiled_with_cuda get_device
        set_device Model create_parameter Tensor to_tensor train ModelCheckpoint Run runs compare sweep resume bench
        save load dashboard ssa scopes feeds summary unflatten float16 bfloat16 float32 float64 int8 int16
        int32 int64 uint8 bool add subtract multiply divide floor_divide mod remainder pow maximum minimum
        scale clip cast increment add_n abs ceil cos erf exp floor isfinite isinf isnan log log10 log1p log2
        reciprocal round rsqrt sign sin sqrt square tanh equal not_equal less_than less_equal greater_than
        greater_equal logical_and logical_or logical_xor logical_not where sum mean max min prod all any
        logsumexp argmax argmin topk sort argsort matmul mm bmm dot norm reshape transpose concat split stack
        unstack squeeze unsqueeze flatten slice strided_slice expand expand_as broadcast_to tile gather
        gather_nd index_select scatter flip roll shape numel full full_like zeros zeros_like ones ones_like
        arange linspace eye tril triu assign abs_ cast_ cos_ divide_ equal_ erf_ floor_divide_ floor_mod_
        greater_equal_ greater_than_ index_add_ less_equal_ less_than_ log10_ log1p_ log2_ log_ logical_and_
        logical_not_ logical_or_ logical_xor_ mod_ multiply_ neg_ normal_ not_equal_ pow_ remainder_ reshape_
        scatter_ sin_ square_ squeeze_ t_ tanh_ transpose_ tril_ triu_ unsqueeze_ is_complex is_floating_point
        is_integer masked_select nonzero view view_as uniform normal rand randn randint randperm
        standard_normal bernoulli acos acosh asin asinh atan atanh cosh expm1 frac sinh tan trunc deg2rad diff
        fmax fmin heaviside hypot ldexp lerp logaddexp logit nan_to_num rad2deg stanh trapezoid addmm dist
        inner kron mv outer tensordot allclose count_nonzero isclose nanmean nansum std var atleast_1d
        atleast_2d atleast_3d broadcast_tensors clone diag diagflat diagonal empty empty_like meshgrid rank
        rot90 tril_indices triu_indices vsplit trace equal_all is_empty masked_fill digamma erfinv lgamma
        multigammaln polygamma i0 i0e i1 i1e atan2 bitwise_and bitwise_not bitwise_or bitwise_xor gcd lcm
        nextafter cummax cummin cumprod cumsum cumulative_trapezoid logcumsumexp einsum cdist cross renorm
        vander inverse amax amin logspace bucketize histogram searchsorted diag_embed diagonal_scatter
        index_fill index_put multiplex scatter_nd select_scatter shard_index take index_sample kthvalue median
        mode nanmedian nanquantile quantile repeat_interleave as_strided combinations crop tolist unfold
        bincount unique unique_consecutive acos_ atan_ bitwise_and_ bitwise_not_ bitwise_or_ bitwise_xor_
        cumprod_ cumsum_ digamma_ erfinv_ gcd_ hypot_ i0_ index_fill_ index_put_ lcm_ ldexp_ lgamma_ logit_
        masked_fill_ multigammaln_ nan_to_num_ polygamma_ renorm_ sinh_ tan_ trunc_ get_default_dtype
        set_default_dtype finfo iinfo get_rng_state set_rng_state get_cuda_rng_state set_cuda_rng_state
        disable_signal_handler set_printoptions batch multinomial randint_like is_compiled_with_ipu DataParallel
    """,
    "linalg": """
        cholesky cholesky_solve cond corrcoef cov det eigh eigvalsh householder_product inv lstsq lu lu_unpack
        matrix_power matrix_rank multi_dot norm pca_lowrank pinv qr slogdet solve svd triangular_solve
    """,
    "nn": """
        AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool1D AdaptiveMaxPool2D
        AdaptiveMaxPool3D AlphaDropout AvgPool1D AvgPool2D AvgPool3D BCELoss BCEWithLogitsLoss BatchNorm
        BatchNorm1D BatchNorm2D CTCLoss BatchNorm3D BiRNN Bilinear CELU ChannelShuffle ClipGradByGlobalNorm
        ClipGradByNorm ClipGradByValue Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D Conv3DTranspose
        CosineEmbeddingLoss
        CosineSimilarity CrossEntropyLoss Dropout Dropout2D Dropout3D ELU Embedding Flatten Fold GELU GLU GRU
        GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss Identity
        InstanceNorm1D InstanceNorm2D InstanceNorm3D KLDivLoss L1Loss LSTM LSTMCell Layer LayerDict LayerList
        LayerNorm LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1D
        MaxPool2D MaxPool3D MaxUnPool1D MaxUnPool2D MaxUnPool3D Maxout Mish MultiHeadAttention MultiLabelSoftMarginLoss
        MultiMarginLoss NLLLoss PReLU Pad1D Pad2D Pad3D PairwiseDistance ParameterList PixelShuffle
        PixelUnshuffle PoissonNLLLoss RNN RNNCellBase RReLU ReLU ReLU6 SELU Sequential Sigmoid Silu SimpleRNN
        SimpleRNNCell SmoothL1Loss SoftMarginLoss Softmax Softmax2D Softplus Softshrink Softsign SpectralNorm
        Swish SyncBatchNorm Tanh Tanhshrink ThresholdedReLU Transformer TransformerDecoder
        TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss
        TripletMarginWithDistanceLoss Unflatten Unfold Upsample UpsamplingBilinear2D UpsamplingNearest2D
        ZeroPad2D functional initializer loss utils
    """,
    "nn.functional": """
        relu relu6 sigmoid tanh gelu elu selu leaky_relu softplus softsign swish silu mish hardswish hardsigmoid
        softmax log_softmax log_sigmoid softmax_with_cross_entropy cross_entropy nll_loss mse_loss l1_loss
        smooth_l1_loss square_error_cost binary_cross_entropy binary_cross_entropy_with_logits kl_div
        conv2d conv2d_transpose max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d
        batch_norm layer_norm embedding one_hot dropout pad
        adaptive_avg_pool1d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool3d alpha_dropout avg_pool1d
        avg_pool3d bilinear channel_shuffle conv1d conv1d_transpose cosine_embedding_loss ctc_loss cosine_similarity
        dice_loss dropout2d dropout3d fold gaussian_nll_loss glu group_norm gumbel_softmax hardshrink
        hinge_embedding_loss instance_norm interpolate label_smooth linear local_response_norm log_loss
        margin_ranking_loss max_pool1d max_pool3d max_unpool1d max_unpool2d max_unpool3d conv3d conv3d_transpose
        maxout multi_label_soft_margin_loss
        multi_margin_loss normalize npair_loss pairwise_distance pixel_shuffle pixel_unshuffle poisson_nll_loss
        prelu rrelu scaled_dot_product_attention sequence_mask sigmoid_focal_loss soft_margin_loss softshrink
        thresholded_relu triplet_margin_loss triplet_margin_with_distance_loss unfold upsample zeropad2d
        elu_ hardtanh_ leaky_relu_ relu_ softmax_ tanh_ thresholded_relu_
    """,
    "nn.initializer": """
        Constant Uniform Normal TruncatedNormal XavierUniform XavierNormal KaimingUniform KaimingNormal Assign
        set_global_initializer calculate_gain Bilinear Dirac Orthogonal
    """,
    "nn.utils": """
        clip_grad_norm_ clip_grad_value_ parameters_to_vector vector_to_parameters weight_norm remove_weight_norm
        spectral_norm
    """,
    "static": """
        Program Variable Executor Scope ParallelExecutor CompiledProgram BuildStrategy ExecutionStrategy
        cpu_places cuda_places program_guard default_main_program default_startup_program global_scope
        scope_guard data create_parameter create_global_var append_backward gradients accuracy save load
        save_persistables load_persistables save_vars load_vars InputSpec save_inference_model
        load_inference_model nn load_program_state set_program_state deserialize_persistables
        deserialize_program load_from_file normalize_program save_to_file serialize_persistables
        serialize_program
    """,
    "static.nn": """
        fc conv2d conv2d_transpose batch_norm layer_norm embedding cond while_loop case switch_case conv3d
        conv3d_transpose group_norm instance_norm prelu spectral_norm bilinear_tensor_product
        data_norm deform_conv2d nce sparse_embedding static_pylayer row_conv sequence_concat sequence_conv
        sequence_enumerate sequence_expand sequence_expand_as sequence_first_step sequence_last_step sequence_pad
        sequence_pool sequence_reshape sequence_reverse sequence_scatter sequence_slice sequence_softmax sequence_unpad
    """,
    "autograd": "backward PyLayer PyLayerContext jacobian hessian saved_tensors_hooks",
    "jit": """
        capture CapturedStep NeedsValue StaticFunction enable_to_static ignore_module not_to_static to_static
        save load TranslatedLayer set_code_level set_verbosity
    """,
    "optimizer": "SGD Momentum Adam AdamW Adadelta Adagrad RMSProp Adamax Lamb LBFGS Optimizer lr",
    "optimizer.lr": """
        LRScheduler StepDecay MultiStepDecay ExponentialDecay CosineAnnealingDecay PiecewiseDecay LinearWarmup
        NoamDecay PolynomialDecay NaturalExpDecay InverseTimeDecay LambdaDecay ReduceOnPlateau
        MultiplicativeDecay LinearLR OneCycleLR CyclicLR CosineAnnealingWarmRestarts
    """,
    "regularizer": "L1Decay L2Decay",
    "io": """
        Dataset IterableDataset TensorDataset Subset random_split DataLoader BatchSampler Sampler SequenceSampler
        RandomSampler WeightedRandomSampler SubsetRandomSampler DistributedBatchSampler
        ComposeDataset ConcatDataset ChainDataset get_worker_info
    """,
    "amp": "auto_cast GradScaler decorate is_bfloat16_supported is_float16_supported",
    "callbacks": "Callback ProgBarLogger ModelCheckpoint LRScheduler EarlyStopping ReduceLROnPlateau",
    "device": """
        get_device set_device is_compiled_with_cuda is_compiled_with_xpu is_compiled_with_rocm
        get_cudnn_version is_compiled_with_custom_device get_all_device_type get_available_device
        is_compiled_with_ipu is_compiled_with_cinn is_compiled_with_distribute get_all_custom_device_type
        get_available_custom_device
    """,
    "metric": "Metric Accuracy Precision Recall Auc accuracy",
    "profiler": "profile",
    "base": """
        BuildStrategy CPUPlace CUDAPlace CompiledProgram ExecutionStrategy Executor ParamAttr Program Scope Variable
        cpu_places cuda_places default_main_program default_startup_program disable_dygraph enable_dygraph get_flags
        global_scope in_dygraph_mode is_compiled_with_cuda program_guard scope_guard set_flags dygraph
    """,
    "base.dygraph": "guard to_variable base",
    "distributed": """
        ParallelEnv init_parallel_env get_rank get_world_size is_initialized new_group get_group destroy_process_group
        ReduceOp all_reduce all_gather all_gather_object broadcast broadcast_object_list reduce reduce_scatter scatter
        scatter_object_list alltoall send recv isend irecv batch_isend_irecv P2POp barrier wait split spawn launch Group
        SpawnContext ChildFailed cluster Cluster RankLost save_state_dict load_state_dict
        CountFilterEntry ProbabilityEntry ShowClickEntry
    """,
    "distributed.fleet": """
        DistributedStrategy Fleet PaddleCloudRoleMaker Role UserDefinedRoleMaker utils
        barrier_worker distributed_model distributed_optimizer init
        init_server init_worker is_first_worker is_server is_worker run_server save_inference_model
        save_persistables server_endpoints server_index server_num stop_worker worker_endpoints worker_index worker_num
    """,
    "fluid": """
        BuildStrategy CPUPlace CUDAPlace CompiledProgram ExecutionStrategy Executor LoDTensor ParallelExecutor
        ParamAttr Program Scope Tensor Variable cpu_places cuda_places data default_main_program
        default_startup_program disable_dygraph embedding enable_dygraph get_flags global_scope gradients
        in_dygraph_mode is_compiled_with_cuda load load_program_state one_hot program_guard save scope_guard
        set_flags set_program_state backward clip communicator compiler contrib core dygraph executor framework
        incubate initializer io layers optimizer param_attr regularizer transpiler unique_name
        DistributeTranspiler DistributeTranspilerConfig DataFeeder HashName RoundRobin append_backward metrics
        nets
    """,
    "fluid.layers": """
        accuracy cast concat cross_entropy data dropout elementwise_add elementwise_div elementwise_max
        elementwise_min elementwise_mul elementwise_sub fc fill_constant matmul mul one_hot pool2d reduce_max
        reduce_mean reduce_min reduce_sum reshape scale softmax split squeeze sums unsqueeze cosine_decay
        exponential_decay inverse_time_decay linear_lr_warmup natural_exp_decay noam_decay piecewise_decay
        polynomial_decay conv2d conv2d_transpose embedding batch_norm layer_norm create_global_var
        create_parameter gather argsort topk mse_loss square_error_cost softmax_with_cross_entropy clip pow
        equal greater_equal greater_than less_equal less_than logical_and logical_not logical_or not_equal where
        increment sum argmax argmin mean abs ceil cos exp floor log round rsqrt sign sin sqrt square elu gelu
        sigmoid softplus softsign tanh leaky_relu relu relu6 assign ones ones_like zeros zeros_like stack
        unstack shape transpose expand_as cond while_loop case switch_case Switch While acos adaptive_pool2d
        adaptive_pool3d affine_channel asin atan auc bilinear_tensor_product bmm bpr_loss brelu clip_by_norm
        conv3d conv3d_transpose cos_sim crop crop_tensor cumsum data_norm diag diag_embed dice_loss dot
        elementwise_floordiv elementwise_mod elementwise_pow erf expand eye fill_constant_batch_size_like
        flatten flip full_like gather_nd gaussian_random gaussian_random_batch_size_like group_norm hard_shrink
        hard_sigmoid hard_swish huber_loss image_resize image_resize_short index_sample index_select
        instance_norm kldiv_loss l2_normalize label_smooth linspace log1p log_loss log_softmax logical_xor
        logsigmoid logsumexp lrn margin_rank_loss maxout mish multiplex nce nonzero npair_loss pad pad2d
        pad_constant_like pixel_shuffle pool3d prelu range rank rank_loss reciprocal reduce_all reduce_any
        reduce_prod resize_bilinear resize_nearest resize_trilinear reverse roll row_conv scatter scatter_nd
        scatter_nd_add selu sequence_concat sequence_conv sequence_enumerate sequence_expand sequence_expand_as
        sequence_first_step sequence_last_step sequence_mask sequence_pad sequence_pool sequence_reshape
        sequence_reverse sequence_scatter sequence_slice sequence_softmax sequence_unpad shard_index
        shuffle_channel sigmoid_cross_entropy_with_logits size slice smooth_l1 soft_relu softshrink
        spectral_norm stanh strided_slice swish t tanh_shrink thresholded_relu tril triu unfold uniform_random
        uniform_random_batch_size_like
    """,
    "fluid.optimizer": """
        Adadelta AdadeltaOptimizer Adagrad AdagradOptimizer Adam AdamOptimizer Adamax AdamaxOptimizer LambOptimizer
        Momentum MomentumOptimizer RecomputeOptimizer RMSProp RMSPropOptimizer SGD SGDOptimizer Optimizer
    """,
    "fluid.initializer": """
        Constant ConstantInitializer MSRA MSRAInitializer Normal NormalInitializer NumpyArrayInitializer
        TruncatedNormal TruncatedNormalInitializer Uniform UniformInitializer Xavier XavierInitializer Bilinear
        BilinearInitializer
    """,
    "fluid.regularizer": "L1Decay L1DecayRegularizer L2Decay L2DecayRegularizer",
    "fluid.clip": "GradientClipByGlobalNorm GradientClipByNorm GradientClipByValue",
    "fluid.io": """
        load_inference_model load_params load_persistables load_vars save_inference_model save_params
        save_persistables save_vars load save load_program_state set_program_state DataLoader batch
        ComposeNotAligned PyReader buffered cache chain compose default_collate_fn firstn map_readers shuffle
        xmap_readers
    """,
    "fluid.metrics": "Accuracy Auc CompositeMetric MetricBase Precision Recall",
    "fluid.nets": "glu img_conv_group scaled_dot_product_attention simple_img_conv_pool",
    "fluid.communicator": "Communicator",
    "fluid.compiler": "CompiledProgram ExecutionStrategy BuildStrategy",
    "fluid.executor": "Executor global_scope scope_guard",
    "fluid.param_attr": "ParamAttr",
    "fluid.unique_name": "generate guard switch",
    "fluid.contrib": "mixed_precision",
    "fluid.contrib.mixed_precision": "AutoMixedPrecisionLists decorate",
    "fluid.incubate": "fleet",
    "fluid.transpiler": """
        DistributeTranspiler DistributeTranspilerConfig HashName RoundRobin
        collective distribute_transpiler ps_dispatcher
    """,
    "fluid.transpiler.collective": "Collective GradAllReduce LocalSGD SingleProcessMultiThread",
    "fluid.transpiler.distribute_transpiler": "DistributeTranspiler DistributeTranspilerConfig",
    "fluid.transpiler.ps_dispatcher": "HashName PSDispatcher RoundRobin",
    "fluid.incubate.fleet.parameter_server": "distribute_transpiler",
    "fluid.incubate.fleet.parameter_server.distribute_transpiler": """
        DistributedOptimizer FleetTranspiler ParameterServerOptimizer StrategyFactory fleet distributed_strategy
        AsyncStrategy DistributeTranspilerConfig DistributedStrategy GeoStrategy HalfAsyncStrategy SyncStrategy
        TrainerRuntimeConfig
    """,
    "fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy": """
        AsyncStrategy DistributedStrategy GeoStrategy HalfAsyncStrategy StrategyFactory SyncStrategy
        TrainerRuntimeConfig
    """,
    "fluid.incubate.fleet": "base collective dist_transpiler parameter_server",
    "fluid.incubate.fleet.dist_transpiler": "DistributeTranspiler",
    "fluid.incubate.fleet.collective": """
        Collective CollectiveOptimizer DistributedOptimizer DistributedStrategy TrainStatus fleet
    """,
    "fluid.incubate.fleet.base": "fleet_base role_maker",
    "fluid.incubate.fleet.base.fleet_base": "DistributedOptimizer Fleet",
    "fluid.incubate.fleet.base.role_maker": """
        GeneralRoleMaker MPIRoleMaker MPISymetricRoleMaker PaddleCloudRoleMaker Role RoleMakerBase
        UserDefinedCollectiveRoleMaker UserDefinedRoleMaker
    """,
    "fluid.backward": "append_backward gradients",
    "utils": "unique_name",
    "utils.unique_name": "generate guard",
}
MODULES = [name for name in NAMES if name != "utils.unique_name"]


def find(path: str) -> Any:
    """`find("nn.functional")` as a user gets it: by attributes of the package alone."""
    return functools.reduce(getattr, path.split(".") if path else [], paddle)


def public(path: str) -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of everything a module offers."""
    for name in find(path).__all__:
        yield f"{path}.{name}".lstrip("."), getattr(find(path), name)


PUBLIC = dict(pair for path in MODULES for pair in public(path))
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}


@pytest.mark.parametrize("path", NAMES)
def test_every_name_leads_somewhere(path: str) -> None:
    missing = [name for name in NAMES[path].split() if not hasattr(find(path), name)]
    assert not missing
    if path in MODULES:
        assert not set(NAMES[path].split()) - set(find(path).__all__)


all_ops()  # imports every file of ops and optimizers, to be asked what it offers
PACKAGES = tuple(f"workbench.{folder.replace('/', '.')}." for folder in LIBRARIES)
OFFERED = {
    name: module.OFFERED
    for name, module in sys.modules.items()
    if name.startswith(PACKAGES) and hasattr(module, "OFFERED")
}
OFFERS = [
    (file, public, *word.partition("=")[::2])
    for file, table in OFFERED.items()
    for public, line in table.items()
    for word in line.split()
]


def test_files_of_ops_offer_what_they_have() -> None:
    """What the facade reads from their text is what they say, and every name leads to a function of theirs."""
    assert len(OFFERS) > 300
    read = {public: facade.offered(public) for _, public, _, _ in OFFERS}
    assert read == {public: {f: table[public] for f, table in OFFERED.items() if public in table} for public in read}
    for file, public, name, own in OFFERS:
        value = getattr(sys.modules[public], name)
        assert value is getattr(sys.modules[file], own or name), f"{public}.{name} is not that of {file}"
        assert value.__module__ == file, f"{file} offers {name}, which is written elsewhere"
        assert name in dir(sys.modules[public])


def test_nothing_is_offered_twice() -> None:
    words = [(public, name) for _, public, name, _ in OFFERS]
    tables = {
        "workbench": facade.TENSOR,
        "workbench.nn.functional": facade.FUNCTIONAL,
        "workbench.static": facade.STATIC,
        "workbench.metric": facade.METRIC,
        "workbench.optimizer": facade.OPTIMIZER,
    }
    words += [(public, name) for public, table in tables.items() for name in facade.names(table)]
    assert [word for word, count in Counter(words).items() if count > 1] == []


LOOKS = """
import sys, workbench
before = set(sys.modules)
assert {"matmul", "Tensor", "nn"} <= set(dir(workbench)) and "softmax" in dir(workbench.nn.functional)
assert {"Adam", "lr"} <= set(dir(workbench.optimizer))
assert "matmul" in workbench.__all__ and not hasattr(workbench, "matmull")
print(sorted(name for name in set(sys.modules) - before if name.startswith(("workbench.ops", "workbench.optimizer."))))
"""


def test_names_are_listed_without_importing_what_bears_them() -> None:
    done = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_table_knows_every_name() -> None:
    """A name that is added to the package has to be added above, where a reader sees it, or in the file of its op."""
    told = {f"{path}.{name}".lstrip(".") for path, line in NAMES.items() for name in line.split()}
    told |= {f"{public}.{name}".removeprefix("workbench.") for _, public, name, _ in OFFERS}
    others = {name.split(".")[-1] for name in set(PUBLIC) - told}
    assert others == {
        "static", "optimizer", "autograd", "regularizer", "io", "metric", "amp", "callbacks", "jit", "device", "utils",
        "experiments", "events", "profiler", "nn", "base", "linalg", "distributed", "fluid", "fleet",
        "Initializer",
    }  # fmt: skip


@pytest.mark.parametrize("path", MODULES)
def test_nothing_private_leaks(path: str) -> None:
    module = find(path)
    assert [n for n in module.__all__ if n.startswith("_")] == []
    if path not in ("jit", "optimizer.lr", "utils"):  # the others are tables of names
        assert {n for n in dir(module) if not n.startswith("__")} == set(module.__all__)


def test_every_name_is_documented() -> None:
    values = {name: type(value) if isinstance(value, DType) else value for name, value in PUBLIC.items()}
    assert [name for name, value in values.items() if not inspect.getdoc(value)] == []


def test_every_function_is_typed() -> None:
    assert {name: missing for name, value in FUNCTIONS.items() if (missing := untyped(value))} == {}


@pytest.mark.parametrize("path", MODULES)
def test_every_method_is_typed_and_documented(path: str) -> None:
    for name, kind in public(path):
        for method, value in members(kind) if inspect.isclass(kind) else []:
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            assert untyped(function) == [], f"{name}.{method}"
            documented = inspect.getdoc(getattr(kind, method))  # that of the method it overrides counts
            told = isinstance(value, property) and method in (inspect.getdoc(kind) or "")
            assert documented or told, f"{name}.{method}"


def members(kind: type) -> list[tuple[str, Any]]:
    """The public methods and properties a class itself defines, and its constructor."""
    usual = inspect.isfunction, inspect.ismethoddescriptor, lambda v: isinstance(v, property | classmethod)
    return [
        (name, value)
        for name, value in vars(kind).items()
        if (not name.startswith("_") or name == "__init__")
        and any(test(value) for test in usual)
        and hasattr(value.fget if isinstance(value, property) else getattr(value, "__func__", value), "__code__")
    ]


def untyped(function: Any) -> list[str]:
    """The arguments without a type, and `return`."""
    signature = inspect.signature(function)
    names = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    return names + ["return"] * (signature.return_annotation is signature.empty)


def test_the_checks_notice() -> None:
    class Kind:
        def __init__(self, size):  # type: ignore[no-untyped-def]
            self.size = size

        def method(self) -> None:
            pass

    assert [name for name, _ in members(Kind)] == ["__init__", "method"]
    assert untyped(Kind.__init__) == ["size", "return"] and untyped(Kind.method) == []


@pytest.mark.parametrize("module", PLANNED)
def test_what_is_planned_says_so(module: str) -> None:
    namespace = find(module.removeprefix("workbench").lstrip("."))
    for name in " ".join(PLANNED[module]).split():
        assert not hasattr(namespace, name), f"{module}.{name} works: it is no plan any more"
        with pytest.raises(AttributeError, match=f"{name} is not available yet: .+"):
            getattr(namespace, name)


def test_an_unknown_name_comes_with_the_closest_one() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'softmax'"):
        _ = paddle.nn.functional.sofmax
