"""A task on another node of our allocation, as a step of srun between two shells: one here, and one there, around the
command.

srun ends the whole step as soon as it gets TERM itself. So it is left alone: the shell here writes the names of
signals that it gets into srun's standard input, and the shell there gives them to the command's group. Where srun and
what watches over it are killed together, Slurm lets the step run on; so the shell here writes every few seconds that it
is there, and the command is killed when it has been silent for long. Until then Slurm gives its GPUs to nobody else.

Standard error holds what the command writes, and nothing of the shells or of srun: srun's own words are only kept for a
step that did not come to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...core.readings import GpuReading
from ...ports import GpuInfo, GpuProbe, Inventory, Telemetry
from .nodes import Allocation, Node, step, step_anywhere

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
"""A `wait` that a signal cuts short tells of the signal: only what it says of a step that is gone counts. The beat
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
