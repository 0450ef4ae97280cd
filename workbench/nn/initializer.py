"""What parameters are filled with (Paddle 2.x's `paddle.nn.initializer`)."""

from workbench.facade import lazy

INITIALIZERS = {
    "workbench.builders.initializer": (
        "Assign Constant Initializer KaimingNormal KaimingUniform Normal TruncatedNormal Uniform "
        "XavierNormal XavierUniform calculate_gain set_global_initializer"
    ),
    "workbench.builders.shaped_initializer": "Bilinear=BilinearInitializer Dirac Orthogonal",
}

__getattr__, __dir__, __all__ = lazy("workbench.nn.initializer", INITIALIZERS)
