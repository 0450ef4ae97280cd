"""Collectives: sums, copies and gathers over the devices of a group (`base`), and what carries them out.

`local` does it within a process, `mpi` over processes.
"""

from workbench.runtime.comm.base import Communicator, Handle, PreparedCollective
from workbench.runtime.comm.local import LocalCommunicator

__all__ = ["PreparedCollective", "Communicator", "Handle", "LocalCommunicator"]
