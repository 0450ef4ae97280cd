"""Whether ops are recorded for gradients: in the process, or inside a `with` body of this thread."""

from __future__ import annotations

from workbench.framework.current import Current

recording_gradients: Current[bool] = Current("workbench_recording_gradients", True)
