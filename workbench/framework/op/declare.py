"""Declaring an op: the decorator `op`, which makes the record and, if the op is differentiable, its backward op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.framework.op.grad_op import backward_op
from workbench.framework.op.record import Op, add_to_table, parse_slots


def register(record: Op) -> Op:
    """Add an op (and, if it is differentiable, its backward op) to the table.

    Raises:
        ValueError: it is there already, and not from an import of the same module that failed.
    """
    add_to_table(record)
    if record.differentiable:
        register(backward_op(record))
    return record


def op(
    type: str,
    slots: str,
    *,
    infer: Callable[..., Any],
    grad: Callable[..., Any] | None = None,
    saved: str | None = None,
    shape_only: str = "",
    named_only: str = "",
    no_grad: str = "",
    sparse: str = "",
    needs: str = "",
    like_x: str = "",
    same_rows: str = "",
    replicated: str = "",
    by_products: str = "",
    **record: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op; the decorated function is its forward body.

    Args:
        type: the op's name in a Program.
        slots: `"X, Y? -> Out"`, see `record.py`.
        saved: slots whose values `grad` reads; by default every input.
        shape_only, named_only, no_grad, sparse, needs, like_x, same_rows, replicated, by_products: see `Op`,
            written as `"X, Y"`.
        record: any further field of `Op`.
    """
    before, _, after = slots.partition("->")
    inputs, outputs = parse_slots(before), parse_slots(after)
    if saved is None:
        kept = tuple(s.name for s in inputs if s.name not in _names(shape_only))
    else:
        kept = _names(saved)

    def declare(forward: Callable[..., Any]) -> Op:
        doc = record.pop("doc", forward.__doc__ or "")
        return register(
            Op(
                type, inputs, outputs, forward, infer,
                grad=grad, saved=kept, shape_only=_names(shape_only), named_only=_names(named_only),
                no_grad=_names(no_grad), sparse=_names(sparse), needs=_names(needs), like_x=_names(like_x),
                same_rows=_names(same_rows), replicated=_names(replicated), by_products=_names(by_products),
                doc=doc, **record,
            )
        )  # fmt: skip

    return declare


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
