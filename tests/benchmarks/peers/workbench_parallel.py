"""The workloads in workbench's ParallelExecutor on CPU devices."""

from measure import main, weights

import workbench


def training(name, devices):
    # The baseline of the memory is `import workbench` alone, so the rest is loaded here.
    from workbench.experiments.bench import workloads

    model = workloads.training(workloads.WORKLOADS[name], devices)
    executor = model.executor
    matrices = (p for p in executor.program.all_parameters() if len(p.shape) > 1)
    for parameter, value in zip(matrices, weights(name), strict=True):
        executor.scope.get(parameter.name).set(value)
    return model.step


if __name__ == "__main__":
    main(training, workbench.__version__)
