"""What people type by mistake, and that the message says what it was: with both executors."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet, InvalidArgument, described
from workbench.framework.notice import Notice

IMAGES = np.ones((6, 4), np.float32)
LABELS = np.zeros((6, 1), np.int64)
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.fixture(params=["one device", "two devices", "the reference"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        image, label = static.data("image", [None, 4]), static.data("label", [None, 1], "int64")
        scores = static.nn.fc(image, 3)
        loss = wb.mean(wb.nn.functional.softmax_with_cross_entropy(scores, label))
        wb.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    scope = static.Scope()
    executor.run(startup, scope=scope)
    program: Any = main
    if request.param == "two devices":
        places = static.cpu_places(2)
        program = static.CompiledProgram(main).with_data_parallel(loss_name=loss.name, places=places)

    def go(feed: Any, fetch_list: Any = (loss,)) -> Any:
        fetches = list(fetch_list) if isinstance(fetch_list, tuple) else fetch_list
        return executor.run(program, feed=feed, fetch_list=fetches, scope=scope)

    go.loss = loss  # type: ignore[attr-defined]
    with override(executor="reference" if request.param == "the reference" else "compiled"):
        yield go


def message(run: Run, *arguments: Any) -> str:
    with pytest.raises(EnforceNotMet) as caught:
        run(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("run", ["one device", "two devices"], indirect=True)
def test_unequal_numbers_of_rows_are_told(run: Run) -> None:
    text = message(run, {"image": IMAGES, "label": LABELS[:4]})
    assert "the feeds have different numbers of rows: 'image' 6, 'label' 4" in text
    assert "different numbers" not in message(run, {"image": IMAGES, "label": LABELS + 7})


def test_feed_and_fetches_exchanged_are_told_without_the_arrays(run: Run) -> None:
    text = message(run, [run.loss], {"image": IMAGES, "label": LABELS})  # type: ignore[attr-defined]
    assert "keys 'image', 'label'; feed and fetch_list look exchanged" in text
    assert "1." not in text
    assert message(run, {"image": IMAGES, "label": LABELS}, [IMAGES]).endswith("got an array float32[6, 4]")


def test_arrays_without_names_are_told_the_names(run: Run) -> None:
    assert "name the arrays: feed={'image': …, 'label': …}" in message(run, [IMAGES, LABELS])


def test_arrays_under_each_others_names_are_told(run: Run) -> None:
    exchanged = "the arrays for 'image' and 'label' look exchanged"
    assert exchanged in message(run, {"image": LABELS, "label": IMAGES})
    assert exchanged not in message(run, {"image": IMAGES.astype("float64"), "label": LABELS})
    half = {"image": LABELS, "label": IMAGES[:, :1]}  # one fits by its dtype alone
    assert exchanged not in message(run, half)


def test_a_list_of_the_wrong_length_is_an_invalid_argument(run: Run) -> None:
    with pytest.raises(InvalidArgument, match="list of 3"):
        run([{"image": IMAGES, "label": LABELS}] * 3)


def test_who_asks_for_the_loss_by_another_name_is_told_its_name(run: Run) -> None:
    text = message(run, {"image": IMAGES, "label": LABELS}, ["los"])
    assert f"Its loss is called {run.loss.name!r}." in text  # type: ignore[attr-defined]


def test_a_bad_label_is_found_in_the_whole_batch(run: Run) -> None:
    labels = LABELS.copy()
    labels[4] = 7
    text = message(run, {"image": IMAGES, "label": labels})
    where = "in the whole batch that is row 4 of 'label'"
    assert where in text if "cpu:1" in text else "position [4, 0]" in text


def test_a_batch_for_each_device_has_no_row_in_the_whole_batch() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        row = static.nn.embedding(static.data("word", [None, 1], "int64"), (5, 2))
    executor, scope = static.Executor(), static.Scope()
    executor.run(startup, scope=scope)
    compiled = static.CompiledProgram(main).with_data_parallel(places=static.cpu_places(2))
    good, bad = np.array([[1], [2]]), np.array([[3], [9]])
    with pytest.raises(EnforceNotMet, match="failed on cpu:1") as caught:
        executor.run(compiled, feed=[{"word": good}, {"word": bad}], fetch_list=[row], scope=scope)
    assert "whole batch" not in str(caught.value)


def test_an_unknown_loss_name_is_told_the_loss(run: Run) -> None:
    loss: static.Variable = run.loss  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=f"Its loss is called '{loss.name}'"):
        static.CompiledProgram(loss.block.program).with_data_parallel(loss_name="los")


def test_minimizing_twice_is_noticed_and_once_more_for_another_loss_is_not(recwarn: Any) -> None:
    with static.program_guard(static.Program(), static.Program()):
        scores = static.nn.fc(static.data("image", [None, 4]), 3)
        one, other = wb.mean(scores), wb.mean(scores * scores)
        optimizer = wb.optimizer.SGD(0.1)
        optimizer.minimize(one)
        optimizer.minimize(other)
        assert not recwarn.list
        with pytest.warns(Notice, match=f"minimizes '{one.name}' already") as told:
            optimizer.minimize(one)
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda loss: loss.backward(), r"optimizer\.minimize\(loss\)"),
        (lambda loss: loss.item(), "fetch it"),
        (lambda loss: loss.blok, "Did you mean 'block'"),
    ],
)
def test_a_variable_says_what_it_has_not(run: Run, ask: Callable[[Any], Any], answer: str) -> None:
    with pytest.raises(AttributeError, match=answer):
        ask(run.loss)  # type: ignore[attr-defined]
    assert not hasattr(run.loss, "backward")  # type: ignore[attr-defined]


@pytest.mark.parametrize("ask", [float, int, lambda loss: f"{loss:.3f}", np.asarray])
def test_a_variable_has_no_number(run: Run, ask: Callable[[Any], Any]) -> None:
    with pytest.raises(EnforceNotMet, match="run the program and fetch it"):
        ask(run.loss)  # type: ignore[attr-defined]


def test_float_of_a_variable_is_a_type_error_as_python_has_it(run: Run) -> None:
    with pytest.raises(TypeError):
        float(run.loss)  # type: ignore[attr-defined]
    assert f"{run.loss}" == repr(run.loss)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "wrong", "right"),
    [
        (wb.optimizer, "Adamm", "Adam"),
        (wb.optimizer.lr, "StepDecy", "StepDecay"),
        (wb.static.nn, "conv2dd", "conv2d"),
        (wb, "meen", "mean"),
    ],
)
def test_a_misspelt_name_of_a_module_gets_a_suggestion(module: Any, wrong: str, right: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{wrong}'. Did you mean '{right}'"):
        getattr(module, wrong)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (IMAGES, "an array float32[6, 4]"),
        ([IMAGES, IMAGES], "a list of 2: an array float32[6, 4]"),
        ({}, "an empty dict"),
        ((), "an empty tuple"),
        ("x" * 300, "str " + repr("x" * 300)[:100] + "…"),
        (3, "3"),
    ],
)
def test_values_are_described_in_a_few_words(value: Any, words: str) -> None:
    assert described(value) == words
