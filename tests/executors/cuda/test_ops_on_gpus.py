"""Every op and its gradient on a simulated GPU against its NumPy form, and which of them run on the host."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from tests.executors.cuda.simulated import gpus
from tests.ops import case as C
from tests.ops.test_cases import CASES
from tests.parallel.models import devices
from workbench import static
from workbench.config import override

EACH = 2  # cases of a type
FRAME = {"fill_any_like"}  # ops that are there only to compare gradients
IN_FLOAT64 = {"batch_norm_with_sums", "batch_norm_grad_with_sums"}  # take what another op has made

CONTROL = {"c_sync_calc_stream", "c_sync_comm_stream", "ref_by_trainer_id", "split_byref"}
LINEAR_ALGEBRA = {
    "cholesky", "determinant", "inverse", "lstsq", "lu", "lu_pivots", "slogdeterminant", "solve", "triangular_solve",
}  # fmt: skip
SPECIAL = {"digamma", "erfinv", "gcd", "i0", "i0e", "i1", "i1e", "lcm", "lgamma", "nextafter", "polygamma"}
OTHERS = {
    "accuracy", "argsort", "batch_norm_grad_sums", "bitwise_not", "conv2d_backprop_filter_grad",
    "conv2d_backprop_input_grad", "count_labels", "cummax", "cummin", "cumprod", "cumsum", "data_norm",
    "get_tensor_from_selected_rows", "histogram", "index_add", "lamb_ratio",
    "logcumsumexp", "lookup_table_grad", "lookup_table_v2_grad", "max_pool2d_with_index", "mode", "nce", "one_hot_v2",
    "pad", "pool2d_pick", "pool2d_spread_grad", "put_at_grad", "reduce_all", "reduce_any", "reduce_sum",
    "searchsorted", "selu_dropout", "softmax_with_cross_entropy", "split_like_grad", "sum", "top_k_v2", "unpad",
}  # fmt: skip
ON_THE_HOST = CONTROL | LINEAR_ALGEBRA | SPECIAL | OTHERS
"""Ops that have no kernel in at least one case; the gradient of such an op may have none either."""


def cases_by_type() -> dict[str, list[C.Case]]:
    cases = defaultdict(list)
    for case in CASES:
        if case.check is None and not any(map(C.is_rows, case.inputs)) and case.type not in IN_FLOAT64:
            cases[case.type].append(case)
    return cases


CASES_OF = cases_by_type()


def built(case: C.Case, arrays: list[Any]) -> tuple[Built, dict[str, np.ndarray], list[Any], Any]:
    """A program of one op and its gradients: the program, its feed, what is compared, and the loss."""
    feed = {f"x{i}": a for i, a in enumerate(C.leaves(arrays))}
    with Built() as program:
        inputs = [static.data(n, list(a.shape), str(a.dtype)) for n, a in feed.items()]
        for x in inputs:
            x.stop_gradient = False
        rest = iter(inputs)
        outputs = case.op(*(C.tree_map(lambda a: next(rest), value) for value in arrays), **case.attrs)
        slots = outputs if isinstance(outputs, tuple) else (outputs,)
        outs = [one for out in slots if out is not None for one in (out if isinstance(out, list) else [out])]
        outs = [wb.cast(out, "float32") for out in outs]
        floating = [x for x in inputs if x.dtype.is_float]
        weights = [static.data(f"weight_{i}", list(out.shape), "float32") for i, out in enumerate(outs)]
        loss = wb.add_n([wb.sum(out * w) for out, w in zip(outs, weights, strict=True)])
        grads = [g for g in static.gradients(loss, floating) if g is not None] if floating else []
    rng = np.random.default_rng(1)
    feed |= {w.name: rng.standard_normal(w.shape).astype(np.float32) for w in weights}
    return program, feed, [*outs, *grads], loss


def results(
    program: Built, feed: dict[str, np.ndarray], fetch: list[Any], loss: Any, use_cuda: bool
) -> tuple[list[np.ndarray], set[str]]:
    """What a program gives on one device, and the types of ops that ran on the host."""
    scope = static.Scope()
    if program.startup.global_block().ops:
        static.Executor().run(program.startup, scope=scope)
    with devices(1), override(cpu_tape=use_cuda):  # the kernels of the host say what rows touch
        executor = static.ParallelExecutor(
            use_cuda=use_cuda, main_program=program.main, scope=scope, loss_name=loss.name
        )
        values = [np.array(a) for a in executor.run([v.name for v in fetch], feed=feed)]
    return values, {node.type for node in executor.inspection.last.in_python} - FRAME


@pytest.mark.parametrize("type_", sorted(CASES_OF))
def test_an_op_and_its_gradient_give_numpys_numbers(type_: str) -> None:
    on_host = set()
    for case in CASES_OF[type_][:EACH]:
        with np.errstate(all="ignore"):
            arrays = case.arrays("float32")
        program = built(case, arrays)
        expected, _ = results(*program, use_cuda=False)
        with gpus(1):
            values, host = results(*program, use_cuda=True)
        on_host |= host
        for variable, a, b in zip(program[2], values, expected, strict=True):
            scale = 1 + np.abs(b[np.isfinite(b)]).max(initial=0)
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5 * scale, err_msg=f"{case} {variable.name}")
    unexpected = {op for op in on_host if op not in ON_THE_HOST and op.removesuffix("_grad") not in ON_THE_HOST}
    assert unexpected == set()
