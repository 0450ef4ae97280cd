"""TensorBindings: which variables of a recorded program stand for which tensors there are."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import attrgetter, call, is_
from typing import Any

import numpy as np

from workbench.dygraph.overwrites import clock, memory_of, write_since
from workbench.dygraph.tensor.parameter import EagerParamBase
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, Unimplemented
from workbench.framework import names
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.site import caller
from workbench.jit.values.shared_storage import SharedStorage, storage_of
from workbench.runtime.storage.scope import Scope
from workbench.runtime.storage.tensor import moves
from workbench.runtime.undisturbed import Call

_array_of = attrgetter("array")


class BoundTensor:
    """A tensor and the variable that stands for it.

    Attributes:
        storage: the memory they have in common.
    """

    __slots__ = ("storage", "tensor", "variable")

    def __init__(self, tensor: Tensor, variable: Variable) -> None:
        self.tensor, self.variable = tensor, variable
        self.storage = storage_of(tensor)


class TensorBindings:
    """The tensors a program works on. They are its persistable variables, in the same memory.

    Args:
        program: what is recorded.

    Attributes:
        moves, writes: the states of `moves` and of the clock of writes that were taken into account.
        putting_back: gives all tensors the `grad` they had when they were met, see `LeafGradients`.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._bound: dict[SharedStorage, BoundTensor] = {}
        self._by_memory: dict[int, SharedStorage] = {}
        self._tensors: list[Tensor] = []
        self._arrays: list[np.ndarray] = []
        self.moves = self.writes = -1
        self._grads: list[Call] = []
        self.putting_back: Iterator[Any] = map(call, self._grads)

    def __iter__(self) -> Iterator[BoundTensor]:
        return iter(self._bound.values())

    def bound(self, tensor: Tensor) -> BoundTensor:
        """The variable that stands for a tensor, made when it is first asked for.

        Raises:
            Unimplemented: a sparse gradient. InvalidArgument: a view of another tensor that the program works on.
        """
        if not tensor.kind.is_dense:
            raise Unimplemented(f"a sparse gradient from outside cannot be recorded\n  at {caller()}")
        storage = storage_of(tensor)
        bound = self._bound.get(storage)
        if bound is None:
            memory = id(memory_of(tensor.array))
            if self._by_memory.setdefault(memory, storage) is not storage:
                whole = self._bound[self._by_memory[memory]].variable.name
                raise InvalidArgument(
                    f"tensor {tensor.name!r} is a view of the memory of {whole!r}, which is used here, too; take the "
                    f"view inside of the function, or a clone()\n  at {caller()}"
                )
            self._grads.append(partial(setattr, tensor, "_grad", tensor._grad))
            bound = self._bound[storage] = BoundTensor(tensor, self._declared(tensor))
            self.moves = -1
        return bound

    def has_memory_of(self, array: Any) -> bool:
        """Whether the program works on the memory of an array."""
        return id(memory_of(array)) in self._by_memory

    def _declared(self, tensor: Tensor) -> Variable:
        block, name = self._program.global_block(), tensor.name
        while block.has_var(name):
            name = names.generate(name)
        if isinstance(tensor, EagerParamBase):
            return block.create_parameter(
                name, tensor.shape, tensor.dtype, trainable=not tensor.stop_gradient, regularizer=tensor.regularizer,
                optimize_attr=tensor.optimize_attr, need_clip=tensor.need_clip,
            )  # fmt: skip
        if not tensor.stop_gradient:
            return block.create_parameter(name, tensor.shape, tensor.dtype)
        return block.create_var(name, tensor.shape, tensor.dtype, persistable=True, stop_gradient=True)

    def put_into(self, scope: Scope) -> None:
        """Have a scope use the storage of the tensors."""
        for each in self:
            scope.var(each.variable.name).tensor = each.storage.lod
        moves.happen()

    # Between runs

    def agree(self) -> list[BoundTensor] | None:
        """Make sure that tensors and variables have the same memory.

        Returns:
            those that dynamic mode or another recorded function has written to since the last time; None if a tensor
            has another shape or dtype now.
        """
        if moves.count == self.moves and all(map(is_, map(_array_of, self._tensors), self._arrays)):
            if clock.now == self.writes:
                return []
        elif not self._meet():
            return None
        before, self.writes = self.writes, clock.now
        return [each for each in self if each.storage.note_writes() or write_since(each.storage.array, before)]

    def _meet(self) -> bool:
        for each in self:
            storage, tensor = each.storage, each.tensor
            before = storage.array
            storage.follow()
            is_given_another = tensor.array is not before and tensor.array is not storage.array
            if is_given_another and not storage.take_over(tensor.array):
                return False
            tensor.array = storage.array
        self._remember()
        return True

    def follow(self) -> None:
        """After a run: where the engine has moved storage, tensors follow."""
        if moves.count == self.moves:
            return
        for each in self:
            each.storage.follow()
            each.tensor.array = each.storage.array
        self._remember()

    def _remember(self) -> None:
        self.moves = moves.count
        self._tensors = [each.tensor for each in self]
        self._arrays = [each.storage.array for each in self]
