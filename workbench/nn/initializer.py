"""What parameters are filled with (Paddle 2.x's `paddle.nn.initializer`)."""

from workbench.facade import lazy

INITIALIZERS = {
    "workbench.builders.initializers.initializer": "Assign Constant Initializer Normal TruncatedNormal Uniform",
    "workbench.builders.initializers.default": "set_global_initializer",
    "workbench.builders.initializers.fans": "KaimingNormal KaimingUniform XavierNormal XavierUniform calculate_gain",
    "workbench.builders.initializers.shaped": "Bilinear=BilinearInitializer Dirac Orthogonal",
}

__getattr__, __dir__ = lazy("workbench.nn.initializer", INITIALIZERS)
