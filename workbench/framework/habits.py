"""What PyTorch calls otherwise than Paddle: an error about `optimizer.zero_grad` says that it is `clear_grad()` here.

Modules and layers have a `__getattr__`, and say it themselves. Tensors and optimizers have none, for it would make
every access to an attribute slower: where the error ends a cell or a script, `suggest_attribute` adds it.
"""

from __future__ import annotations

import re
from linecache import getline
from types import TracebackType
from typing import Any

_DTYPES = {
    "bool": "bool", "byte": "uint8", "char": "int8", "double": "float64", "float": "float32", "half": "float16",
    "int": "int32", "long": "int64", "short": "int16",
}  # fmt: skip

# By the name of a class, and of what it has not; every entry begins with an attribute that it has.
METHODS: dict[str, dict[str, str]] = {
    "Optimizer": {
        "learning_rate": "get_lr() and set_lr()",
        "load_state_dict": "set_state_dict()",
        "lr": "get_lr() and set_lr()",
        "param_groups": "get_lr() and set_lr(); groups of parameters are given when the optimizer is made",
        "zero_grad": "clear_grad()",
    },
    "Layer": {
        "add_module": "add_sublayer()",
        "cpu": "to(device='cpu')",
        "cuda": "to(); layers live on the CPU so far",
        "double": "astype('float64')",
        "half": "astype('float16')",
        "load_state_dict": "set_state_dict()",
        "modules": "sublayers()",
        "named_modules": "named_sublayers()",
        "register_parameter": "add_parameter()",
        "requires_grad_": "parameters(): set stop_gradient = True on those that are not to be trained",
        "zero_grad": "clear_gradients()",
    },
    "Tensor": {
        **{name: f"astype('{dtype}')" for name, dtype in _DTYPES.items()},
        "clamp": "clip()",
        "device": "place",
        "div": "divide()",
        "eq": "equal()",
        "is_cuda": "place",
        "mul": "multiply()",
        "nelement": "numel()",
        "new_ones": "shape: wb.ones_like(x) makes a tensor like x",
        "new_zeros": "shape: wb.zeros_like(x) makes a tensor like x",
        "permute": "transpose(): the order of all axes is one list, as in x.transpose([1, 0])",
        "repeat": "tile(): the counts are one list, as in x.tile([2, 1])",
        "requires_grad": "stop_gradient, which is True where requires_grad is False",
        "requires_grad_": "stop_gradient: set it to False",
        "sub": "subtract()",
        "type_as": "astype()",
    },
}

# By the name of a module without `workbench.`, and of what it has not; every entry begins with a public name.
NAMES: dict[str, dict[str, str]] = {
    "workbench": {
        "cat": "wb.concat",
        "clamp": "wb.clip",
        "compile": "wb.jit.to_static",
        "from_numpy": "wb.to_tensor",
        "inference_mode": "wb.no_grad",
        "manual_seed": "wb.seed",
        "optim": "wb.optimizer",
        "permute": "wb.transpose",
        "relu": "wb.nn.functional.relu",
        "sigmoid": "wb.nn.functional.sigmoid",
        "softmax": "wb.nn.functional.softmax",
        "tensor": "wb.to_tensor",
    },
    "workbench.nn": {
        "DataParallel": "wb.DataParallel",
        "Module": "wb.nn.Layer",
        "ModuleDict": "wb.nn.LayerDict",
        "ModuleList": "wb.nn.LayerList",
        "Parameter": "wb.create_parameter",
        "init": "wb.nn.initializer",
    },
    "workbench.autograd": {"grad": "wb.grad", "no_grad": "wb.no_grad"},
    "workbench.amp": {"autocast": "wb.amp.auto_cast"},
    "workbench.jit": {"script": "wb.jit.to_static", "trace": "wb.jit.to_static"},
    "workbench.optimizer": {"lr_scheduler": "wb.optimizer.lr"},
}

KEYWORDS = {
    "betas": ("beta1", "beta2"),
    "bias": ("bias_attr",),
    "dim": ("axis",),
    "eps": ("epsilon",),
    "params": ("parameters",),
}

# What Python says of a call that it does not know to be of ours, and the line that made it.
_CALLS = (
    (r"'int' object is not callable", r"\.size\(", "size is the number of elements; x.shape is the list of sizes"),
    (r"'list' object is not an iterator", r"\.parameters\(", "parameters() is a list; its first is parameters()[0]"),
    (r"\w+\.train\(\) takes 1 positional", r"\.train\(", "eval() is what train(False) is elsewhere"),
    (r"\w+\.?\w+\(\) takes .*positional", r"\.(expand|tile|transpose|zeros|ones|rand|randn)\(",
     "sizes, counts and axes are one list, as in x.expand([2, 3])"),
)  # fmt: skip


def name_here(module: str, name: str) -> str:
    """` Here it is wb.nn.Layer` of `Module` in `workbench.nn`; empty where nothing is known."""
    here = NAMES.get(module, {}).get(name)
    return f" Here it is {here}" if here else ""


def attribute_here(kind: type, name: str) -> str:
    """`. Here it is clear_grad()` of `zero_grad` of a class of optimizers; empty where nothing is known."""
    for base in kind.__mro__:
        here = METHODS.get(base.__name__, {}).get(name) if base.__module__.startswith("workbench.") else None
        if here:
            return f". Here it is {here}"
    return ""


def suggest_attribute(error: AttributeError) -> None:
    """Add to the message about an attribute of an object of ours what it is called here."""
    hint = attribute_here(type(error.obj), error.name) if isinstance(error.name, str) else ""
    if hint and not str(error).endswith(hint):
        error.args = (f"{error}{hint}",)
        error.name = None  # or Python would suggest what is merely spelt alike


def call_here(error: TypeError, trace: TracebackType) -> str:
    """What to write in place of a call that Python refused, by the line of its innermost frame; empty as above."""
    line, text = getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno), str(error)
    hints = (f"; {hint}" for said, wrote, hint in _CALLS if re.match(said, text) and re.search(wrote, line))
    return next((hint for hint in hints if not text.endswith(hint)), "")


def keyword_here(name: str, takes: Any) -> str:
    """` Did you mean 'axis'?` of `dim`, where that is a keyword; empty where nothing is known."""
    meant = KEYWORDS.get(name, ())
    return f" Did you mean {' and '.join(map(repr, meant))}?" if meant and set(meant) <= set(takes) else ""
