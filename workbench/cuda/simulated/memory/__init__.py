"""The memory of a simulated GPU."""

from workbench.cuda.simulated.memory.address_space import AddressError, AddressSpace, Allocation

__all__ = ["AddressError", "AddressSpace", "Allocation"]
