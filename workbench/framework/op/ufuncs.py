"""Element-wise work as prebound NumPy calls: what a plan runs in place of `forward`.

Nothing is looked up, promoted or allocated when the calls run. The bits are those of `forward`: the same ufuncs
in the same order and dtypes, apart from rearrangements that are exact (choices by integer arithmetic on the bits,
comparisons that give numbers at once).
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.framework.expr.bound_steps import bind_steps
from workbench.framework.expr.exact_rewrites import for_buffers
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Unlowerable, lower
from workbench.framework.expr.step_calls import Array, Calls, Scratch
from workbench.framework.expr.step_tasks import ShapedSteps
from workbench.framework.op.bound_elementwise import bind_elementwise, passes_through

__all__ = ["bind_elementwise", "bind_expression", "passes_through"]


def bind_expression(
    results: Sequence[Expr], arrays: Sequence[Array | None], outs: Sequence[Array | None], scratch: Scratch
) -> Calls | None:
    """Prepare traced expressions for given buffers.

    Args:
        results: expressions, which may share parts.
        arrays: the inputs `Expr.value` counts; None for one that is not read. Any strides; shapes broadcast.
        outs: one buffer per result, of its shape and dtype; None = not wanted. May be the memory of an input.
        scratch: `scratch(shape, dtype)` gives memory for use while these calls run.

    Returns:
        callables without arguments which, run in order, fill `outs` with the bits of
        `result.evaluate(numpy_xp, *arrays)`; None for dtypes NumPy lacks (bfloat16) and outs that do not fit.
    """
    try:
        lowered = for_buffers(lower(results, [None if a is None else a.dtype for a in arrays]))
    except Unlowerable:
        return None
    layout = ShapedSteps(lowered, arrays, tuple(out is not None for out in outs))
    return bind_steps(layout, outs, scratch) if layout.fits(outs) else None
