"""What is asked of `workbench launch`: its command line, with the names of Paddle's."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.errors import InvalidArgument

FIRST_PORT = 6170
ALLOCATIONS = ("SLURM_JOB_ID", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "PBS_NODEFILE")

EPILOG = """\
The processes are started by mpiexec, which reaches other machines by ssh or by the cluster's own means; run this
command once, not on every machine. Within Slurm or a Kubernetes MPIJob --nnodes is enough. What processes print is
shown with their rank before every line and kept in LOG_DIR/workerlog.RANK; their stdin is empty. The exit status is
that of the process that failed first, whose traceback is shown last. A process that is killed ends the job; in one with
parameter servers (under Open MPI) a trainer that is killed does not end the others: asynchronous ones go on without it,
and the exit status is then 1. An MPI job takes no new processes, so it cannot come again; with --max_restart the
processes are no MPI job and talk by gRPC, as those do that are started one by one (TRAINING_ROLE,
PADDLE_PSERVERS_IP_PORT_LIST …): a trainer that is killed is started again and takes its place at the servers."""


@dataclass(frozen=True)
class LaunchOptions:
    """One job to start.

    Attributes:
        command: what every process runs: a script (or `-m`, a module) and its arguments.
        processes: how many there are on all machines; the last `len(servers) or server_count` are parameter servers.
        nodes: machines. hosts: their names, where the user gave them.
        devices: on every machine.
        servers: endpoints of parameter servers, where the user gave them. server_count: how many there are.
        log_dir: where each process's output is kept; None keeps none.
        start_port: of the first process of a machine, in endpoints.
        job: what it is called.
        elastic: when a process is lost, the others end and the script is started again in one process less.
        restarts: how often, in all, a trainer that was killed is started again, in a job with parameter servers.
    """

    command: tuple[str, ...]
    processes: int = 1
    nodes: int = 1
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    server_count: int = 0
    log_dir: Path | None = None
    start_port: int = FIRST_PORT
    job: str = "default"
    elastic: bool = False
    restarts: int = 0

    @property
    def per_node(self) -> int:
        return self.processes // self.nodes

    def with_one_less(self) -> LaunchOptions:
        """After a process was lost; the devices that were its own are left out."""
        each = len(self.devices) // self.processes
        return replace(self, processes=self.processes - 1, devices=self.devices[: each * (self.processes - 1)])


def parse(arguments: Sequence[str], program: str) -> LaunchOptions:
    """The options of a command line.

    Raises:
        SystemExit: it asks for help, or cannot be understood; what is wrong is then on stderr.
    """
    parser = _parser(program)
    given = parser.parse_args(list(arguments))
    try:
        return _checked(given)
    except InvalidArgument as error:
        parser.error(str(error))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        program,
        usage="%(prog)s -n N [options] script [arguments]",
        description="Start a script in several processes.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", "--np", type=_count, metavar="N", help="processes in all")
    add("--nproc_per_node", type=_count, metavar="N", help="processes on every machine")
    add("--nnodes", type=_count, metavar="N", help="machines")
    add("--ips", "--hosts", dest="hosts", type=_listed, default=(), metavar="A,B", help="their names or addresses")
    add("--devices", "--gpus", "--selected_gpus", dest="devices", type=_listed, default=(), metavar="0,1",
        help="devices of every machine; a process for each unless --nproc_per_node says otherwise")  # fmt: skip
    add("--log_dir", type=Path, default=Path("log"), help="folder for workerlog.RANK (default: %(default)s)")
    add("--job_id", default="default", help="name of the job")
    add("--start_port", type=_count, default=FIRST_PORT, help="first port in endpoints (default: %(default)s)")
    add("--server_num", type=_count, metavar="N", help="parameter servers; they are the last ranks")
    add("--worker_num", "--trainer_num", dest="worker_num", type=_count, metavar="N", help="trainers beside them")
    add("--servers", type=_listed, default=(), metavar="IP:PORT,…", help="endpoints of the parameter servers")
    add("--workers", "--trainers", dest="workers", type=_listed, default=(), metavar="IP:PORT,…",
        help="endpoints of the trainers beside them")  # fmt: skip
    add(
        "--run_mode",
        choices=("collective", "ps"),
        help="what Paddle calls the two kinds of jobs; follows from the rest",
    )
    add("--elastic", action="store_true",
        help="when a process is lost, start the script again in one less; wb.train(elastic=True) goes on")  # fmt: skip
    add("--max_restart", "--max_restarts", dest="restarts", type=_count, default=0, metavar="N",
        help="with parameter servers: start a trainer that is killed again, N times in all")  # fmt: skip
    add("-m", dest="module", metavar="MODULE", help="run a module instead of a script")
    add("command", nargs=argparse.REMAINDER, metavar="script …", help="the script and its arguments")
    return parser


def _checked(given: argparse.Namespace) -> LaunchOptions:
    servers, workers = _servers_and_workers(given)
    nodes = _nodes(given)
    processes = servers + workers if servers else _processes(given, nodes)
    if processes % nodes:
        raise InvalidArgument(f"{processes} processes cannot be shared evenly among {nodes} machines")
    per_node = processes // nodes
    if given.devices and len(given.devices) % per_node:
        raise InvalidArgument(
            f"{len(given.devices)} devices (--devices {','.join(given.devices)}) cannot be shared evenly among "
            f"{per_node} processes of a machine"
        )
    if given.elastic and (servers or nodes > 1):
        raise InvalidArgument(
            "--elastic is for trainers on one machine, without parameter servers; beside servers, --max_restart starts "
            "a lost trainer again alone"
        )
    if given.restarts and (not servers or nodes > 1):
        raise InvalidArgument(
            "--max_restart is for jobs with parameter servers (--server_num, --worker_num) on one machine; without "
            "servers, --elastic starts all trainers again in one less"
        )
    return LaunchOptions(
        _command(given), processes, nodes, given.hosts, given.devices, given.servers, servers, given.log_dir,
        given.start_port, given.job_id, given.elastic, given.restarts,
    )  # fmt: skip


def _nodes(given: argparse.Namespace) -> int:
    if given.hosts and given.nnodes and given.nnodes != len(given.hosts):
        raise InvalidArgument(f"--nnodes {given.nnodes}, but --hosts names {len(given.hosts)}: {','.join(given.hosts)}")
    if (given.nnodes or 1) > 1 and not given.hosts and not any(map(os.environ.get, ALLOCATIONS)):
        raise InvalidArgument(f"--nnodes {given.nnodes}: name the machines with --hosts A,B")
    return len(given.hosts) or given.nnodes or 1


def _processes(given: argparse.Namespace, nodes: int) -> int:
    if given.nproc_per_node and given.np and given.np != given.nproc_per_node * nodes:
        raise InvalidArgument(
            f"-n {given.np} and --nproc_per_node {given.nproc_per_node} on {nodes} machines contradict each other"
        )
    if given.np:
        return int(given.np)
    return int(given.nproc_per_node or len(given.devices) or 1) * nodes


def _servers_and_workers(given: argparse.Namespace) -> tuple[int, int]:
    servers = _agreed("--server_num", given.server_num, "--servers", given.servers)
    workers = _agreed("--worker_num", given.worker_num, "--workers", given.workers)
    if bool(servers) != bool(workers):
        raise InvalidArgument("a job with parameter servers needs both: --server_num and --worker_num")
    if given.run_mode and (given.run_mode == "ps") != bool(servers):
        wanted = "needs" if given.run_mode == "ps" else "takes neither"
        raise InvalidArgument(f"--run_mode {given.run_mode} {wanted} --server_num and --worker_num")
    if servers and (given.np or given.nproc_per_node):
        raise InvalidArgument(
            "-n and --nproc_per_node cannot be combined with --server_num and --worker_num; leave them out"
        )
    return servers, workers


def _agreed(number_option: str, number: int | None, list_option: str, listed: Sequence[str]) -> int:
    if number and listed and number != len(listed):
        raise InvalidArgument(f"{number_option} {number}, but {list_option} names {len(listed)}")
    bad = next((one for one in listed if not one.rpartition(":")[2].isdecimal() or ":" not in one), None)
    if bad is not None:
        raise InvalidArgument(f"{list_option} takes IP:PORT, got {bad!r}")
    return number or len(listed)


def _command(given: argparse.Namespace) -> tuple[str, ...]:
    rest = given.command[1:] if given.command[:1] == ["--"] else given.command
    if given.module:
        return ("-m", given.module, *rest)
    if not rest:
        raise InvalidArgument("name the script to run")
    if not Path(rest[0]).is_file():
        raise InvalidArgument(f"no such script: {rest[0]}")
    return tuple(rest)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"a number from 1 on, got {text!r}")
    return int(text)


def _listed(text: str) -> tuple[str, ...]:
    listed = tuple(part.strip() for part in text.replace(";", ",").split(",") if part.strip())
    if not listed:
        raise argparse.ArgumentTypeError("a list with commas, got nothing")
    repeated = next((one for one in listed if listed.count(one) > 1), None)
    if repeated is not None:
        raise argparse.ArgumentTypeError(f"{repeated} is listed twice")
    return listed
