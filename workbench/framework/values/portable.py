"""Objects that a program may hold and be saved with: regularizers, learning-rate schedulers.

A file never names a class to import. It names one that was registered here, by its short name:

    @portable
    class L2Decay:
        def __init__(self, coeff: float) -> None: ...
        def to_config(self) -> dict[str, Any]: return {"coeff": self.coeff}

A class whose constructor does not take what `to_config` gives has a class method `from_config(config)`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from workbench.errors import InvalidArgument, NotFound, did_you_mean

_classes: dict[str, Any] = {}
C = TypeVar("C", bound=type)


def portable(cls: C) -> C:
    """Register a class; its `to_config()` gives its arguments as plain values (a `"type"` is ignored).

    Raises:
        InvalidArgument: it has no `to_config`, or the name belongs to a class of another module (running the
            cell or module that defines the class again is fine).
    """
    if not callable(getattr(cls, "to_config", None)):
        raise InvalidArgument(f"class {cls.__name__} has no method to_config")
    known = _classes.get(cls.__name__)
    if known is not None and known.__module__ != cls.__module__:
        raise InvalidArgument(f"a class {cls.__name__} is registered already, from {known.__module__}")
    _classes[cls.__name__] = cls
    return cls


def config_of(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Name and configuration of an object of a registered class, None for any other."""
    name = type(value).__name__
    if _classes.get(name) is not type(value):
        return None
    return name, {key: field for key, field in value.to_config().items() if key != "type"}


def from_config(name: str, config: dict[str, Any]) -> Any:
    """The object of a registered class.

    Raises:
        NotFound: no class of that name is registered. InvalidArgument: the class refuses the configuration.
    """
    cls = _classes.get(name)
    if cls is None:
        hint = did_you_mean(name, _classes)
        raise NotFound(f"there is no class {name!r} of objects that programs hold.{hint}")
    try:
        return cls.from_config(config) if hasattr(cls, "from_config") else cls(**config)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise InvalidArgument(f"{name} does not take the configuration {config!r}: {error}") from error
