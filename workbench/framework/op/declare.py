"""Declaring an op: the decorator `op`, which makes the record and, if the op is differentiable, its backward op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.framework.op.grad_op import backward_op
from workbench.framework.op.record import Op, Slot, add_to_table, parse_slots


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
    aliases: Mapping[str, str] | None = None,
    shaped_like: Mapping[str, str] | None = None,
    traits: str = "",
    **record: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """Declare an op; the decorated function is its forward body.

    Args:
        type: the op's name in a Program.
        slots: `"X, Y? -> Out"`, see `record.py`.
        saved: slots whose values `grad` reads; by default every input.
        shape_only, named_only, no_grad, sparse, like_x, same_rows, replicated, by_products: the slots that have this
            trait, see `SLOT_TRAITS`; written as `"X, Y"`, as are `needs` and `traits`.
        aliases: `{output slot: input slot}`, shaped_like: `{input slot: other slot}`: see `Slot`.
        record: any further field of `Op`.
    """
    before, _, after = slots.partition("->")
    inputs, outputs = parse_slots(before), parse_slots(after)
    if saved is None:
        saved = ", ".join(s.name for s in inputs if s.name not in _names(shape_only))
    having = {
        "saved": saved, "shape_only": shape_only, "named_only": named_only, "no_grad": no_grad, "sparse": sparse,
        "like_x": like_x, "same_rows": same_rows, "replicated": replicated, "by_products": by_products,
    }  # fmt: skip
    inputs, outputs = (_with_traits(part, having, aliases or {}, shaped_like or {}) for part in (inputs, outputs))

    def declare(forward: Callable[..., Any]) -> Op:
        doc = record.pop("doc", forward.__doc__ or "")
        kinds = frozenset(_names(traits))
        return register(
            Op(type, inputs, outputs, forward, infer, grad=grad, needs=_names(needs), traits=kinds, doc=doc, **record)
        )

    return declare


def _with_traits(
    slots: Iterable[Slot], having: Mapping[str, str], aliases: Mapping[str, str], shaped_like: Mapping[str, str]
) -> tuple[Slot, ...]:
    """Slots with what a declaration says of them.

    Args:
        having: the slots that have a trait, by trait.
    """
    names = {trait: _names(text) for trait, text in having.items()}
    return tuple(
        s._replace(
            traits=frozenset(trait for trait, own in names.items() if s.name in own),
            alias=aliases.get(s.name, ""), shaped_like=shaped_like.get(s.name, ""),
        )
        for s in slots
    )  # fmt: skip


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
