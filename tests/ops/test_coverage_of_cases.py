"""Every op has a case, and where it is differentiable one with a gradient, or a test that is named instead."""

from __future__ import annotations

import workbench.optimizer.rules  # noqa: F401  (fills the op table)
from tests.ops.test_cases import BROKEN, CASES, HERE, _differentiable
from workbench.framework.op.record import OPS

# Ops that cannot run from arrays alone: op type -> the test file that covers it.
_FLOW = ("cond", "cond_grad", "while", "while_grad")
_GROUPS = ("c_allreduce_sum", "c_broadcast", "c_comm_init", "c_comm_init_all", "c_gen_nccl_id", "gen_nccl_id")
_SERVERS = ("send", "recv", "send_barrier", "fetch_barrier", "listen_and_serv")
_TABLES = ("distributed_lookup_table", "distributed_lookup_table_grad", "fake_init", "split_selected_rows")
COVERED_ELSEWHERE = {
    **dict.fromkeys(_FLOW, "control_flow/test_control_flow.py"),
    **dict.fromkeys(_GROUPS + _SERVERS, "ops/distributed/test_declarations.py"),
    **dict.fromkeys(_TABLES, "ops/distributed/test_tables.py"),
    "pylayer": "builders/test_py_layer.py",
    "server_exchange": "servers/test_programs.py",
    **dict.fromkeys(("where_index", "unique"), "ops/index/test_selected.py"),
}


RECORDED = {case.type for case in CASES}
FORWARD = {
    type: record
    for type, record in OPS.items()
    if not record.is_grad and record.forward.__module__.startswith("workbench.")  # and no op that a test has declared
}


def test_case_files_can_be_read() -> None:
    assert not BROKEN, "\n".join(f"{name}:\n{text}" for name, text in BROKEN.items())


def test_every_op_has_a_case() -> None:
    missing = sorted(FORWARD.keys() - RECORDED - set(COVERED_ELSEWHERE))
    assert not missing, f"ops without a case in tests/ops/*/cases_*.py: {missing}"


def test_every_differentiable_op_has_a_gradient_case() -> None:
    """A case with grad=False does not cover the gradient."""
    covered = {case.type for case in CASES if case.type in OPS and _differentiable(case)}
    needed = {type for type, record in FORWARD.items() if record.differentiable}
    missing = sorted(needed - covered - set(COVERED_ELSEWHERE))
    assert not missing, f"differentiable ops whose gradient no case checks: {missing}"


def test_exceptions_name_a_test_that_covers_them() -> None:
    for type, file in COVERED_ELSEWHERE.items():
        forward = type.removesuffix("_grad")
        assert forward in (HERE.parent / file).read_text(), f"{file} does not mention {forward}"


def test_cases_name_registered_ops_once() -> None:
    labels = [case.label for case in CASES]
    assert sorted(set(labels)) == sorted(labels), "two cases share a label"
    unknown = sorted(RECORDED - set(OPS))
    assert not unknown, f"cases for unknown ops: {unknown}"
