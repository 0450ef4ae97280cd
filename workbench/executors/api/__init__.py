"""What users construct: Executor, ParallelExecutor, CompiledProgram."""
