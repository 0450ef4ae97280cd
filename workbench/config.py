"""Every setting of workbench in one typed table; nothing else reads settings from the environment.

A flag is set by `set_flags({"FLAGS_check_nan_inf": 1})`, by an environment variable of the same name read when
workbench is imported, or for the length of a `with override(check_nan_inf=True)`. A *live* flag is its environment
variable: launchers and programs write `os.environ` while workbench is already imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from workbench.errors import InvalidArgument, NotFound, did_you_mean


@dataclass(frozen=True)
class FlagSpec:
    """A setting: its type, default and one line of help; `live` if it is kept in the environment itself.

    `choices` are all values it takes, if not any of its type.
    """

    kind: type
    default: Any
    help: str
    live: bool = False
    choices: tuple[str, ...] = ()

    def parse(self, name: str, value: Any) -> Any:
        """The value in the flag's type.

        Raises:
            InvalidArgument: it is not one; `"0"`, `"false"`, `"off"`, `"no"` and `""` are False, their opposites True.
        """
        if self.choices and value not in self.choices:
            raise InvalidArgument(f"{name} takes {' or '.join(map(repr, self.choices))}, got {value!r}")
        try:
            return _SWITCH[str(value).strip().lower()] if self.kind is bool else self.kind(value)
        except (KeyError, TypeError, ValueError):
            raise InvalidArgument(f"{name} takes {_KINDS[self.kind]}, got {value!r}") from None


_SWITCH = {"": False, "0": False, "false": False, "off": False, "no": False}
_SWITCH |= {"1": True, "true": True, "on": True, "yes": True}
_KINDS = {bool: "True or False (1 or 0)", int: "a whole number", float: "a number", str: "a text"}

FLAGS = {
    "FLAGS_check_nan_inf": FlagSpec(
        bool, False, "look for NaN and Inf after every op and name the first one that makes them"
    ),
    "FLAGS_cpu_deterministic": FlagSpec(
        bool, False, "in Reduce mode gradients are added in device order, as in AllReduce mode, not the owner's first"
    ),
    "FLAGS_paddle_seed_semantics": FlagSpec(
        bool,
        False,
        "seeded random ops of equal shape draw equal values, on every device and in every run, as in Paddle",
    ),
    "FLAGS_cpu_tape": FlagSpec(
        bool, True, "steps on CPU devices run in compiled kernels where there are some; off: as NumPy calls"
    ),
    "FLAGS_kernel_loader": FlagSpec(
        str,
        "auto",
        "what brings compiled kernels into the process when they are first needed: 'image' maps them (Linux on "
        "x86-64), 'llvm' has llvmlite link them, on other machines as well; 'auto' is 'image' where that can be",
        choices=("auto", "image", "llvm"),
    ),
    "FLAGS_executor": FlagSpec(
        str,
        "compiled",
        "Executor runs programs on compiled plans; 'reference': op by op on NumPy, in program order",
        choices=("compiled", "reference"),
    ),
    "FLAGS_scalar_shape": FlagSpec(
        str,
        "auto",
        "shape of results without dimensions: 'one' [1], 'zero_dim' [], 'auto' [1] in programs and [] in dynamic mode",
        choices=("auto", "one", "zero_dim"),
    ),
    "FLAGS_plan_cache_mib": FlagSpec(
        int, 256, "MiB an executor keeps for the plans of shapes and fetches it has seen; those used last are kept"
    ),
    "FLAGS_fuse_parameter_memory_size": FlagSpec(
        float,
        -1.0,
        "gradients are reduced together up to about so many MiB; 0: all at once, below 0: one group per layer",
    ),
    "FLAGS_fuse_parameter_groups_size": FlagSpec(
        int, 1, "with the size above: at most about so many gradients in a group; 1 or less: any number"
    ),
    "FLAGS_use_stride_kernel": FlagSpec(
        bool,
        True,
        "Paddle's switch for views that share memory; in dynamic mode ints and slices always give such views",
    ),
    "FLAGS_eager_delete_tensor_gb": FlagSpec(
        float, 0.0, "Paddle's limit for memory kept from step to step; without effect, plans reuse memory within a step"
    ),
    "FLAGS_selected_gpus": FlagSpec(
        str, "", "the GPUs an executor runs on, as '0,1'; empty means all that are visible", live=True
    ),
    "FLAGS_cuda_driver": FlagSpec(
        str,
        "auto",
        "what offers CUDA when it is first needed: 'cupy' the GPUs of this machine, 'simulated' devices of this "
        "process; 'auto' is 'simulated' where FLAGS_simulated_gpus asks for some",
        choices=("auto", "cupy", "simulated"),
    ),
    "FLAGS_simulated_gpus": FlagSpec(
        int, 0, "how many GPUs this process simulates; needs NVIDIA's compiler for kernels, and no GPU"
    ),
    "FLAGS_rpc_deadline": FlagSpec(
        int,
        180000,
        "milliseconds that a parameter server waits for trainers that have not pushed; trainers wait longer",
    ),
    "FLAGS_peer_timeout": FlagSpec(
        float,
        600.0,
        "seconds that processes wait for one another in a collective of a group that names no time of its own; read "
        "when the group is made",
    ),
    "FLAGS_stopped_peer_timeout": FlagSpec(
        float,
        60.0,
        "seconds that they wait for a process that is stopped (Ctrl-Z, SIGSTOP) and does nothing; 0: as for others",
    ),
    "FLAGS_communicator_max_merge_var_num": FlagSpec(
        int, 20, "how many steps of a half-asynchronous trainer its thread pushes to parameter servers at once, at most"
    ),
    "FLAGS_communicator_send_queue_size": FlagSpec(
        int, 20, "how many steps of a half-asynchronous trainer may wait for that thread; one more waits itself"
    ),
    "FLAGS_communicator_is_sgd_optimizer": FlagSpec(
        bool, True, "gradients of several steps that are pushed at once are added up; off: their mean is pushed"
    ),
    "FLAGS_server_checkpoint": FlagSpec(
        str, "", "the folder in which a parameter server keeps its state, and from which it goes on; empty keeps none"
    ),
    "FLAGS_server_checkpoint_every": FlagSpec(
        int, 0, "steps after which a parameter server writes its state again; 0 writes it when a trainer asks"
    ),
    "FLAGS_nodes_of_ranks": FlagSpec(
        str,
        "",
        "the machine of every process, as '0,0,1,1': those of one are taken to share memory with no others, which is "
        "how several machines are tried on one; empty: as MPI finds",
    ),
    "FLAGS_allow_lonely_trainer": FlagSpec(
        bool,
        False,
        "num_trainers > 1 without a process group only scales gradients by 1/(num_trainers * devices), as Paddle's "
        "CPU engine does: nothing is exchanged with the other trainers",
    ),
}


def _from_environment(name: str) -> Any:
    flag = FLAGS[name]
    return flag.parse(name, os.environ[name]) if name in os.environ else flag.default


_values: dict[str, Any] = {name: _from_environment(name) for name, flag in FLAGS.items() if not flag.live}


FLAG_VALUES: Mapping[str, Any] = MappingProxyType(_values)
"""The flags that are not live, by their full names: for those who look in every step; all others call `get_flag`."""


def environment(name: str) -> str:
    """A variable of the environment that belongs to others too, without blanks around it; empty if it is not set."""
    return os.environ.get(name, "").strip()


def set_environment(name: str, value: str) -> None:
    """Set such a variable for this process and those it starts."""
    os.environ[name] = value


def _name(name: str) -> str:
    full = name if name.startswith("FLAGS_") else "FLAGS_" + name
    if full not in FLAGS:
        raise NotFound(f"there is no flag {name!r}.{did_you_mean(full, FLAGS)}")
    return full


def get_flag(name: str) -> Any:
    """The value of one flag (the `FLAGS_` in front may be left out)."""
    value = _values.get(name)  # the full name needs no look-up in the table: executors ask in every call
    if value is not None:
        return value
    full = _name(name)
    return _from_environment(full) if FLAGS[full].live else _values[full]


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """Values of the named flags.

    Raises:
        NotFound: an unknown flag.

    Example:
        >>> wb.get_flags("FLAGS_check_nan_inf")
        {'FLAGS_check_nan_inf': False}
    """
    given = [flags] if isinstance(flags, str) else list(flags)
    return {name: get_flag(name) for name in given}


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set flags; all of them or, if one is wrong, none.

    Raises:
        NotFound: an unknown flag. InvalidArgument: a value of the wrong type.

    Example:
        >>> wb.set_flags({"FLAGS_check_nan_inf": True})
        >>> wb.set_flags({"FLAGS_check_nan_inf": False})
    """
    parsed = {_name(name): FLAGS[_name(name)].parse(name, value) for name, value in flags.items()}
    for name, value in parsed.items():
        if FLAGS[name].live:
            os.environ[name] = str(value)
        else:
            _values[name] = value


@contextmanager
def override(**flags: Any) -> Iterator[None]:
    """Set flags inside the `with` body: `override(check_nan_inf=True)`.

    Flags are those of the process, for the threads of a step look at them too; others than those given stay as they
    are, whatever other threads have made of them meanwhile.
    """
    names = [_name(name) for name in flags]
    old = {name: _values[name] for name in names if name in _values}
    live = {name: os.environ.get(name) for name in names if FLAGS[name].live}
    set_flags(flags)
    try:
        yield
    finally:
        _values.update(old)
        for name, value in live.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
