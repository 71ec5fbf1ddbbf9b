"""What a job has on each of its nodes, from `scontrol show job -d`, and the step that runs a task there. Pure.

Nodes=node[1-2] CPU_IDs=0-3 Mem=8000 GRES=gpu:a100:2(IDX:0-1)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.gpu_names import gpus_by_type
from ...errors import EngineUnavailableError
from ..programs import NOT_BEGUN, run_program
from ..slurm.parse import expand_nodes
from ..slurm.states import stand

_NODES = re.compile(r"^\s*Nodes=(\S+) CPU_IDs=(\S*) Mem=(\d+) GRES=(\S*)", re.MULTILINE)
_STATE = re.compile(r"\bJobState=(\w+)")

_STEP = ("srun", "--exact", "--kill-on-bad-exit=1", "--unbuffered", "--export=ALL", "--nodes=1", "--ntasks=1")
_NO_GPUS = "--gres=none"
"""Without a word a step has all GPUs of the job."""


@dataclass(frozen=True, slots=True)
class Node:
    """What a job has on it."""

    name: str
    gpus: int
    model: str = ""
    """The type that the cluster calls them by; may be empty."""
    cpus: int = 1
    memory_mib: int = 0
    """0: Slurm does not count memory."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The job that we run in."""

    job: str
    nodes: tuple[Node, ...]
    here: str = ""
    """The node that we run on; empty: none of them, as in a shell that salloc left on the login node."""

    @property
    def cpus(self) -> int:
        return sum(node.cpus for node in self.nodes)

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)


def nodes_in(text: str) -> tuple[Node, ...]:
    """What `scontrol show job -d` tells of the nodes; empty where the job is over or the text is another."""
    state = _STATE.search(text)
    if state is not None and stand(state[1]) == "over":
        return ()  # what it had is still listed
    found: list[Node] = []
    for names, cpus, memory, gres in _NODES.findall(text):
        kinds = gpus_by_type(gres)
        model = next(iter(kinds)) if len(kinds) == 1 else ""
        found += [Node(name, kinds.total(), model, _count(cpus), int(memory)) for name in expand_nodes(names)]
    return tuple(found)


def step(node: Node, *, gpus: int, cpus: int | None, memory_mib: int | None) -> tuple[str, ...]:
    """What goes before a command so that it runs on that node, on so many of its GPUs.

    Without numbers of its own it gets the share of the node's cores and memory that its GPUs are, and a core without
    any: Slurm would give it all of the memory, and the next step would wait.
    """
    cpus = cpus or (max(1, node.cpus * gpus // node.gpus) if node.gpus else 1)
    found = [*_STEP, f"--nodelist={node.name}", f"--cpus-per-task={max(1, min(cpus, node.cpus))}"]
    if gpus:
        found.append(f"--gres=gpu:{gpus}")  # a type that the job did not ask for by name is none of its, to Slurm 22.05
    else:
        found.append(_NO_GPUS)
    if node.memory_mib:
        share = node.memory_mib * gpus // node.gpus if node.gpus and gpus else node.memory_mib * cpus // node.cpus
        found.append(f"--mem={memory_mib or max(1, min(share, node.memory_mib))}M")
    return (*found, "--")


def step_anywhere(allocation: Allocation, *, cpus: int, memory_mib: int | None) -> tuple[str, ...]:
    """The same without GPUs, on the node that Slurm finds cores on."""
    cores = max(node.cpus for node in allocation.nodes)
    found = [*_STEP, _NO_GPUS, f"--cpus-per-task={max(1, min(cpus, cores))}"]
    least = min(allocation.nodes, key=lambda node: node.memory_mib)
    if least.memory_mib:
        share = memory_mib or min(least.memory_mib * cpus // least.cpus, least.memory_mib)
        found.append(f"--mem={max(1, share)}M")
    return (*found, "--")


def _count(ids: str) -> int:
    """How many numbers are in "0-3,8"; at least one."""
    total = 0
    for part in filter(None, ids.split(",")):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return max(1, total)


_LIMIT_S = 30.0
_UNKNOWN = "Invalid job id"


def look_at_allocation(environ: Mapping[str, str]) -> Allocation | None:
    """None: we run in no job, or in one of a single node and on it. Raises EngineUnavailableError where Slurm does not
    tell what the job has."""
    job = environ.get("SLURM_JOB_ID", "")
    here = environ.get("SLURMD_NODENAME", "")
    if not job or (here and environ.get("SLURM_JOB_NUM_NODES", "1") == "1"):
        return None
    nodes = nodes_in(_shown(environ, job))
    if not nodes:
        raise EngineUnavailableError(_over(job))
    return Allocation(job, nodes, here if any(node.name == here for node in nodes) else "")


def _over(job: str) -> str:
    return f"SLURM_JOB_ID is {job}, and that job is over: `unset SLURM_JOB_ID` where this is to run outside of jobs"


def _shown(environ: Mapping[str, str], job: str) -> str:
    call = ("scontrol", "show", "job", "-d", job)
    answer = run_program(call, environ, timeout_s=_LIMIT_S)
    if answer.ok:
        return answer.out
    if answer.code in (None, NOT_BEGUN):
        raise EngineUnavailableError(
            f"{' '.join(call)} does not answer, to tell which GPUs this job has: {answer.err.strip()}"
        )
    lines = [line.strip() for line in (answer.out + answer.err).splitlines() if line.strip()]
    why = lines[-1] if lines else "no word why"
    if _UNKNOWN in why:
        raise EngineUnavailableError(_over(job))
    raise EngineUnavailableError(f"{' '.join(call)} fails, and which GPUs this job has is not known: {why}")
