"""Which process of how many this one is, as its environment tells. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .errors import DistributedError

Launcher = Literal["torchrun", "environment", "slurm", "none"]
"""Who started it: torchrun (or torch.distributed.launch), somebody who set RANK, srun, nobody."""
_HERE = ("", "localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Place:
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """Counts the processes of this host."""
    local_world_size: int = 1
    """How many processes this host has, as far as it can be known."""
    launcher: Launcher = "none"


def place_of(environ: Mapping[str, str], argv: Sequence[str] = ()) -> Place:
    """RANK, WORLD_SIZE, LOCAL_RANK if they are set, else Slurm's within a step of several tasks, else a world of one.

    *argv* is looked through for the `--local-rank=N` of older launchers. Raises DistributedError where it contradicts
    itself: ranks that wait for each other in vain would hang.
    """
    if "RANK" in environ:
        return _by_rank(environ, argv)
    if _slurm_tasks(environ) > 1:
        return _by_slurm(environ)
    if _number(environ, "WORLD_SIZE", 1) > 1:
        raise DistributedError(f"WORLD_SIZE={environ['WORLD_SIZE']} is set, RANK is not: start with torchrun or srun")
    return Place()


def _by_rank(environ: Mapping[str, str], argv: Sequence[str]) -> Place:
    if "WORLD_SIZE" not in environ:
        raise DistributedError(f"RANK={environ['RANK']} is set, WORLD_SIZE is not: set both, or start with torchrun")
    rank, world_size = _number(environ, "RANK", 0), _number(environ, "WORLD_SIZE", 1)
    if rank >= world_size:
        raise DistributedError(f"RANK={rank} in a world of {world_size}: ranks go from 0 to {world_size - 1}")
    elastic = "TORCHELASTIC_RUN_ID" in environ
    if not elastic and _slurm_tasks(environ) == world_size > 1 and _number(environ, "SLURM_PROCID", rank) != rank:
        raise DistributedError(
            f"RANK={rank} is set, but this is task {environ['SLURM_PROCID']} of {world_size} of Slurm's step: "
            "unset RANK in the job script, every task gets the same value from there"
        )
    local_world_size = _number(environ, "LOCAL_WORLD_SIZE", 0) or _tasks_here(environ, world_size)
    local_rank = _local_rank(environ, argv, rank, world_size)
    return Place(rank, world_size, local_rank, local_world_size, "torchrun" if elastic else "environment")


def _local_rank(environ: Mapping[str, str], argv: Sequence[str], rank: int, world_size: int) -> int:
    if "LOCAL_RANK" in environ:
        return _number(environ, "LOCAL_RANK", 0)
    match = re.search(r"(?:^|\0)--local[-_]rank[=\0](\d+)", "\0".join(argv))
    if match:
        return int(match[1])
    if _slurm_tasks(environ) > 1 and "SLURM_LOCALID" in environ:
        return _number(environ, "SLURM_LOCALID", 0)
    if "LOCAL_WORLD_SIZE" in environ:
        return rank % max(1, _number(environ, "LOCAL_WORLD_SIZE", 1))
    if world_size == 1 or environ.get("MASTER_ADDR", "") in _HERE:
        return rank
    raise DistributedError(f"RANK={rank} of {world_size} is set, LOCAL_RANK is not: which GPU of its host to take")


def _by_slurm(environ: Mapping[str, str]) -> Place:
    world_size = _slurm_tasks(environ)
    said = _number(environ, "WORLD_SIZE", world_size)
    if said != world_size:
        raise DistributedError(f"WORLD_SIZE={said}, but Slurm's step has {world_size} tasks: unset WORLD_SIZE")
    if "SLURM_PROCID" not in environ:
        raise DistributedError(f"a Slurm step of {world_size} tasks without SLURM_PROCID: start with srun")
    rank = _number(environ, "SLURM_PROCID", 0)
    return Place(rank, world_size, _number(environ, "SLURM_LOCALID", 0), _tasks_here(environ, world_size), "slurm")


def _slurm_tasks(environ: Mapping[str, str]) -> int:
    """Tasks of the step that this process is in; 0 outside of one: a batch script is one process."""
    if not any(name in environ for name in ("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NODELIST")):
        return 0
    return _number(environ, "SLURM_STEP_NUM_TASKS", 0) or _number(environ, "SLURM_NTASKS", 0)


def _tasks_here(environ: Mapping[str, str], world_size: int) -> int:
    """Slurm writes `2(x3),1`: three hosts with two tasks, then one with one."""
    if not _slurm_tasks(environ):
        return world_size
    counts: list[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        counts += [int(match[1])] * int(match[2] or 1) if match else []
    node = _number(environ, "SLURM_NODEID", 0)
    return counts[node] if node < len(counts) else world_size


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise DistributedError(f"{name}={text!r} is not a number")
    return int(text)


_PART = re.compile(r"\[([^][]*)\]|([^][,]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MOST = 65_536
"""Slurm's own MaxNodeCount."""


def hosts(text: str) -> list[str]:
    """The hosts in their order, zeros in front of numbers kept. Raises DistributedError for what is no list."""
    found: list[str] = []
    for short in _split(text):
        parts = _parts(short, text)
        found += ["".join(chosen) for chosen in itertools.islice(itertools.product(*parts), _MOST)]
    if not found:
        raise _no_list(text)
    return found


def _split(text: str) -> Iterator[str]:
    """At the commas outside of brackets."""
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == "," and depth == 0:
            yield text[begin:place].strip()
            begin = place + 1
    if text.strip():
        yield text[begin:].strip()


def _parts(short: str, text: str) -> list[list[str]]:
    """What may stand at each place of `rack[1-2]-node[3-4]`."""
    parts: list[list[str]] = []
    end = 0
    for match in _PART.finditer(short):
        if match.start() != end:
            break
        parts.append([match[2]] if match[2] else _numbers(match[1], text))
        end = match.end()
    if end != len(short) or not short:
        raise _no_list(text)
    return parts


def _numbers(inside: str, text: str) -> list[str]:
    """`01-03,7` is 01, 02, 03, 7."""
    found: list[str] = []
    for each in inside.split(","):
        match = _RANGE.fullmatch(each.strip())
        if match is None:
            raise _no_list(text)
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 <= last - first < _MOST:
            raise _no_list(text)
        found += [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    return found


def _no_list(text: str) -> DistributedError:
    return DistributedError(f"not a list of hosts as Slurm writes them: {text!r}; MASTER_ADDR can name the first host")


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
