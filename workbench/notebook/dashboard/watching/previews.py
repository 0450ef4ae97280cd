"""What a device was fed, at a glance: images as thumbnails, vectors as lines, labels as counts."""

from __future__ import annotations

import math

import numpy as np

from workbench.notebook.messages import Message, column

_IMAGES, _VECTORS, _NUMBERS, _LABELS = 4, 3, 8, 32
_PIXELS, _LENGTH = 64, 128  # of the longer side of a thumbnail; numbers of a vector


def preview(array: np.ndarray) -> Message:
    """The preview of one array of shape [rows, ...]; see `sample` in assets/src/README.md."""
    if array.size == 0 or array.dtype.kind not in "fiubV":
        return _numbers(np.zeros(0))
    if array.dtype.kind == "V":  # bfloat16
        array = array.astype(np.float32)
    if array.dtype.kind in "iu" and array.size == len(array):
        return _labels(array.reshape(-1))
    if array.ndim in (3, 4) and min(array.shape[-2:]) > 2:
        return {"kind": "image", "images": [_image(one) for one in array[:_IMAGES]]}
    if array.ndim >= 2 and array[0].size > 2:
        return {"kind": "vector", "rows": [_vector(one) for one in array[:_VECTORS]]}
    return _numbers(array.reshape(-1)[:_NUMBERS])


def _labels(values: np.ndarray) -> Message:
    labels, counts = np.unique(values, return_counts=True)
    if len(labels) > _LABELS:
        return _numbers(values[:_NUMBERS])
    return {"kind": "labels", "values": labels.tolist(), "counts": counts.tolist()}


def _numbers(values: np.ndarray) -> Message:
    return {"kind": "numbers", "values": column(values, "float64")}


def _vector(one: np.ndarray) -> np.ndarray:
    flat = one.reshape(-1)
    return column(flat[:: -(-flat.size // _LENGTH)], "float32")


def _image(one: np.ndarray) -> Message:
    """Of [height, width] or [channels, height, width]; channels are averaged, and drawn from black to white."""
    values = np.asarray(one, np.float32)
    low, high = _range(values)
    gray = values.mean(0) if values.ndim == 3 else values
    gray = gray[:: -(-gray.shape[0] // _PIXELS), :: -(-gray.shape[1] // _PIXELS)]
    black, white = _range(gray)
    scaled = np.nan_to_num((gray - black) / ((white - black) or 1.0), nan=0.0, posinf=1.0, neginf=0.0)
    return {
        "width": gray.shape[1], "height": gray.shape[0], "low": low, "high": high,
        "broken": int(values.size - np.isfinite(values).sum()),
        "pixels": column(np.rint(np.nan_to_num(scaled) * 255).clip(0, 255).reshape(-1), "uint8"),
    }  # fmt: skip


def _range(values: np.ndarray) -> tuple[float, float]:
    """Of those that are finite; NaN where none is."""
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (math.nan, math.nan)
