"""A layer made from a function: `CELU = function_layer("CELU", celu, …)`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from workbench.layers.layer import Layer

REQUIRED = inspect.Parameter.empty
NAME = "name"


@dataclass(frozen=True)
class Recipe:
    """How a layer calls its function.

    Attributes:
        function: what it calls.
        inputs: names of what `forward` takes, in the order of the function's first arguments.
        signature: of the constructor.
        attributes: option -> the attribute of the layer that holds it.
        arguments: option -> the function's argument it is passed as.
        fixed: arguments that are always the same.
        text: what the text of the layer says of its options.
        shows_name: the text says the name, if there is one.
        follows_training: the function is told whether the layer is training.
    """

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    signature: inspect.Signature
    attributes: Mapping[str, str]
    arguments: Mapping[str, str]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    text: Callable[[Any], list[str]] = lambda layer: []
    shows_name: bool = False
    follows_training: bool = False


class FunctionLayer(Layer):
    """A layer that calls a function with the options it was made with; they are attributes, and may be changed."""

    recipe: ClassVar[Recipe]

    def __init__(self, *options: Any, **named: Any) -> None:
        super().__init__()
        try:
            given = self.recipe.signature.bind(*options, **named)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        given.apply_defaults()
        for option, value in given.arguments.items():
            setattr(self, self.recipe.attributes[option], value)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The function of the inputs and the layer's options."""
        recipe = self.recipe
        if named:
            inputs = self._in_order(inputs, named)
        options = {argument: getattr(self, recipe.attributes[option]) for option, argument in recipe.arguments.items()}
        if recipe.follows_training:
            options["training"] = self.training
        return recipe.function(*inputs, **options, **recipe.fixed)

    def _in_order(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Inputs given by name behind those given by place."""
        rest = self.recipe.inputs[len(inputs) :]
        if set(named) != set(rest):
            kind = type(self).__name__
            raise TypeError(
                f"{kind} takes ({', '.join(self.recipe.inputs)}), got {len(inputs)} inputs and {list(named)}"
            )
        return (*inputs, *(named[name] for name in rest))

    def extra_repr(self) -> str:
        """The options, as they were given."""
        told = self.recipe.text(self)
        name = getattr(self, self.recipe.attributes[NAME]) if self.recipe.shows_name else None
        return ", ".join([*told, f"name={name}"] if name else told)


def function_layer(
    kind: str,
    function: Callable[..., Any],
    options: Mapping[str, Any] | None = None,
    *,
    inputs: str = "x",
    prefix: str = "_",
    attributes: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    shown: str | Callable[[Any], list[str]] = "",
    has_name: bool = True,
    shows_name: bool = False,
    follows_training: bool = False,
    use: str = "",
    on: str = "wb.rand([2, 4])",
    about: str = "",
) -> type[FunctionLayer]:
    """The layer class of a function.

    Args:
        kind: its name.
        function: takes the inputs, then options by name.
        options: option of the constructor -> default, `REQUIRED` where there is none.
        inputs: what `forward` takes.
        prefix: before an option, the attribute that holds it; `attributes` names others.
        arguments: what an option is called by the function, where that differs.
        fixed: arguments of the function that are always the same.
        shown: options in the layer's text, `label:option` where the text calls one otherwise; or what says them.
        has_name: the constructor takes a `name`, the layer name of the result in a Program.
        follows_training: the function takes `training`.
        use, on: arguments of constructor and call in the docstring's example.
        about: what it does, where that is not what the function does.
    """
    names = [*(options or {}), *([NAME] if has_name else [])]
    defaults = {**(options or {}), NAME: None}
    held = {name: (attributes or {}).get(name, prefix + name) for name in names}
    recipe = Recipe(
        function=function,
        inputs=tuple(inputs.replace(",", " ").split()),
        signature=_signature(names, defaults),
        attributes=held,
        arguments={name: (arguments or {}).get(name, name) for name in names},
        fixed=fixed or {},
        text=_text(shown, held) if isinstance(shown, str) else shown,
        shows_name=shows_name and has_name,
        follows_training=follows_training,
    )
    body = {
        "__module__": sys._getframe(1).f_globals.get("__name__", __name__),
        "__doc__": _docstring(kind, recipe, about, use, on),
        "__signature__": recipe.signature,
        "recipe": recipe,
    }
    return type(kind, (FunctionLayer,), body)


def _signature(names: list[str], defaults: Mapping[str, Any]) -> inspect.Signature:
    usual = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, usual, default=defaults[name]) for name in names])


def _text(shown: str, held: Mapping[str, str]) -> Callable[[Any], list[str]]:
    """What says the options that are listed."""
    pairs = [(word.split(":")[0], held[word.split(":")[-1]]) for word in shown.split()]
    return lambda layer: [f"{label}={getattr(layer, attribute)}" for label, attribute in pairs]


def _docstring(kind: str, recipe: Recipe, about: str, use: str, on: str) -> str:
    function = getattr(recipe.function, "__name__", kind)  # an op has none
    first = about or (inspect.getdoc(recipe.function) or "").partition("\n")[0]
    told = ", ".join(f"`{option}`" for option in recipe.signature.parameters)
    args = f"Args:\n    {told}: see `{function}`.\n\n" if told else ""
    return (
        f"{first}\n\nThe layer of the function `{function}`; it takes ({', '.join(recipe.inputs)}).\n\n{args}"
        f"Example:\n    >>> layer = wb.nn.{kind}({use})\n    >>> y = layer({on})\n"
    )
