"""Arguments of the wrong kind: one clear error, at once, and nothing has changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.models import regression
from workbench import static
from workbench.errors import EnforceNotMet
from workbench.framework.program.guard import static_mode

WRONG = ["x", 3, -1, 1.5, [], {}, object(), float("nan"), b"x", [None], 10**20, np.float32(2)]
OF_TRAIN = [
    "program", "loader", "steps", "epochs", "fetch", "startup", "executor", "scope", "on_step", "lr_step", "name",
    "settings", "checkpoint", "devices", "valid", "valid_every", "checkpoints",
]  # fmt: skip


class Trained:
    """A program with values, and what they are."""

    def __init__(self) -> None:
        self.model, self.scope = regression(), static.Scope()
        static.Executor().run(self.model.startup, scope=self.scope)
        self.batches = [self.model.feed(i) for i in range(2)]
        self.values = self.held()

    def held(self) -> dict[str, bytes]:
        return {name: variable.tensor.array.tobytes() for name, variable in self.scope.vars.items()}

    def refuses(self, call: Callable[[], Any]) -> bool:
        """Whether a call is refused, as it should be; a run that begins all the same comes to its end."""
        try:
            result = call()
        except (EnforceNotMet, OSError):
            assert self.held() == self.values
            return True
        if isinstance(result, wb.experiments.Run):
            result.stop()
            with contextlib.suppress(EnforceNotMet, OSError):
                result.wait(60)
            self.values = self.held()
        return False


@pytest.fixture(scope="module")
def trained() -> Any:
    with static_mode():
        yield Trained()


@pytest.mark.parametrize("what", OF_TRAIN)
def test_train(what: str, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    good = {"program": trained.model.main, "loader": trained.batches, "steps": 1, "fetch": [trained.model.loss],
            "scope": trained.scope, "progress": False, "record": False}  # fmt: skip
    refused = [trained.refuses(lambda value=value: wb.train(**{**good, what: value})) for value in WRONG]
    assert sum(refused) >= (4 if what in ("steps", "epochs", "devices", "settings", "fetch", "loader", "valid") else 9)


@pytest.mark.parametrize("what", ["program", "data", "startup", "fetch", "devices", "learning_rate", "valid", "seed"])
def test_a_setup(what: str, trained: Trained) -> None:
    good = {"program": trained.model.main, "data": trained.batches, "startup": trained.model.startup, "steps": 1}
    refused = [
        trained.refuses(lambda value=value: wb.experiments.setup(**{**good, what: value}).start(record=False))
        for value in WRONG
    ]
    assert sum(refused) >= 4


def test_what_is_asked_of_a_run(trained: Trained, tmp_path: Path) -> None:
    setup = wb.experiments.setup(trained.model.main, trained.batches, trained.model.startup, steps=2)
    run = setup.start(record=False, progress=False).wait(60)
    run.save(tmp_path / "a.checkpoint")
    for value in (None, "x", [], {}, object(), float("nan"), b"x"):
        asked: list[Callable[[], Any]] = [
            lambda value=value: run.save(tmp_path / "b", timeout=value),
            lambda value=value: run.pause(value),
            lambda value=value: run.advance(value),
            lambda value=value: run.advance(1, value),
            lambda value=value: run.curve(value) if isinstance(value, str | None) else run.advance(value),
        ]
        if value is not None:
            asked += [
                lambda value=value: run.wait(value),
                lambda value=value: wb.resume(run, value),
                lambda value=value: wb.resume(run, setup, step=value),
                lambda value=value: wb.resume(run, setup, checkpoint=value),
                lambda value=value: static.CompiledProgram(trained.model.main).with_data_parallel(value or 3),
            ]
        for number, call in enumerate(asked):
            assert trained.refuses(call), (value, number)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("path", [None, 3, b"x", [], object(), "a\0b"])
def test_a_path(path: Any, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    executor, main = static.Executor(), trained.model.main
    run = wb.train(main, trained.batches, 1, scope=trained.scope, record=False, progress=False).wait(60)
    trained.values = trained.held()
    with static.scope_guard(trained.scope):
        calls: dict[str, Callable[[], Any]] = {
            "save": lambda: static.save(main, path),
            "load": lambda: static.load(main, path),
            "save_persistables": lambda: static.save_persistables(executor, path, main),
            "load_persistables": lambda: static.load_persistables(executor, path, main),
            "wb.save": lambda: wb.save({"a": 1}, path),
            "wb.load": lambda: wb.load(path),
        }
        if path is not None:
            calls["run.save"] = lambda: run.save(path)
            calls["checkpoint"] = lambda: wb.train(main, trained.batches, 1, scope=trained.scope, checkpoint=path)
        for call in calls.values():
            with pytest.raises(EnforceNotMet, match=r"is a str or an os\.PathLike, got|there is a NUL in"):
                call()
    assert not list(tmp_path.iterdir()) and trained.held() == trained.values
