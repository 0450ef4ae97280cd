"""Values of a program's variables as dictionaries, tensors and bytes: what comes back is what was there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, ShapeError
from workbench.framework.names import guard
from workbench.framework.notice import Notice
from workbench.framework.program.guard import program_guard, static_mode
from workbench.framework.program.program import Program

X = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture
def net() -> Iterator[Any]:
    """A program with momentum, its input and prediction, and an executor that has run the startup program."""
    main, startup = Program(), Program()
    with guard(), static_mode(), program_guard(main, startup), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 4])
        y = static.nn.fc(x, 2, name="fc")
        wb.optimizer.Momentum(0.1).minimize(wb.mean(y))
        executor = static.Executor()
        executor.run(startup)
        yield main, x, y, executor


def test_values_are_read_and_written_by_name(net: Any) -> None:
    main, _, _, executor = net
    before = main.state_dict()
    assert set(main.state_dict("param")) == {"fc.w_0", "fc.b_0"}
    assert set(main.state_dict("opt")) == set(before) - {"fc.w_0", "fc.b_0"} and len(main.state_dict("opt")) >= 2
    executor.run(main, feed={"x": X})
    after = main.state_dict()["fc.w_0"].array
    assert not np.array_equal(after, before["fc.w_0"].array)
    main.set_state_dict(before)
    weight = main.global_block().var("fc.w_0")
    np.testing.assert_array_equal(weight.get_value().array, before["fc.w_0"].array)
    weight.set_value(after)
    np.testing.assert_array_equal(main.state_dict()["fc.w_0"].array, after)


def test_a_dictionary_that_does_not_fit_changes_nothing(net: Any) -> None:
    main = net[0]
    before = main.state_dict()
    with pytest.raises(ShapeError, match=r"fc\.w_0"):
        main.set_state_dict({"fc.b_0": np.ones(2, np.float32), "fc.w_0": np.ones(3, np.float32)})
    with pytest.raises(InvalidType, match="float32"):
        main.set_state_dict({"fc.b_0": np.ones(2)})
    np.testing.assert_array_equal(main.state_dict()["fc.b_0"].array, before["fc.b_0"].array)
    with pytest.raises(InvalidArgument, match="mode"):
        main.state_dict("all parameters")
    with pytest.raises(InvalidType, match="Scope"):
        main.state_dict(scope={})
    with pytest.raises(PreconditionNotMet, match="startup"):
        main.state_dict(scope=static.Scope())
    with pytest.warns(Notice, match="nowhere"):
        main.set_state_dict({"nowhere": np.ones(1)})


def test_what_static_save_wrote_is_a_dictionary(net: Any, tmp_path: Path) -> None:
    main = net[0]
    static.save(main, str(tmp_path / "m"))
    state = static.load_program_state(str(tmp_path / "m"))
    assert {name: value.tolist() for name, value in state.items()} == {
        name: value.tolist() for name, value in main.state_dict().items()
    }
    assert set(static.load_program_state(str(tmp_path / "m"), [main.global_block().var("fc.b_0")])) == {"fc.b_0"}
    with pytest.raises(NotFound, match="nowhere"):
        static.load_program_state(str(tmp_path / "m"), ["nowhere"])
    static.set_program_state(main, {"fc.b_0": np.ones(2, np.float32)})
    assert main.state_dict()["fc.b_0"].tolist() == [1.0, 1.0]


def test_bytes_carry_program_and_values(net: Any, tmp_path: Path) -> None:
    main, x, y, executor = net
    predicting = static.normalize_program(main, [x], [y])
    wanted = executor.run(predicting, feed={"x": X}, fetch_list=[y.name])[0]
    program, values = static.serialize_program([x], [y]), static.serialize_persistables(x, y, executor)
    static.save_to_file(tmp_path / "program", program)
    with static.scope_guard(static.Scope()):
        restored = static.deserialize_program(static.load_from_file(tmp_path / "program"))
        static.deserialize_persistables(restored, values, executor)
        np.testing.assert_array_equal(executor.run(restored, feed={"x": X}, fetch_list=[y.name])[0], wanted)
    assert not any("momentum" in op.type for op in restored.all_ops())


@pytest.mark.parametrize("data", [b"", b"{}", b"\x80\x04N."])
def test_other_bytes_are_refused(net: Any, data: bytes) -> None:
    main, _, y, executor = net
    with pytest.raises(InvalidArgument):
        static.deserialize_program(data)
    with pytest.raises(InvalidArgument):
        static.deserialize_persistables(main, data, executor)
    with pytest.raises(InvalidType, match="bytes"):
        static.deserialize_program("text")
    with pytest.raises(InvalidType, match="Variables"):
        static.serialize_program(["x"], [y])


def test_variables_tell_their_size_and_kind(net: Any) -> None:
    _, x, _, executor = net
    assert (x.dim(), x.ndimension(), x.element_size(), x.type) == (2, 2, 4, "VarType.LOD_TENSOR")
    assert x.cpu() is x and x.cuda() is x
    assert executor.run(net[0], feed={"x": X}, fetch_list=[x.size()])[0].item() == 12
    net[0].global_seed(7)
    assert net[0].random_seed == 7
