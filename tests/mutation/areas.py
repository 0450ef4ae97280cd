"""What is mutated, area by area, and which tests are asked about it.

Sources are found by what they define, wherever it stands, so that files may be moved, renamed and split.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Area:
    """A part of the package.

    Attributes:
        holds: classes and functions; the modules that define them are the area's sources.
        tests: files, the likeliest to notice a fault first; quick ones, together about half a minute.
        count: how many faults the rules choose.
    """

    name: str
    holds: tuple[str, ...]
    tests: tuple[str, ...]
    count: int = 14

    def sources(self, root: Path) -> list[Path]:
        """The modules, relative to `root`.

        Raises:
            LookupError: nothing, or more than one module, defines a name.
        """
        sources: dict[Path, None] = {}
        for name in self.holds:
            pattern = re.compile(rf"^(?:class|def) {name}\b", re.MULTILINE)
            paths = [p for p in sorted((root / PACKAGE).rglob("*.py")) if pattern.search(p.read_text("utf-8"))]
            if len(paths) != 1:
                where = ", ".join(str(p.relative_to(root)) for p in paths) or "nowhere"
                raise LookupError(f"area {self.name!r} holds {name!r}, which one module should define; found: {where}")
            sources[paths[0].relative_to(root)] = None
        return list(sources)


PACKAGE = "workbench"

AREAS = (
    Area(
        "planning",
        (
            "make_plan",
            "flat_offsets",
            "shared_schedule",
            "arrange",
            "assigned_strides",
            "Shapes",
            "find_aliases",
            "find_takeovers",
            "share_storage",
            "assign_offsets",
        ),
        (
            "tests/planning/test_stages.py",
            "tests/parallel/steps/test_fed_persistables.py",
            "tests/parallel/memory/test_layout_assignment.py",
            "tests/parallel/failures/test_commit_calls.py",
            "tests/parallel/memory/test_memory_plan.py",
            "tests/parallel/memory/test_memory_modes.py",
            "tests/parallel/memory/test_fused_all_reduce_update.py",
            "tests/parallel/rules/test_rules_graph.py",
            "tests/executors/test_random_programs.py",
            "tests/executors/feeding/test_values.py",
            "tests/parallel/test_engine_corners.py",
            "tests/parallel/threads/test_threads.py",
            "tests/parallel/threads/test_several_executors.py",
            "tests/parallel/threads/test_changing_batches.py",
            "tests/planning/test_open_plans.py",
            "tests/planning/test_open_steps.py",
        ),
        20,
    ),
    Area(
        "open sizes",
        ("Sizes", "lower_bound", "Formulas", "OpenPlan", "PlanForm", "FilledPlan", "OpenTape", "OpenBinding",
         "MetaArray", "OpenBindings"),
        ("tests/planning/test_sizes.py", "tests/planning/test_open_plans.py",
            "tests/planning/test_open_steps.py"),
    ),
    Area(
        "control flow in kernels",
        ("SubTape", "LoopMemory", "BranchMemory"),
        ("tests/control_flow/test_native_loops.py",),
    ),
    Area(
        "binding",
        ("ThreadProgram", "BoundValues", "ScopeStorage", "RowLowering", "BoundStep", "WholeStep", "Compiler",
         "StepCache", "Cache"),
        (
            "tests/parallel/failures/test_commit_calls.py",
            "tests/parallel/steps/test_whole_step.py",
            "tests/parallel/steps/test_interrupted_whole_steps.py",
            "tests/planning/test_cache.py",
            "tests/parallel/failures/test_guards.py",
            "tests/parallel/inspection/test_stamps.py",
            "tests/parallel/test_engine_corners.py",
            "tests/parallel/rules/test_rules_scopes.py",
            "tests/parallel/failures/test_tape_failures.py",
            "tests/parallel/threads/test_threads.py",
            "tests/parallel/threads/test_several_executors.py",
            "tests/parallel/threads/test_changing_batches.py",
            "tests/parallel/steps/test_fed_persistables.py",
            "tests/parallel/rules/test_rules_strategies.py",
            "tests/executors/tape/test_sparse.py",
            "tests/executors/test_random_programs.py",
            "tests/parallel/failures/test_transactions.py",
            "tests/parallel/failures/test_errors_in_steps.py",
            "tests/parallel/failures/test_interrupts.py",
        ),
    ),
    Area(
        "feeding",
        ("split_sizes", "check_feed", "Merger", "Collector", "split_optimize_ops"),
        (
            "tests/executors/feeding/test_split.py",
            "tests/executors/feeding/test_fed_variables.py",
            "tests/executors/feeding/test_split_again.py",
            "tests/executors/feeding/test_merge.py",
            "tests/executors/test_messages.py",
            "tests/parallel/rules/test_rules_feed.py",
            "tests/parallel/rules/test_rules_fetch.py",
            "tests/executors/test_executor.py",
            "tests/executors/feeding/test_values.py",
            "tests/parallel/rules/test_traps.py",
            "tests/parallel/rules/test_traps_of_scopes.py",
            "tests/parallel/test_engine_corners.py",
        ),
    ),
    Area(
        "lowering",
        ("lower_collective", "lower_update", "bind_op", "call_attrs"),
        (
            "tests/executors/feeding/test_values.py",
            "tests/parallel/failures/test_commit_calls.py",
            "tests/executors/lowering/test_layouts.py",
            "tests/executors/test_random_programs.py",
            "tests/parallel/steps/test_equivalence.py",
            "tests/parallel/steps/test_split_by_hand.py",
            "tests/parallel/rules/test_rules_graph.py",
            "tests/parallel/test_engine_corners.py",
            "tests/parallel/memory/test_memory_plan.py",
            "tests/parallel/memory/test_fused_all_reduce_update.py",
            "tests/executors/lowering/test_operands.py",
        ),
    ),
    Area(
        "tape",
        (
            "TapeWriter",
            "Segment",
            "rule_of",
            "has_kernels",
            "scale_loss_grad",
            "write_update",
            "unstack_grad",
            "require_plain",
        ),
        (
            "tests/executors/tape/test_writer.py",
            "tests/executors/tape/test_copies.py",
            "tests/executors/tape/test_elementwise.py",
            "tests/executors/tape/test_sums.py",
            "tests/executors/tape/test_losses.py",
            "tests/executors/tape/test_norms.py",
            "tests/executors/tape/test_sparse.py",
            "tests/parallel/memory/test_sharded_updates.py",
            "tests/parallel/failures/test_tape_failures.py",
            "tests/parallel/inspection/test_tape_spans.py",
            "tests/parallel/inspection/test_stamps.py",
            "tests/parallel/memory/test_fused_all_reduce_update.py",
            "tests/executors/test_random_programs.py",
        ),
    ),
    Area(
        "transaction",
        ("Broken", "StepState", "StepRunner", "Prepared", "unchanged_on_error", "written_first", "LoDTensor"),
        (
            "tests/runtime/test_tensors.py",
            "tests/executors/running/test_ownership.py",
            "tests/executors/test_executor.py",
            "tests/executors/running/test_one_engine.py",
            "tests/executors/feeding/test_values.py",
            "tests/parallel/failures/test_commit_calls.py",
            "tests/executors/running/test_transactions.py",
            "tests/executors/running/test_step_state.py",
            "tests/optimizer/test_minimize.py",
            "tests/optimizer/test_optimizer_state.py",
            "tests/optimizer/test_minimize_refusals.py",
            "tests/executors/running/test_threads.py",
            "tests/framework/program/test_program.py",
            "tests/parallel/rules/test_rules_errors.py",
            "tests/parallel/rules/test_rules_fetch.py",
            "tests/parallel/failures/test_guards.py",
            "tests/parallel/failures/test_transactions.py",
            "tests/parallel/failures/test_errors_in_steps.py",
            "tests/parallel/failures/test_interrupts.py",
        ),
    ),
    Area(
        "threads",
        ("WorkerPool", "OneBlasThread"),
        (
            "tests/executors/lowering/test_worker_pool.py",
            "tests/runtime/test_undisturbed.py",
            "tests/parallel/threads/test_native_threads.py",
            "tests/parallel/failures/test_tape_failures.py",
            "tests/executors/running/test_threads.py",
            "tests/parallel/threads/test_threads.py",
            "tests/parallel/threads/test_several_executors.py",
            "tests/parallel/threads/test_changing_batches.py",
            "tests/parallel/failures/test_transactions.py",
            "tests/parallel/failures/test_errors_in_steps.py",
            "tests/parallel/failures/test_interrupts.py",
        ),
    ),
    Area(
        "teams",
        ("ThreadTeam", "TeamTrial", "Division", "blocks_of"),
        (
            "tests/native/test_blocks.py",
            "tests/executors/lowering/test_team_trial.py",
            "tests/parallel/threads/test_shared_nodes.py",
        ),
        10,
    ),
    Area(
        "replicas",
        ("Replicas", "ReplicatedValues", "FusedReductions", "Bucket", "_written_apart", "LocalCommunicator"),
        (
            "tests/parallel/memory/test_sharded_updates.py",
            "tests/parallel/memory/test_fused_all_reduce_update.py",
            "tests/parallel/rules/test_rules_scopes.py",
            "tests/parallel/failures/test_commit_calls.py",
            "tests/runtime/comm/test_local.py",
            "tests/parallel/test_engine_corners.py",
            "tests/parallel/memory/test_memory_modes.py",
            "tests/parallel/steps/test_whole_step.py",
            "tests/parallel/steps/test_interrupted_whole_steps.py",
        ),
    ),
    Area(
        "passes",
        ("gradient_groups", "FuseAllReduce", "FuseOptimizer", "DeadCode", "OrderCollectives", "ElementwiseChains",
         "FuseAddAct", "build_graph", "hazards"),
        (
            "tests/graph/test_passes.py",
            "tests/graph/test_collective_passes.py",
            "tests/graph/test_fused_chains.py",
            "tests/graph/test_rules_g.py",
            "tests/graph/test_check.py",
            "tests/graph/test_pass_results.py",
            "tests/parallel/rules/test_rules_graph.py",
            "tests/parallel/memory/test_reduce_copies.py",
            "tests/executors/feeding/test_values.py",
            "tests/parallel/transpiler/test_rules_collective.py",
        ),
    ),
)  # fmt: skip
