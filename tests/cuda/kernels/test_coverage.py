"""For how many types of ops a CUDA kernel can be generated; run with `-s` to see the count."""

from __future__ import annotations

import workbench.ops  # fills the op table
import workbench.optimizer
from workbench.cuda.kernels.declared import covered, has_kernel
from workbench.framework.op.record import all_ops

assert workbench.ops
assert workbench.optimizer

BY_HAND = {
    "transposes": ("transpose2", "transpose2_grad"),
    "embedding": ("lookup_table", "lookup_table_grad", "lookup_table_v2", "lookup_table_v2_grad"),
    "random": (
        "dropout", "uniform_random", "uniform_random_batch_size_like", "gaussian_random",
        "gaussian_random_batch_size_like", "randint", "bernoulli",
    ),
    "pooling": (
        "pool2d", "pool2d_spread", "pool2d_pick", "max_pool2d_with_index", "pool2d_grad", "pool2d_spread_grad",
        "pool2d_pick_grad", "max_pool2d_with_index_grad",
    ),
    "convolution": (
        "conv2d", "depthwise_conv2d", "conv2d_backprop_input", "conv2d_backprop_filter", "conv2d_transpose",
        "conv2d_grad", "depthwise_conv2d_grad", "conv2d_backprop_input_grad", "conv2d_backprop_filter_grad",
        "conv2d_transpose_grad",
    ),
    "picking": (
        "gather", "gather_nd", "take_along_axis", "pick_label", "place_label", "one_hot", "one_hot_v2",
        "pick_label_grad", "place_label_grad", "scatter_rows_grad",
    ),
    "scattering": (
        "index_add", "scatter", "scatter_nd_add", "put_along_axis", "put_at", "scatter_rows", "gather_grad",
        "gather_nd_grad", "take_along_axis_grad", "index_add_grad", "scatter_grad", "scatter_nd_add_grad",
        "put_along_axis_grad", "put_at_grad",
    ),
    "pieces": (
        "concat", "concat_grad", "split", "split_grad", "split_like", "split_like_grad", "stack", "stack_grad",
        "unstack", "unstack_grad", "slice", "slice_grad", "strided_slice", "strided_slice_grad", "slice_put",
        "slice_put_grad", "flip", "flip_grad", "tile", "expand_v2", "expand_as_v2", "broadcast_to_like",
        "reduce_to_like_grad",
    ),
    "padding": ("pad", "pad_grad", "unpad", "unpad_grad", "roll", "roll_grad"),
    "ordering": (
        "argsort", "argsort_grad", "top_k", "top_k_grad", "top_k_v2", "top_k_v2_grad", "arg_max", "arg_min",
    ),
    "creation": (
        "fill_constant", "fill_constant_batch_size_like", "fill_any_like", "range", "linspace", "eye", "tril_triu",
        "tril_triu_grad", "count_labels", "accuracy",
    ),
    "attention": ("fused_dot_product_attention", "fused_dot_product_attention_grad"),
    "elementwise": ("sum", "dropout_grad"),
    "sums": (
        "reduce_to_like", "reduce_all", "reduce_any", "squared_l2_norm", "tile_grad", "expand_v2_grad",
        "expand_as_v2_grad", "broadcast_to_like_grad",
    ),
}  # fmt: skip
"""By the file of `cuda/kernels`, the ops whose work is what a kernel there does."""


def test_how_many_types_have_kernels() -> None:
    ops = all_ops()
    kinds = covered(list(ops.values()))
    for way, types in (*kinds.items(), *BY_HAND.items()):
        print(f"{len(types):4} from {way}")
    types = [name for group in (*kinds.values(), *BY_HAND.values()) for name in group]
    print(f"{len(types):4} of {len(ops)} types of ops have CUDA kernels")
    assert len(types) == len(set(types) & set(ops)), "each is counted once, and is a type"
    assert len(types) >= 290


def test_all_element_wise_ops_have_one() -> None:
    assert [op.type for op in all_ops().values() if op.is_elementwise and not has_kernel(op)] == []


def test_an_op_of_control_flow_has_none() -> None:
    assert has_kernel(all_ops()["while"]) == ""
