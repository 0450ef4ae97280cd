"""Writes assets/digits.npz from scikit-learn's copy: `python assets/src/make_digits.py`."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TARGET = Path(__file__).resolve().parent.parent / "digits.npz"


def from_scikit_learn() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images of shape (1797, 8, 8) from 0 to 16 and labels of shape (1797,), both as stored."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)


if __name__ == "__main__":
    images, labels = from_scikit_learn()
    np.savez_compressed(TARGET, images=images, labels=labels)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
