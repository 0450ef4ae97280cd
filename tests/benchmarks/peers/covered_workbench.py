"""The programs of `workbench bench --coverage` in workbench, as they are declared there."""

import math

from covered import NOISE, main

import workbench


class Instead:
    """A module with other functions in place of some of its own."""

    def __init__(self, module, **others):
        self.__dict__ = others
        self._module = module

    def __getattr__(self, name):
        return getattr(self._module, name)


def undrawn(paddle):
    """What users see, but nothing is drawn."""

    def noise(shape):
        return paddle.full(shape, NOISE, "float32")

    functional = Instead(paddle.nn.functional, dropout=lambda x, rate: x)
    return Instead(paddle, nn=Instead(paddle.nn, functional=functional), randn=noise, rand=noise)


def training(name, start, options):
    # Loaded here, so that the first step's time holds it.
    from workbench.experiments.bench.coverage.covered import all_programs

    parts = all_programs()[name].start(workbench if start.drawn else undrawn(workbench))

    def step():
        return sum(part.step().item() for part in parts)

    parameters = parts[0].executor.program.all_parameters()  # parts of a step have the same
    return step, sum(math.prod(parameter.shape) for parameter in parameters if parameter.trainable)


if __name__ == "__main__":
    main(training, workbench.__version__)
