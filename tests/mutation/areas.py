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
        ("SubTape", "BlockGraph", "LoopMemory", "BranchMemory"),
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
        ("lower_collective", "lower_update", "call_attrs"),
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
            "declared_row",
            "_pointed",
        ),
        (
            "tests/executors/tape/test_writer.py",
            "tests/executors/tape/test_declared.py",
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
    Area(
        "optimizer",
        ("Optimizer", "States", "ClipGradByGlobalNorm", "add_decay", "Groups", "UpdateRule", "Update", "Adam", "Lamb",
         "RMSProp", "ReduceOnPlateau", "LRScheduler", "NoamDecay", "OneCycleLR", "strong_wolfe"),
        (
            "tests/optimizer/test_formulas.py",
            "tests/optimizer/test_clip_and_decay.py",
            "tests/optimizer/test_lr.py",
            "tests/optimizer/test_dynamic.py",
            "tests/optimizer/test_optimizer_state.py",
            "tests/optimizer/test_minimize.py",
            "tests/optimizer/test_minimize_refusals.py",
            "tests/optimizer/test_own_optimizer.py",
            "tests/optimizer/test_lbfgs.py",
            "tests/optimizer/test_interrupted.py",
            "tests/jit/test_same_bits.py",
        ),
        24,
    ),
    Area(
        "checkpoint",
        ("replace_file", "write_tensors", "write_pieces", "require_folder", "values_between_steps",
         "set_program_state", "Restore", "normalize_program", "check_stamp", "_Unflattening", "inference_program"),
        (
            "tests/checkpoint/test_files.py",
            "tests/checkpoint/test_atomic.py",
            "tests/checkpoint/test_parts.py",
            "tests/checkpoint/test_pieces.py",
            "tests/checkpoint/test_objects.py",
            "tests/checkpoint/test_program_files.py",
            "tests/checkpoint/test_program_state.py",
            "tests/checkpoint/test_saved_whole.py",
            "tests/checkpoint/test_unknown_keywords.py",
            "tests/checkpoint/test_while_training.py",
            "tests/jit/test_saving.py",
        ),
        24,
    ),
    Area(
        "dynamic mode",
        ("DynamicRecorder", "PreparedOp", "fast_forward", "PreparedWrite", "recorded_gradients", "GradientReceiver",
         "ArrayGradients", "Rewrite", "BackwardWalk", "RepeatedWrites", "as_it_was", "Jacobian", "RecordedGradients",
         "PyLayerContext"),
        (
            "tests/dygraph/test_backward.py",
            "tests/dygraph/test_inplace.py",
            "tests/dygraph/test_grad.py",
            "tests/dygraph/test_views.py",
            "tests/dygraph/test_py_layer.py",
            "tests/dygraph/test_sharing.py",
            "tests/dygraph/test_kernels.py",
            "tests/dygraph/test_memory.py",
            "tests/dygraph/test_random_graphs.py",
            "tests/dygraph/test_varying.py",
            "tests/dygraph/test_gaps.py",
            "tests/dygraph/test_array_operands.py",
            "tests/dygraph/test_cases_on_tape.py",
            "tests/dygraph/test_second_derivatives_on_tape.py",
        ),
        24,
    ),
    Area(
        "data parallel",
        ("Travelling", "ExchangeBucket", "fused_allreduce_gradients", "DataParallel", "share_start_values"),
        (
            "tests/processes/data_parallel/test_data_parallel.py",
            "tests/processes/data_parallel/test_captured_data_parallel.py",
            "tests/processes/data_parallel/test_samples.py",
        ),
        22,
    ),
    Area(
        "transpiler",
        ("TensorBlock", "DistributeTranspiler", "RoundRobin", "CollectiveTranspiler", "GradAllReduce", "LocalSGD",
         "RingMembers", "corrected", "push_changes", "Layout", "schedule_of", "ServerProgram", "server_startup",
         "pull_rows", "exchange_with_servers", "wait_for_ports"),
        (
            "tests/parallel/transpiler/test_golden_programs.py",
            "tests/parallel/transpiler/test_rules_servers.py",
            "tests/parallel/transpiler/test_rules_server_programs.py",
            "tests/parallel/transpiler/test_rules_tables.py",
            "tests/parallel/transpiler/test_rules_collective.py",
            "tests/parallel/transpiler/test_waiting_for_ports.py",
            "tests/servers/test_programs.py",
        ),
        24,
    ),
    Area(
        "servers",
        ("Share", "GeoProgress", "HalfAsyncExchange", "Link", "Duty", "RowChanges", "CheckpointKeeper",
         "TrainerMembers", "ParameterServer", "Values", "Outbox", "require_protection", "SharedInbox",
         "encoded_head", "Question"),
        (
            "tests/servers/test_messages.py",
            "tests/servers/serving/test_server.py",
            "tests/servers/serving/test_server_failures.py",
            "tests/servers/serving/test_changed_rows.py",
            "tests/servers/asking/test_geo_exchange.py",
            "tests/servers/asking/test_half_async.py",
            "tests/servers/asking/test_links.py",
            "tests/servers/test_programs.py",
            "tests/servers/test_modes.py",
            "tests/servers/transports/test_transports.py",
            "tests/servers/transports/test_shared_memory.py",
        ),
        24,
    ),
    Area(
        "captured steps",
        ("RecordedStep", "RecordedFunction", "StaticFunction", "CapturedTensor", "TranslatedLayer"),
        (
            "tests/jit/test_same_bits.py",
            "tests/jit/test_recorded_again.py",
            "tests/jit/test_expectation.py",
            "tests/jit/test_read_values.py",
            "tests/jit/test_refusals.py",
            "tests/jit/test_shared_values.py",
            "tests/jit/test_handed_on.py",
            "tests/jit/test_to_static.py",
            "tests/jit/test_control_flow.py",
            "tests/jit/test_value_branches.py",
            "tests/jit/test_saving.py",
            "tests/jit/test_random_state.py",
            "tests/jit/test_interrupted.py",
            "tests/jit/test_arguments.py",
            "tests/jit/test_dashboard.py",
            "tests/jit/test_lookups.py",
            "tests/jit/test_methods.py",
            "tests/jit/test_recordings.py",
            "tests/jit/test_sameness.py",
            "tests/jit/test_sources.py",
        ),
        24,
    ),
)  # fmt: skip
