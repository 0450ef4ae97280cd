"""`static.data`: the variables a program is fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.layer import require_static
from workbench.errors import AlreadyExists, InvalidType, Unimplemented
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.variable import Variable
from workbench.framework.values.default_dtype import default_dtype
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec


def data(name: str, shape: Sequence[int | None], dtype: Any = None, lod_level: int = 0) -> Variable:
    """Declare a variable the program is fed.

    Args:
        name: the key in `feed`.
        shape: None or a negative number is a dimension known only when the program runs.
        dtype: element type, that of `get_default_dtype` if None.
        lod_level: 0; sequences of varying length are not supported.

    Returns:
        a Variable with `stop_gradient=True` whose feeds are checked; the existing one if the same was
            declared before.

    Raises:
        PreconditionNotMet: in dynamic mode. AlreadyExists: the name is taken by something else, or by a
            declaration of another shape or dtype. InvalidType: not a name, shape or dtype.

    Example:
        >>> wb.enable_static()
        >>> static.data("image", [None, 1, 28, 28], "float32").shape
        (-1, 1, 28, 28)
    """
    require_static("static.data")
    spec = _declared(name, shape, dtype, lod_level)
    block = default_main_program().global_block()
    existing = block.vars.get(name)
    if existing is None:
        return block.create_var(name, spec.shape, spec.dtype, stop_gradient=True, is_data=True, need_check_feed=True)
    if not existing.is_data or existing.spec != spec:
        raise AlreadyExists(
            f"the program already has a variable {name!r}: {existing!r}, which is not {spec}"
            + (f"\n  declared at {existing.site}" if existing.site else "")
        )
    return existing


def _declared(name: Any, shape: Any, dtype: Any, lod_level: Any) -> Spec:
    if not isinstance(name, str) or not name:
        raise InvalidType(f"static.data takes a non-empty string as name, got {name!r}")
    if lod_level:
        raise Unimplemented(
            f"data {name!r}: lod_level={lod_level!r} is not supported; pad the sequences and feed a mask instead"
        )
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise InvalidType(f"data {name!r}: shape is a list of ints and None, got {shape!r}")
    return Spec(tuple(_dim(name, d) for d in shape), default_dtype() if dtype is None else as_dtype(dtype))


def _dim(name: str, value: Any) -> int:
    if value is None:
        return -1
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidType(f"data {name!r}: a dimension is an int or None, got {value!r}")
    return max(value.__index__(), -1)
