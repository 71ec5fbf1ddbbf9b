"""A Slurm job of several nodes that gpudeck itself was started in: what it has on each of them, from `scontrol show job
-d`, and tasks there, as steps.

Nodes=node[1-2] CPU_IDs=0-3 Mem=8000 GRES=gpu:a100:2(IDX:0-1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..core.gpu_names import gpus_by_type
from ..core.readings import GpuReading
from ..errors import EngineUnavailableError
from ..ports import GpuInfo, GpuProbe, Inventory, Telemetry
from .programs import NOT_BEGUN, run_program
from .slurm.parse import expand_nodes
from .slurm.states import stand

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

    Without numbers of its own it gets the share of the node's cores and memory that its GPUs are: Slurm would give it
    all of the memory, and the next step would wait.
    """
    cpus = cpus or max(1, node.cpus * gpus // node.gpus)
    # A type that the job did not ask for by name is none of its, to Slurm 22.05.
    found = [*_STEP, f"--nodelist={node.name}", f"--cpus-per-task={min(cpus, node.cpus)}", f"--gres=gpu:{gpus}"]
    if node.memory_mib:
        found.append(f"--mem={memory_mib or max(1, node.memory_mib * gpus // node.gpus)}M")
    return (*found, "--")


def step_anywhere(allocation: Allocation, *, cpus: int, memory_mib: int | None) -> tuple[str, ...]:
    """The same without GPUs, on the node that Slurm finds cores on."""
    cores = max(node.cpus for node in allocation.nodes)
    found = [*_STEP, _NO_GPUS, f"--cpus-per-task={min(cpus, cores)}"]
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


# -- a task on another node: a step of srun between two shells, one here, and one there, around the command ----------


HERE = """\
exec 5>&2 2>/dev/null 6<> <(:)
words() {
  local line all=
  trap '' HUP INT QUIT TERM USR1 USR2 ALRM
  while IFS= read -r line; do
    case $line in *": task 0: "*) ;; *) [ ${#all} -lt 4000 ] || continue;; esac
    all+=$line$'\\n'
  done
  printf '%s\\0' "$all" >&6
}
srun=$1; shift
exec 3> >(exec "$srun" --error="/proc/$$/fd/5" --open-mode=append "$@" 2> >(exec 5>&-; words) 5>&- 6>&-)
step=$!
for s in HUP INT QUIT TERM USR1 USR2 ALRM; do trap "echo $s >&3" "$s"; done
{ trap '' PIPE; exec 4<> <(:); while kill -0 $$ && echo here >&3; do read -r -t 5 -u 4; done; } 2>/dev/null & beat=$!
while :; do wait "$step"; c=$?; kill -0 "$step" || break; done 2>/dev/null
wait "$step" 2>/dev/null; d=$?
[ "$d" = 127 ] || c=$d
kill -KILL "$beat"
said=
[ "$c" = 0 ] || IFS= read -r -d '' -t 5 -u 6 said
case $said in *": task 0: "*) ;; *) printf %s "$said" >&5;; esac
exit "$c"
"""
"""srun ends the whole step as soon as it gets TERM itself. So it is left alone: the shell here writes the names of
signals that it gets into srun's standard input, and the shell there gives them to the command's group. Where srun and
what watches over it are killed together, Slurm lets the step run on; so the shell here writes every few seconds that it
is there, and the command is killed when it has been silent for long. Until then Slurm gives its GPUs to nobody else.

Standard error holds what the command writes, and nothing of the shells or of srun: srun's own words are only kept for a
step that did not come to run.

A `wait` that a signal cuts short tells of the signal: only what it says of a step that is gone counts. The beat
waits in a read that nobody answers: a `sleep` would be left over when it is killed. What srun says of a task's end
names the task."""

THERE = """\
exec 4<&0 </dev/null 5>&2 2>/dev/null
set -m
"$@" 4<&- 2>&5 5>&- & c=$!
exec 5>&-
{
  while read -r -t 20 s <&4; do [ "$s" = here ] || kill -s "$s" -- "-$c"; done
  kill -s KILL -- "-$c"
} 2>/dev/null & r=$!
exec 4<&-
wait "$c"; e=$?
kill "$r" 2>/dev/null
exit "$e"
"""
"""With -m the command has a group of its own, and is not made to ignore INT as what shells start aside is; bash then
says how each ended, to nobody."""


_SEES_NONE = "export CUDA_VISIBLE_DEVICES=\n"
"""Slurm unsets it where a step has no GPUs, which hides none."""


def relayed(step: Sequence[str], command: Sequence[str], *, gpus: bool = True) -> tuple[str, ...]:
    """*step*: srun with its options, up to "--". *gpus*: whether it has any."""
    there = THERE if gpus else _SEES_NONE + THERE
    return ("bash", "-c", HERE, "gpudeck", *step, "bash", "-c", there, "gpudeck", *command)


def across(
    allocation: Allocation, gpus: Sequence[str], cpus: int | None, memory_mib: int | None, argv: Sequence[str]
) -> tuple[str, ...] | None:
    """*argv* as a step on the node of these GPUs (UUIDs); None: it runs on this box as it is. Without GPUs it is a step
    wherever Slurm finds cores for it."""
    if not gpus:
        return relayed(step_anywhere(allocation, cpus=cpus or 1, memory_mib=memory_mib), argv, gpus=False)
    node = allocation.node(node_of(gpus[0]))
    return None if node is None else relayed(step(node, gpus=len(gpus), cpus=cpus, memory_mib=memory_mib), argv)


class AllocationProbe:
    """*here* reads this node's GPUs. Those of other nodes are never read: no driver reaches them from here."""

    def __init__(self, allocation: Allocation, here: GpuProbe) -> None:
        self._allocation = allocation
        self._here = here

    def discover(self) -> Inventory:
        """Numbered through: first this node's, where its driver lists any, then node after node."""
        own = self._here.discover() if self._allocation.here else Inventory(())
        gpus = list(own.gpus)
        for node in self._allocation.nodes:
            if node.name != self._allocation.here or not own.gpus:
                first = max((gpu.index for gpu in gpus), default=-1) + 1
                gpus += [_info(node, number, first + number) for number in range(node.gpus)]
        return Inventory(tuple(gpus), own.driver, "", own.hardware)

    def start(self, uuids: Sequence[str], sink: Callable[[tuple[GpuReading, ...]], None], *, period_s: float) -> None:
        near = [uuid for uuid in uuids if node_of(uuid) == ""]
        if near:
            self._here.start(near, sink, period_s=period_s)

    def poke(self) -> None:
        self._here.poke()

    def stop(self) -> None:
        self._here.stop()

    def telemetry(self, uuid: str) -> Telemetry | None:
        return None if node_of(uuid) else self._here.telemetry(uuid)


def node_of(uuid: str) -> str:
    """The other node that a GPU is on; "" for one of this box."""
    node, mark, _ = uuid.rpartition(":gpu")
    return node if mark else ""


def _info(node: Node, number: int, index: int) -> GpuInfo:
    name = f"{node.model or 'GPU'} on {node.name}"
    return GpuInfo(uuid=f"{node.name}:gpu{number}", index=index, name=name, total_mib=None, node=node.name)
