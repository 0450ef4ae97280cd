"""What parameters are filled with (Paddle 2.x's `paddle.nn.initializer`)."""

from workbench.facade import lazy

INITIALIZERS = {
    "workbench.builders.initializer": "Assign Constant Initializer Normal TruncatedNormal Uniform",
    "workbench.builders.default_initializer": "set_global_initializer",
    "workbench.builders.fan_initializer": "KaimingNormal KaimingUniform XavierNormal XavierUniform calculate_gain",
    "workbench.builders.shaped_initializer": "Bilinear=BilinearInitializer Dirac Orthogonal",
}

__getattr__, __dir__, __all__ = lazy("workbench.nn.initializer", INITIALIZERS)
