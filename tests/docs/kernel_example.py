"""Runs the contributors' example of a kernel: `python -m tests.docs.kernel_example IMAGE`, its blocks on stdin.

Blocks are separated by NUL. Before the first one that runs the kernel, an image is compiled that holds the interpreter
and the example, so that this takes seconds.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.notebook.figure_messages import graph_message
from workbench.experiments.bench.roofline import rows_by_lowering
from workbench.runtime.native import build, library
from workbench.runtime.native.image import Kernels, write_image


def execute(blocks: list[str], namespace: dict[str, Any]) -> None:
    for block in blocks:
        exec(compile(block, "CONTRIBUTING.md", "exec"), namespace)


def main(path: str) -> None:
    declared, run = (blocks := sys.stdin.read().split("\0"))[:2], blocks[2:]
    namespace: dict[str, Any] = {}
    execute(declared, namespace)
    build.modules = lambda: ("tape.interpreter", "tape.whole_step")
    write_image(path, *build.build(processes=1))
    library._found = Kernels(path)
    execute(run, namespace)
    native, by_numpy = rows_by_lowering(namespace["executor"].inspection.last)
    labels = graph_message(namespace["executor"].graph())["node"]["label"]
    print(f"in the dashboard's graph: {', '.join(labels)}")
    print(f"rows of the example in compiled kernels: {native}, by NumPy: {by_numpy.total()}")


if __name__ == "__main__":
    main(sys.argv[1])
