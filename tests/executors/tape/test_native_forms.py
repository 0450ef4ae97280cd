"""Ops without a native form, each with the reason why: a new one has a rule, or a line here."""

from __future__ import annotations

import pytest

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from workbench.executors.lowering.tape.table import rule_of
from workbench.framework.op.record import OPS
from workbench.graph.ssa import Node

WITHOUT = {
    "LAPACK does the work, whose routines take much longer than the calls around them": (
        "cholesky cholesky_grad determinant determinant_grad eigh eigh_grad inverse inverse_grad lstsq lu lu_grad"
        " lu_pivots qr qr_grad slogdeterminant slogdeterminant_grad solve solve_grad svd svd_grad triangular_solve"
        " triangular_solve_grad"
    ),
    "a series for special values, which training steps seldom need": (
        "digamma digamma_grad erfinv erfinv_grad i0 i0_grad i0e i0e_grad i1 i1_grad i1e i1e_grad lgamma lgamma_grad"
        " polygamma polygamma_grad"
    ),
    "how many results there are depends on values: NumPy finds them, kernels take what follows": "unique where_index",
    "it talks to other processes, or arranges that": (
        "c_allreduce_sum c_broadcast c_comm_init c_comm_init_all c_gen_nccl_id c_sync_calc_stream c_sync_comm_stream"
        " distributed_lookup_table distributed_lookup_table_grad fake_init fetch_barrier gen_nccl_id listen_and_serv"
        " recv ref_by_trainer_id send send_barrier server_exchange split_byref split_selected_rows"
    ),
    "it is what users write in Python": "pylayer",
    "it belongs to statistics over several devices, between whose parts a sum over them stands": (
        "batch_norm_grad_sums batch_norm_grad_with_sums batch_norm_sums batch_norm_with_sums"
    ),
    "it takes apart or scales sparse gradients, in few programs": (
        "get_tensor_from_selected_rows get_tensor_from_selected_rows_grad scale_rows"
    ),
    "it runs once, in a startup program or before an epoch": "randperm truncated_gaussian_random",
    "only second derivatives have it": (
        "conv2d_backprop_filter_grad conv2d_backprop_input_grad pool2d_pick pool2d_pick_grad pool2d_spread_grad"
        " split_like_grad"
    ),
    "no program of `workbench bench --coverage` has it, and it would take a kernel of its own": (
        "bitwise_not data_norm data_norm_grad gcd histogram lcm"
        " max_pool2d_with_index max_pool2d_with_index_grad mode mode_grad nce nce_grad nextafter"
        " selu_dropout selu_dropout_grad"
    ),
}
REASONS = {type: reason for reason, types in WITHOUT.items() for type in types.split()}


def has_native_form(type: str) -> bool:
    """Whether a rule takes an op; what decides in the end are its operands."""
    return rule_of(Node(type, (0,), [], [], {}, 0)) is not None


def of_the_package(type: str) -> bool:
    """Whether an op is the package's, and not one that a test has declared."""
    forward = OPS.get(type.removesuffix("_grad"), OPS[type])
    return forward.forward.__module__.startswith("workbench.")


@pytest.mark.parametrize("type", sorted(filter(of_the_package, OPS)))
def test_an_op_has_a_native_form_or_a_reason(type: str) -> None:
    assert has_native_form(type) != (type in REASONS), (
        "it has a native form: take its line out" if type in REASONS else "it has no rule: say why in this file"
    )


def test_each_reason_is_for_an_op_that_there_is() -> None:
    assert REASONS.keys() <= OPS.keys()
    assert len(REASONS) == sum(len(types.split()) for types in WITHOUT.values())  # each of them once
