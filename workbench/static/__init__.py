"""Static programs: build, differentiate, run (Paddle 2.x's `paddle.static`)."""

from workbench.facade import STATIC, lazy

__getattr__, __dir__ = lazy("workbench.static", STATIC, ["nn"])
