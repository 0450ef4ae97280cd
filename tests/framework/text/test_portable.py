"""Objects that programs hold and are saved with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.programs import ToyDecay
from workbench.errors import InvalidArgument, NotFound
from workbench.framework.values.portable import config_of, from_config, portable


def test_there_and_back() -> None:
    config = config_of(ToyDecay(0.5, plan=[1]))
    assert config == ("ToyDecay", {"coeff": 0.5, "plan": [1]})
    again = from_config(*config)
    assert type(again) is ToyDecay and (again.coeff, again.plan) == (0.5, [1])


def test_other_objects_have_no_configuration() -> None:
    class ToyDecayToo(ToyDecay):
        pass

    assert config_of(3) is config_of(object()) is config_of(ToyDecayToo()) is None


def test_a_class_says_how_it_is_rebuilt() -> None:
    @portable
    class Doubled:
        def __init__(self) -> None:
            self.value = 0

        def to_config(self) -> dict[str, Any]:
            return {"type": "is dropped", "half": self.value / 2}

        @classmethod
        def from_config(cls, config: dict[str, Any]) -> Doubled:
            rebuilt = cls()
            rebuilt.value = config["half"] * 2
            return rebuilt

    assert config_of(Doubled()) == ("Doubled", {"half": 0.0})
    assert from_config("Doubled", {"half": 2}).value == 4
    with pytest.raises(InvalidArgument, match=r"Doubled does not take the configuration \{\}: 'half'"):
        from_config("Doubled", {})


def test_a_class_may_be_defined_again_but_not_taken_by_another_module() -> None:
    first = type("ToyTwice", (ToyDecay,), {"__module__": "cell"})
    second = type("ToyTwice", (ToyDecay,), {"__module__": "cell"})
    portable(first)
    assert config_of(portable(second)()) is not None and config_of(first()) is None
    with pytest.raises(InvalidArgument, match="ToyTwice is registered already, from cell"):
        portable(type("ToyTwice", (ToyDecay,), {"__module__": "elsewhere"}))


def test_what_cannot_be_registered_or_found() -> None:
    with pytest.raises(InvalidArgument, match="int has no method to_config"):
        portable(int)
    with pytest.raises(NotFound, match=r"no class 'ToyDecy' .* Did you mean 'ToyDecay'\?"):
        from_config("ToyDecy", {})
    with pytest.raises(InvalidArgument, match="ToyDecay does not take the configuration"):
        from_config("ToyDecay", {"rate": 1})
