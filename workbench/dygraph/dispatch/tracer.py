"""What programs for Paddle up to 2.1 reach for inside of dynamic mode: the tracer's switch of gradients."""

from __future__ import annotations

from workbench.framework.gradmode import recording_gradients
from workbench.framework.program.guard import in_static_mode


class DygraphTracer:
    """Stands for Paddle's tracer."""

    @property
    def _has_grad(self) -> bool:
        """Whether ops are recorded for gradients; setting it switches that, as `set_grad_enabled` does."""
        return recording_gradients.get()

    @_has_grad.setter
    def _has_grad(self, is_recorded: bool) -> None:
        recording_gradients.switch(bool(is_recorded))


_tracer = DygraphTracer()


def dygraph_tracer() -> DygraphTracer | None:
    """The tracer in dynamic mode, None in static mode."""
    return None if in_static_mode() else _tracer
