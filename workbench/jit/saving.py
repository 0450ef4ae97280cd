"""`jit.save` and `jit.load`: layers and functions as files, with their values."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

from workbench.checkpoint.files import read_tensors
from workbench.checkpoint.inference_model import inference_program, read_model, write_model
from workbench.checkpoint.program_files import PARAMS, model_prefix
from workbench.dygraph.autograd.modes import no_grad
from workbench.errors import InvalidType
from workbench.framework.notice import tell_unused
from workbench.framework.site import caller
from workbench.jit.static_function import StaticFunction
from workbench.jit.translated_layer import TranslatedLayer
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.jit.values.objects import is_layer
from workbench.layers.evaluating import evaluating

_SAVED = "clip_extra", "combine_params", "output_spec", "skip_prune_program", "with_hook"
_LOADED = "keep_name_table", "model_filename", "params_filename"


def save(layer: Any, path: str | os.PathLike[str], input_spec: Any = None, **configs: Any) -> None:
    """Write the program of a layer, or of a function of `to_static`, as in evaluation, and the values it needs.

    Args:
        path: folder and file prefix; the files are those of `static.save_inference_model`.
        input_spec: an `InputSpec` (or a tensor like the input) per input; if None, that of `to_static`, or what it was
            called with last.
        configs: `clip_extra`, `combine_params`, `output_spec`, `skip_prune_program` and `with_hook` of Paddle's, which
            have no effect here; a notice says so.

    Raises:
        InvalidType: neither a layer nor a function; another keyword. PreconditionNotMet: nothing says what inputs are
            like.
        NeedsValue: something cannot be recorded. OSError: a file cannot be written.

    Example:
        >>> net = wb.nn.Linear(4, 2)
        >>> wb.jit.save(net, "model", input_spec=[wb.static.InputSpec([None, 4])])
        >>> wb.jit.load("model")(wb.ones([3, 4])).shape
        [3, 2]
    """
    tell_unused("jit.save", configs, _SAVED)
    forward = layer.forward if is_layer(layer) else layer
    if not callable(forward):
        raise InvalidType(f"jit.save takes a layer or a function, got {layer!r}")
    if not isinstance(forward, StaticFunction) or input_spec is not None:
        forward = StaticFunction(getattr(forward, "dygraph_function", forward), input_spec)
    with evaluating(layer) if is_layer(layer) else nullcontext(), no_grad():
        concrete, step = forward.get_concrete_program(*_last_arguments(forward))
    if step.follows_values:
        raise NeedsValue(
            "what is saved has to serve all values: Python reads an integer that the function computes, as a size or "
            f"an index; use x.shape, or -1 for a size that follows from the others\n  at {caller()}"
        )
    feeds, fetches = [v.name for v in concrete.inputs], [v.name for v in concrete.outputs]
    write_model(path, inference_program(concrete.main_program, feeds, fetches), step.scope)


def _last_arguments(forward: StaticFunction) -> tuple[Any, ...]:
    return () if forward.has_specification else forward.last_arguments


def load(path: str | os.PathLike[str], **configs: Any) -> TranslatedLayer:
    """A layer of what `save`, or `static.save_inference_model`, wrote.

    Args:
        path: folder and file prefix.
        configs: `keep_name_table`, `model_filename` and `params_filename` of Paddle's, which do nothing here; a notice
            says so.

    Raises:
        InvalidType: another keyword.
        InvalidArgument: no such model, or a damaged file. OSError: a file cannot be read.

    Example:
        >>> wb.jit.save(wb.nn.Linear(4, 2), "model", input_spec=[wb.static.InputSpec([None, 4])])
        >>> [parameter.shape for parameter in wb.jit.load("model").parameters()]
        [[4, 2], [2]]
    """
    tell_unused("jit.load", configs, _LOADED)
    program, feeds, fetches = read_model(path)
    tensors, _ = read_tensors(model_prefix(path) + PARAMS)
    return TranslatedLayer(program, feeds, fetches, tensors)
