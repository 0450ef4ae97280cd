"""The variables by which a script learns which process it is, as Paddle's launch sets them (rule D-23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LOCALHOST = "127.0.0.1"


class ServerRoles(NamedTuple):
    """How many trainers a job has, the first processes, and how many servers."""

    trainers: int
    servers: int

    def name(self, rank: int) -> str:
        """What a process is called."""
        number = rank - self.trainers
        return f"trainer {rank}" if number < 0 else f"server {number}"


def trainer_variables(
    rank: int, hosts: Sequence[str], devices: Sequence[str], start_port: int, job: str
) -> dict[str, str]:
    """Those of one trainer.

    Args:
        hosts: the machine of every rank.
        devices: on every machine, dealt out among its processes; none where nobody chose them.
        start_port: of the first process of a machine, in endpoints. Nothing listens there: MPI connects the processes,
            the endpoints are names.
        job: what the job is called.
    """
    endpoints, own = _endpoints(hosts, start_port), hosts[rank]
    place, beside = list(hosts[:rank]).count(own), list(hosts).count(own)
    nodes = list(dict.fromkeys(hosts))
    variables = {
        "PADDLE_TRAINER_ID": rank,
        "PADDLE_TRAINERS_NUM": len(hosts),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_RANK_IN_NODE": place,
        "PADDLE_GLOBAL_RANK": rank,
        "PADDLE_GLOBAL_SIZE": len(hosts),
        "PADDLE_LOCAL_RANK": place,
        "PADDLE_LOCAL_SIZE": beside,
        "PADDLE_NNODES": len(nodes),
        "PADDLE_MASTER": endpoints[0],
        "PADDLE_DISTRI_BACKEND": "gloo",  # what Paddle calls its way between CPUs
        "POD_NAME": f"{job}-{nodes.index(own)}",
        **_device_variables(place, beside, devices, len(nodes)),
    }
    return {name: str(value) for name, value in variables.items()}


def server_job_variables(rank: int, hosts: Sequence[str], servers: Sequence[str], start_port: int) -> dict[str, str]:
    """Those of one process of a job with parameter servers; the trainers are the first ranks, the servers the last.

    Args:
        hosts: the machine of every rank.
        servers: their endpoints.
    """
    trainers = _endpoints(hosts[: len(hosts) - len(servers)], start_port)
    shared = {
        "PADDLE_TRAINERS_NUM": str(len(trainers)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(trainers),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
    }
    if rank < len(trainers):
        own = {
            "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_CURRENT_ENDPOINT": trainers[rank],
        }
        return shared | own
    number = rank - len(trainers)
    ip, _, port = servers[number].rpartition(":")
    return shared | {"TRAINING_ROLE": "PSERVER", "PADDLE_PSERVER_ID": str(number), "POD_IP": ip, "PADDLE_PORT": port}


def server_endpoints(hosts: Sequence[str], count: int, start_port: int) -> list[str]:
    """Endpoints of the servers, which are the last ranks, where the user gave none."""
    return _endpoints(hosts, start_port)[len(hosts) - count :]


def _endpoints(hosts: Sequence[str], start_port: int) -> list[str]:
    return [f"{host}:{start_port + list(hosts[:rank]).count(host)}" for rank, host in enumerate(hosts)]


def _device_variables(place: int, beside: int, devices: Sequence[str], nodes: int) -> dict[str, str]:
    if not devices:
        return {}
    share = len(devices) // beside
    own = ",".join(devices[place * share : (place + 1) * share])
    return {
        "PADDLE_LOCAL_DEVICE_IDS": own,
        "PADDLE_WORLD_DEVICE_IDS": ",".join([*devices] * nodes),
        "FLAGS_selected_gpus": own,
    }
