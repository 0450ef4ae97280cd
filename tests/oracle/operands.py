"""Operands to try a function with, by the names of its parameters, and the program that calls it with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from zlib import crc32

TRIED = 48  # combinations of operands a function is tried with

# How operands are made: NumPy expressions over `r`, a RandomState. Tensors are those that begin with `r.` or `(r.`.
REAL = "r.uniform(-2, 2, (3, 4)).astype('float32')"
UNIT = "r.uniform(0.1, 0.9, (3, 4)).astype('float32')"
SQUARE = "r.uniform(-2, 2, (4, 4)).astype('float32')"
VECTOR = "r.uniform(-2, 2, (4,)).astype('float32')"
SERIES = "r.uniform(-2, 2, (2, 3, 8)).astype('float32')"
IMAGE = "r.uniform(-2, 2, (2, 3, 8, 8)).astype('float32')"
VOLUME = "r.uniform(-2, 2, (1, 3, 4, 4, 4)).astype('float32')"
DOUBLE = "r.uniform(-2, 2, (3, 4)).astype('float64')"
INTEGERS = "r.randint(0, 4, (3, 4))"
CLASSES = "r.randint(0, 4, (3,))"
COLUMN = "r.randint(0, 4, (3, 1))"
TRUTH = "r.uniform(size=(3, 4)) > 0.5"
FLOATS = (REAL, UNIT, IMAGE, SERIES, SQUARE, VECTOR, VOLUME, DOUBLE)

CANDIDATES: dict[str, Sequence[str]] = {
    "x": (*FLOATS, INTEGERS, TRUTH),
    "input": (*FLOATS, INTEGERS),
    "y": (REAL, UNIT, SQUARE, VECTOR, IMAGE, INTEGERS, TRUTH),
    "other": (REAL, SQUARE, INTEGERS),
    "label": (REAL, UNIT, CLASSES, COLUMN, INTEGERS),
    "logit": (REAL,),
    "condition": (TRUTH,),
    "mask": (TRUTH,),
    "index": (CLASSES, INTEGERS, COLUMN),
    "indices": (CLASSES, INTEGERS),
    "weight": (
        "r.uniform(-1, 1, (5, 3, 3, 3)).astype('float32')",
        "r.uniform(-1, 1, (3, 5, 3, 3)).astype('float32')",
        "r.uniform(-1, 1, (5, 3, 3)).astype('float32')",
        "r.uniform(-1, 1, (4, 5)).astype('float32')",
        "r.uniform(0, 1, (1,)).astype('float32')",
        "r.uniform(-1, 1, (2, 3, 2, 2, 2)).astype('float32')",
    ),
    "running_mean": ("r.uniform(-1, 1, (3,)).astype('float32')", VECTOR),
    "running_var": ("r.uniform(0.5, 1, (3,)).astype('float32')", "r.uniform(0.5, 1, (4,)).astype('float32')"),
    "normalized_shape": ("4", "8"),
    "axis": ("0", "1", "[0, 1]"),
    "perm": ("[1, 0]",),
    "shape": ("[3, 4]", "[4, 3]"),
    "repeat_times": ("[2, 1]",),
    "repeats": ("2",),
    "num_or_sections": ("2", "3"),
    "chunks": ("2", "3"),
    "num_classes": ("4",),
    "kernel_size": ("2",),
    "kernel_sizes": ("2",),
    "output_size": ("2",),
    "output_sizes": ("[8, 8]",),
    "upscale_factor": ("2",),
    "downscale_factor": ("2",),
    "groups": ("3",),
    "num_groups": ("3",),
    "size": ("3",),
    "k": ("2",),
    "n": ("2",),
    "p": ("2.0",),
    "pad": ("[1, 1, 1, 1]", "[1, 1]"),
    "padding": ("[1, 1, 1, 1]", "1"),
    "shifts": ("1",),
    "dtype": ("'float32'", "'int64'"),
    "axes": ("[0]",),
    "starts": ("[1]",),
    "ends": ("[3]",),
    "strides": ("[1]",),
    "source": ("0",),
    "destination": ("1",),
    "fill_value": ("1.5",),
    "value": ("1.5", REAL),
    "num": ("5",),
    "start": ("1",),
    "stop": ("4",),
    "end": ("4",),
    "num_rows": ("3",),
}
_TENSORS = ("r.", "(r.")


def operands(required: Sequence[str]) -> Iterator[dict[str, str]]:
    """Expressions by parameter name, the likeliest first; nothing where a parameter has no candidate."""
    if required and all(name in CANDIDATES for name in required):
        tried = product(*(CANDIDATES[name] for name in required))
        yield from (dict(zip(required, chosen)) for chosen in islice(tried, TRIED))


def program(function: str, chosen: dict[str, str], package: str) -> str:
    """An example that prints the results of a call, then the gradients of its floating operands."""
    lines = [f"import {package}", f"import {function.rpartition('.')[0]}", "import numpy as np"]
    lines += [f"r = np.random.RandomState({crc32(function.encode()) % 1000})"]
    tensors = [name for name, expression in chosen.items() if expression.startswith(_TENSORS)]
    lines += [
        f"{name} = {f'{package}.to_tensor({expression}, stop_gradient=False)' if name in tensors else expression}"
        for name, expression in chosen.items()
    ]
    lines += [
        f"out = {function}({', '.join(f'{name}={name}' for name in chosen)})",
        "outs = [o for o in (out if isinstance(out, (list, tuple)) else [out]) if o is not None]",
        "print('values', [(list(o.shape), o.numpy().tolist()) for o in outs])",
        "roots = [o for o in outs if 'float' in str(o.dtype) and not o.stop_gradient]",
        f"weights = [{package}.to_tensor(r.uniform(0.5, 1.5, o.shape).astype(o.numpy().dtype)) for o in roots]",
        f"grads = {package}.grad(roots, [{_floating(chosen, tensors)}], weights, allow_unused=True) if roots else []",
        "print('gradients', [None if g is None else (list(g.shape), g.numpy().tolist()) for g in grads])",
    ]
    return "".join(f">>> {line}\n" for line in lines)


def _floating(chosen: dict[str, str], tensors: Sequence[str]) -> str:
    return ", ".join(name for name in tensors if "float" in chosen[name])
