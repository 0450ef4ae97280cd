"""Where the time of steps goes: tables and timelines (in the spirit of `paddle.profiler`)."""

from workbench.facade import PROFILER, lazy

__getattr__, __dir__ = lazy("workbench.profiler", PROFILER)
