"""RecordedForward: a recorded function whose calls are recorded on the tape: gradients pass through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from workbench.dygraph.overwrites import clock, here
from workbench.dygraph.tape.node import TapeNode, TapeOutput, next_number
from workbench.dygraph.tensor.tensor import Tensor, tensor_from
from workbench.errors import Unimplemented
from workbench.executors.running.engine.engine import Engine
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Parameter, Variable
from workbench.jit.partition import Partition, partitioned
from workbench.jit.recorded_step import RecordedStep, engine_of
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.surroundings import Surroundings
from workbench.jit.values.arguments import leaves, mapped
from workbench.jit.values.captured_tensor import CapturedTensor
from workbench.runtime.storage.tensor import LoDTensor


class ConcreteProgram(NamedTuple):
    """What was recorded of a function for arguments of some kinds.

    Attributes:
        inputs, outputs: variables. main_program, startup_program: with the parameters among their variables.
        parameters: those variables. function: what was recorded.
        tensors: the tensors the program works on, by the names of their variables.
    """

    inputs: list[Variable]
    outputs: list[Variable]
    main_program: Program
    startup_program: Program
    parameters: list[Parameter]
    function: Callable[..., Any]
    tensors: dict[str, Tensor]


class RecordedForward(RecordedStep):
    """What was recorded of a function that computes outputs, with their gradients where somebody wants them.

    Args:
        arguments: variables of the arguments. Others: as of `RecordedStep`.
        wants: gradients are recorded, and something that was read wants one.
        concrete: what was recorded, as it was.
    """

    def __init__(
        self,
        recorder: CaptureRecorder,
        arguments: Sequence[Variable],
        outputs: Any,
        surroundings: Surroundings,
        draws: LoDTensor,
        wants: bool,
        concrete: ConcreteProgram,
    ) -> None:
        self.concrete = concrete
        names = [variable.name for variable in arguments]
        self._inputs = [i for i, variable in enumerate(arguments) if not variable.stop_gradient]
        self._bound = [each for each in recorder.bindings if not each.variable.stop_gradient]
        results = [leaf.variable for leaf in leaves(outputs) if isinstance(leaf, CapturedTensor)]
        passing = {v.name: v for v in results if not v.stop_gradient and v.name not in names}
        inputs = [*(arguments[i] for i in self._inputs), *(each.variable for each in self._bound)]
        self.partition: Partition | None = None
        self._passing: list[str] = []
        program = recorder.program
        if wants and passing and inputs:
            self.partition = partitioned(program, recorder.startup, list(passing.values()), inputs, names)
            program, self._passing = self.partition.forward, list(passing)
        super().__init__(recorder, program, names, outputs, surroundings, draws)
        self.said = self.said._replace(program=concrete.main_program)
        if self.partition is not None:
            self._prepare_backward(recorder, self.partition)

    def _prepare_backward(self, recorder: CaptureRecorder, partition: Partition) -> None:
        self._saved = [name for name in partition.saved if name not in self._feeds]
        self.fetches += [name for name in self._saved if name not in self.fetches]
        read = set(partition.reads)
        self._read = [each for each in recorder.bindings if each.variable.name in read]
        self._name, self._backward_runner = recorder.program.name, engine_of(partition.backward, self.scope)

    def _returned(self, results: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
        if self.partition is None:
            return super()._returned(results, tensors)
        arrays = dict(zip(self.fetches, results, strict=True))
        node = self._node(self.partition, arrays, tensors)
        given = dict(zip(self._feeds, tensors, strict=True))
        outputs: dict[str, Tensor] = {}

        def output(leaf: Any) -> Any:
            if not isinstance(leaf, CapturedTensor):
                return leaf
            name = leaf.name
            if name not in outputs:
                outputs[name] = (
                    given[name] if name in given else tensor_from(np.asarray(arrays[name]), self._source(node, name))
                )
            return outputs[name]

        return mapped(self._outputs, output)

    def _source(self, node: TapeNode, name: str) -> Any:
        if name not in self._passing:
            return None
        return node if len(self._passing) == 1 else TapeOutput(node, self._passing.index(name))

    def _node(self, partition: Partition, arrays: dict[str, Any], tensors: Sequence[Tensor]) -> TapeNode:
        fed = dict(zip(self._feeds, tensors, strict=True))
        node = TapeNode.__new__(TapeNode)
        shapes = [np.shape(arrays[name]) for name in self._passing]
        node.call = RecordedBackward(self._name, partition, self._backward_runner, shapes)
        node.number, node.time = next_number(), clock.now
        node.arrays = [fed[name].array if name in fed else arrays[name] for name in partition.saved]
        node.arrays += [each.storage.array for each in self._read]
        wanting = [*(tensors[i] for i in self._inputs), *(each.tensor for each in self._bound)]
        node.edges = tuple([None if t.stop_gradient else t.source or t for t in wanting])
        node.hooks = node.retained = node.rewrites = None
        node.is_view = False
        node.code, node.lasti = here()
        return node


class RecordedBackward:
    """The gradients of a call of a recorded function, see `tape.node.RecordedCall`.

    Args:
        name: of the function. engine: of the program of its gradients. shapes: of the outputs of the call.
    """

    saves, is_users = True, False

    def __init__(self, name: str, partition: Partition, engine: Engine, shapes: Sequence[tuple[int, ...]]) -> None:
        self.name, self.outputs, self.is_single = name, len(shapes), len(shapes) == 1
        self._partition, self._runner, self._shapes = partition, engine, shapes

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        """Gradients of the arguments and tensors that want one."""
        partition = self._partition
        parts = [gradients] if self.is_single else gradients
        feed = dict(zip(partition.saved, node.arrays, strict=False))
        block = self._runner.program.global_block()
        for name, part, shape in zip(partition.given, parts, self._shapes, strict=True):
            if name in block.vars:
                feed[name] = np.zeros(shape, block.var(name).dtype.numpy) if part is None else part
        asked = [g if keep else None for g, keep in zip(partition.gradients, wanted, strict=True)]
        fetches = list(dict.fromkeys(g for g in asked if g is not None))
        grads = dict(zip(fetches, self._runner.run(feed, fetches), strict=True))
        return [None if g is None else grads[g] for g in asked]

    def recorded_backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> NoReturn:
        """Gradients that are recorded in turn: there are none.

        Raises:
            Unimplemented: always.
        """
        raise Unimplemented(
            f"{self.name!r} runs as a program, which has no second derivative from outside; take it inside of the "
            "function, or call the function as it was written: its .dygraph_function"
        )
