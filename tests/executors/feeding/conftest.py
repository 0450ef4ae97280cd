"""A program with every kind of variable that can be fed."""

from __future__ import annotations

import pytest

from tests.autodiff.small import Built
from workbench import static
from workbench.framework.program.program import Program


@pytest.fixture(scope="module")
def program() -> Program:
    """Data of several kinds, and persistable variables to feed."""
    with Built() as p:
        static.data("x", [None, 3], "float32")
        static.data("y", [None, 1], "int64")
        static.data("fixed", [4, 1], "float32")
        static.data("rate", [1], "float32")
        static.data("scalar", [], "float32")
        block = p.main.global_block()
        block.create_var("lr", [1], "float32", persistable=True)
        block.create_var("w", [4, 2], "float32", persistable=True)
        block.create_var("number", [], "float32", persistable=True)
        block.create_var("loss@GRAD", [1], "float32")
        block.create_var("unchecked", [-1, 3], "float32", is_data=True)
    return p.main
