"""Where the processes meet: the host and port of rank 0. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import DistributedError
from .nodelist import hosts

_NODELISTS = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")


def meeting_point(environ: Mapping[str, str]) -> tuple[str, int]:
    """MASTER_ADDR, else the first host that Slurm names; MASTER_PORT, else 15000 + job id % 10000.

    One host alone is 127.0.0.1: a host need not know its own name. Raises DistributedError where neither is known.
    """
    address = environ.get("MASTER_ADDR") or _first_host(environ)
    port = environ.get("MASTER_PORT") or _port_of_job(environ)
    if not (address and port):
        missing = "MASTER_PORT" if address else "MASTER_ADDR"
        raise DistributedError(f"{missing} is not set: where rank 0 is to be found; torchrun sets it")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise DistributedError(f"MASTER_PORT={port!r} is no port: 1 to 65535")
    return address, int(port)


def _first_host(environ: Mapping[str, str]) -> str:
    listed = next((environ[name] for name in _NODELISTS if environ.get(name)), "")
    if not listed:
        return ""
    found = hosts(listed)
    return found[0] if len(found) > 1 else "127.0.0.1"


def _port_of_job(environ: Mapping[str, str]) -> str:
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or ""
    return str(15_000 + int(job) % 10_000) if job.isdigit() else ""
