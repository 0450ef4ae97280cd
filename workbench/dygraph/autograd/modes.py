"""Switching the recording of gradients off and on: `no_grad`, `enable_grad`, `set_grad_enabled`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

from workbench.framework.current import Replaced
from workbench.framework.gradmode import recording_gradients
from workbench.framework.program.guard import in_static_mode


class GradientRecording(Replaced):
    """For a `with` body, or a function or generator, in which gradients are recorded or not."""

    def __init__(self, is_recorded: bool) -> None:
        super().__init__((recording_gradients, is_recorded))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        @wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator, sent = function(*args, **kwargs), None
            try:
                while True:  # whoever takes the values goes on in a mode of their own
                    with self._recreate_cm():
                        value = generator.send(sent)
                    sent = yield value
            except StopIteration as end:
                return end.value
            finally:
                generator.close()

        return generate


class no_grad(GradientRecording):
    """Nothing that is computed inside records a gradient.

    Example:
        >>> x = wb.to_tensor([1.0], stop_gradient=False)
        >>> with wb.no_grad():
        ...     y = x * 2
        >>> y.stop_gradient
        True
        >>> @wb.no_grad()
        ... def double(x):
        ...     return x * 2
        >>> double(x).stop_gradient
        True
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Wrap a function, which `@no_grad` without brackets gives: it runs within this mode."""
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(GradientRecording):
    """What is computed inside records gradients, also within `no_grad`.

    Example:
        >>> x = wb.to_tensor([1.0], stop_gradient=False)
        >>> with wb.no_grad():
        ...     with wb.enable_grad():
        ...         y = x * 2
        >>> y.stop_gradient
        False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """As of `no_grad`."""
        return super().__new__(cls) if function is None else cls()(function)

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(GradientRecording):
    """From now on record gradients, or do not; as a `with` statement, until its body ends.

    Example:
        >>> x = wb.to_tensor([1.0], stop_gradient=False)
        >>> with wb.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.stop_gradient, (x * 2).stop_gradient
        (True, False)
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._before = recording_gradients.switch(bool(mode))

    def _begin(self) -> Callable[[], Any]:
        recording_gradients.switch(self._before)
        return super()._begin()


def is_grad_enabled() -> bool:
    """Whether what is computed here records gradients; False in static mode, where nothing is computed.

    Example:
        >>> wb.is_grad_enabled()
        True
    """
    return recording_gradients.get() and not in_static_mode()
