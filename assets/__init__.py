"""Data and front-end files shipped with the package, readable without the network."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_FOLDER = Path(__file__).resolve().parent
_LARGEST_PIXEL = 16  # the data set counts the set pixels of 4 x 4 blocks


def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Handwritten digits: real data small enough to ship.

    Returns:
        images of shape (1797, 8, 8), float32 from 0 to 1, and labels of shape (1797,), int64 from 0 to 9. Both
        are fresh arrays.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, the copy that comes with scikit-learn; see digits.md beside this file.
    """
    with np.load(_FOLDER / "digits.npz", allow_pickle=False) as stored:
        images = stored["images"].astype(np.float32) / np.float32(_LARGEST_PIXEL)
        return images, stored["labels"].astype(np.int64)
