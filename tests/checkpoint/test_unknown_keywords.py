"""Keywords of saving, loading and `to`: those of Paddle's that have no effect are told, others are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.framework.notice import Notice
from workbench.framework.program.guard import program_guard, static_mode


def saved_inference(path: Path, **options: Any) -> Any:
    with static_mode(), program_guard(wb.static.Program(), wb.static.Program()):
        x = wb.static.data("x", [None, 2])
        wb.static.save_inference_model(path / "model", [x], [x * 2.0], wb.static.Executor(), **options)


def loaded_inference(path: Path, **options: Any) -> Any:
    saved_inference(path)
    return wb.static.load_inference_model(path / "model", wb.static.Executor(), **options)


def on_program(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Path, **options: Any) -> Any:
        with static_mode(), program_guard(wb.static.Program(), wb.static.Program()):
            x = wb.static.data("x", [None, 2])
            return function(x, x * 2.0, **options)

    return call


def normalized(x: Any, y: Any, **options: Any) -> Any:
    return wb.static.normalize_program(wb.static.default_main_program(), [x], [y], **options)


def serialized(x: Any, y: Any, **options: Any) -> Any:
    return wb.static.serialize_program([x], [y], **options)


def loaded(path: Path, **options: Any) -> Any:
    wb.save({"step": 3}, path / "state")
    return wb.load(path / "state", **options)


CALLS: dict[str, tuple[Callable[..., Any], str]] = {
    "save": (lambda path, **options: wb.save({"step": 3}, path / "state", **options), "use_binary_format"),
    "load": (loaded, "params_filename"),
    "save_inference_model": (saved_inference, "clip_extra"),
    "load_inference_model": (loaded_inference, "model_filename"),
    "normalize_program": (on_program(normalized), "skip_prune_program"),
    "serialize_program": (on_program(serialized), "legacy_format"),
}


@pytest.mark.parametrize(("call", "known"), CALLS.values(), ids=CALLS)
def test_paddles_are_told_and_others_refused(call: Callable[..., Any], known: str, tmp_path: Path) -> None:
    call(tmp_path)
    with pytest.warns(Notice, match=f"{known} has no effect"):
        call(tmp_path, **{known: True})
    with pytest.raises(TypeError, match=f"takes no '{known}s'. Did you mean '{known}'"):
        call(tmp_path, **{f"{known}s": True})


def test_the_program_meant_is_not_missed_for_its_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="Did you mean 'program'"):
        saved_inference(tmp_path, progam=wb.static.Program())


def test_a_tensor_goes_to_no_misspelt_dtype() -> None:
    x = wb.ones([2])
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtpye'"):
        x.to(dtpye="float64")
    assert x.to(device="cpu", dtype="float64", blocking=False).dtype == wb.float64
