"""Which layer an error comes from: `in layer model.encoder.0.linear1 (Linear)`."""

from __future__ import annotations

from typing import Any, NamedTuple

from workbench.errors import DtypeError, EnforceNotMet
from workbench.layers.naming import snake_case
from workbench.layers.tree import LayerTree


class Trail(NamedTuple):
    """How far an error has come up through the layers.

    Attributes:
        said: the message without the path.
        layer: the outermost layer so far.
        path: structured name of the innermost layer below it, "" for itself.
        kind: class of the innermost layer.
    """

    said: str
    layer: LayerTree
    path: str
    kind: str


def name_layer(error: EnforceNotMet, layer: LayerTree) -> None:
    """Say in an error's message that it comes from `layer`, or from a layer below that an inner call has named."""
    inner: Trail | None = vars(error).get("_trail")
    if inner is None:
        trail = Trail(_from_outside(error, layer), layer, "", type(layer).__name__)
    else:
        above = next((name for name, below in layer.named_sublayers() if below is inner.layer), None)
        if above is None:
            return  # called by a layer it is no part of
        trail = inner._replace(layer=layer, path=f"{above}.{inner.path}" if inner.path else above)
    vars(error)["_trail"] = trail
    _say(error, trail)


def _from_outside(error: EnforceNotMet, layer: LayerTree) -> str:
    """The message; of dtypes that differ, the layer's own is the expected one, whatever an op was given first."""
    rule, own = error.rule, {parameter.dtype for parameter in layer.parameters()}
    if not isinstance(rule, DtypeError) or rule.got not in own or rule.expected in own:
        return str(error)
    what = f"{type(layer).__name__} has {rule.got} parameters; cast its input, as in x.astype('{rule.got}')"
    return str(error).replace(rule.text(), DtypeError(what, rule.got, rule.expected).text())


def _say(error: Any, trail: Trail) -> None:
    path = ".".join(part for part in (snake_case(type(trail.layer).__name__), trail.path) if part)
    error.args = (f"{trail.said}\n  in layer {path} ({trail.kind})", *error.args[1:])
