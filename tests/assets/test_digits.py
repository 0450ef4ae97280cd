"""The shipped digits are scikit-learn's, value for value."""

import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pytest

from workbench.assets import digits

ASSETS = Path(__file__).resolve().parent.parent.parent / "assets"


def maker():
    spec = importlib.util.spec_from_file_location("make_digits", ASSETS / "src" / "make_digits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_images_and_labels_have_the_promised_form() -> None:
    images, labels = digits()
    assert (images.shape, images.dtype) == ((1797, 8, 8), np.float32)
    assert (labels.shape, labels.dtype) == ((1797,), np.int64)
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert set(labels.tolist()) == set(range(10))


def test_each_call_gives_arrays_of_its_own() -> None:
    first, _ = digits()
    first[:] = 7
    assert digits()[0].max() == 1.0


def test_values_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    expected = datasets.load_digits()
    images, labels = digits()
    np.testing.assert_array_equal(images * 16, expected.images)
    np.testing.assert_array_equal(labels, expected.target)


def test_the_script_writes_the_stored_arrays_again() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    images, labels = maker().from_scikit_learn()
    with np.load(ASSETS / "digits.npz", allow_pickle=False) as stored:
        assert sorted(stored.files) == ["images", "labels"]
        np.testing.assert_array_equal(stored["images"], images)
        np.testing.assert_array_equal(stored["labels"], labels)


def test_the_file_is_small_and_holds_plain_arrays() -> None:
    path = ASSETS / "digits.npz"
    assert path.stat().st_size < 100_000
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["images.npy", "labels.npy"]
