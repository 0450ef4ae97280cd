"""An option that is given has an effect, or a notice or an error says that it has none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice

IDLE: dict[str, Callable[[Path], Any]] = {
    "save_dtype": lambda folder: wb.amp.decorate(wb.nn.Linear(1, 1), save_dtype="float32"),
    "master_grad": lambda folder: wb.amp.decorate(wb.nn.Linear(1, 1), master_grad=True),
    "use_promote": lambda folder: wb.amp.auto_cast(False, use_promote=False).__enter__(),
    "in_place": lambda folder: wb.nn.BatchNorm(2, in_place=True),
    "with_hook": lambda folder: saved(folder, with_hook=True),
    "keep_name_table": lambda folder: wb.jit.load(saved(folder), keep_name_table=True),
}
REFUSED: dict[str, tuple[Callable[[Path], Any], type[Exception]]] = {
    "with_hooks": (lambda folder: saved(folder, with_hooks=True), TypeError),
    "keep_names": (lambda folder: wb.jit.load(saved(folder), keep_names=True), TypeError),
    "top_k": (lambda folder: wb.metric.Accuracy(top_k=5), TypeError),
    "PR": (lambda folder: wb.metric.Auc(curve="PR"), ValueError),
    "CUDAPlace": (lambda folder: wb.disable_static(wb.CUDAPlace(0)), NotImplementedError),
    "scale": (lambda folder: wb.nn.RNN(wb.nn.LSTMCell(2, 2))(wb.ones([1, 2, 2]), scale=2.0), TypeError),
}


def saved(folder: Path, **configs: Any) -> str:
    path = str(folder / "model")
    wb.jit.save(wb.nn.Linear(4, 2), path, input_spec=[wb.static.InputSpec([None, 4])], **configs)
    return path


@pytest.mark.parametrize("name", IDLE)
def test_what_has_no_effect_is_said(name: str, tmp_path: Path) -> None:
    with pytest.warns(Notice, match=rf"{name} has no effect"):
        IDLE[name](tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name: str, tmp_path: Path) -> None:
    call, error = REFUSED[name]
    with pytest.raises(error, match=name):
        call(tmp_path)


def test_defaults_are_silent(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        wb.amp.decorate(wb.nn.BatchNorm(2), wb.optimizer.SGD(parameters=[]), level="O1")
        with wb.amp.auto_cast(dtype="bfloat16"):
            assert wb.jit.load(saved(tmp_path))(wb.ones([3, 4])).shape == [3, 2]
        wb.disable_static(wb.CPUPlace())
    assert np.isnan(wb.metric.Auc().accumulate()) or wb.metric.Auc().accumulate() == 0
