"""How full the cluster is: partitions with their nodes and GPUs, and the user's own jobs. Two calls, both short."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...core.gpu_names import gpus_by_type
from ..programs import Answer, run_program
from .calls import small_environment
from .states import stand

SINFO = ("sinfo", "-h", "-O", "Partition:|,Available:|,StateLong:|,Nodes:|,CPUsState:|,Gres:|,GresUsed:|")
"""Nodes that have all of this in common share a line, so a cluster of thousands is told in tens."""
_SQUEUE = ("squeue", "-h", "-r", "-o", "%i|%T|%P")
_FIELDS, _JOB_FIELDS = 7, 3
_NODES_S, _NAMES_S = 10.0, 2.0
_UP = frozenset(("idle", "mixed", "allocated", "completing", "planned", "reserved", "blocked"))
_AWAY = frozenset("*$@^")
"""Behind a node's state: answers nothing, in maintenance, about to boot, booting."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """Of one type; "" for those without one."""

    type: str
    free: int
    """On nodes that take jobs."""
    total: int


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    default: bool
    """Where jobs go that name none."""
    state: str
    """up, down, drain or inact, as Slurm says."""
    nodes_up: int
    """Those that answer and take jobs, free or not."""
    nodes_total: int
    nodes_idle: int
    gpus: tuple[Gpus, ...]
    """By type."""
    cpus_free: int
    cpus_total: int

    @property
    def gpus_free(self) -> int:
        return sum(each.free for each in self.gpus)

    @property
    def gpus_total(self) -> int:
        return sum(each.total for each in self.gpus)


@dataclass(frozen=True, slots=True)
class UserJob:
    """One of the user's, of this deck or not."""

    id: str
    """ "1234", or "1234_7" in an array."""
    waits: bool
    partitions: tuple[str, ...]
    """One that waits may name several."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster at one moment."""

    partitions: tuple[Partition, ...] = ()
    jobs: tuple[UserJob, ...] = ()
    at: float = 0.0
    """When it was told, seconds since the epoch; 0: never yet."""
    problem: str = ""
    """Why it tells nothing now, in its own words; what stands here is how it was."""


def read_cluster(
    run: Callable[[Sequence[str]], Answer], uid: int, now: float, before: ClusterView | None = None
) -> ClusterView:
    """Ask for it, with *run*; blocks for both calls. Raises nothing: without an answer it is *before*, with the
    problem."""
    told: list[str] = []
    for argv in (SINFO, (*_SQUEUE, "-u", str(uid))):
        answer = run(argv)
        if not answer.ok:
            why = (answer.err.strip() or "no answer").splitlines()[0]
            return replace(before or ClusterView(), problem=f"{argv[0]}: {why}")
        told.append(answer.out)
    sinfo, squeue = told
    return cluster_of(sinfo, squeue, now)


def cluster_of(sinfo: str, squeue: str, now: float) -> ClusterView:
    """What the outputs of both calls say. Pure."""
    rows = [line.split("|") for line in squeue.splitlines()]
    told = [(row[0], stand(row[1]) == "pending", tuple(row[2].split(","))) for row in rows if len(row) == _JOB_FIELDS]
    jobs = [UserJob(*each) for each in told]
    return ClusterView(tuple(partitions_of(sinfo)), tuple(jobs), now)


def partitions_of(sinfo: str) -> list[Partition]:
    """In Slurm's order. Pure; a line that is none is passed over."""
    found: dict[str, Partition] = {}
    for line in sinfo.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) >= _FIELDS and (part := _part(fields)) is not None:
            before = found.get(part.name)
            found[part.name] = part if before is None else _joined(before, part)
    return list(found.values())


def _part(fields: Sequence[str]) -> Partition | None:
    """What a line tells: of alike nodes of a partition."""
    name, available, state, nodes, cpus, gres, gres_used, *_ = fields
    base = state.rstrip("*~#!%$@^-+")
    up = base in _UP and not _AWAY & set(state)
    try:
        count = int(nodes)
        _, cpus_idle, _, cpus_total = map(int, cpus.split("/"))
    except ValueError:
        return None
    used = gpus_by_type(gres_used)
    return Partition(
        name=name.removesuffix("*"),
        default=name.endswith("*"),
        state=available,
        nodes_up=count if up else 0,
        nodes_total=count,
        nodes_idle=count if up and base == "idle" else 0,
        gpus=tuple(
            Gpus(kind, count * max(0, number - used[kind]) if up else 0, count * number)
            for kind, number in sorted(gpus_by_type(gres).items())
        ),
        cpus_free=cpus_idle if up else 0,
        cpus_total=cpus_total,
    )


def _joined(one: Partition, other: Partition) -> Partition:
    gpus = (*one.gpus, *other.gpus)
    kinds = {kind: [each for each in gpus if each.type == kind] for kind in sorted({each.type for each in gpus})}
    return replace(
        one,
        nodes_up=one.nodes_up + other.nodes_up,
        nodes_total=one.nodes_total + other.nodes_total,
        nodes_idle=one.nodes_idle + other.nodes_idle,
        gpus=tuple(Gpus(kind, sum(g.free for g in of), sum(g.total for g in of)) for kind, of in kinds.items()),
        cpus_free=one.cpus_free + other.cpus_free,
        cpus_total=one.cpus_total + other.cpus_total,
    )


def partition_names(environ: Mapping[str, str]) -> list[str]:
    """Of all partitions, hidden ones too; empty: Slurm does not tell. Blocks for two seconds at most."""
    answer = run_program(("sinfo", "-a", "-h", "-o", "%R"), small_environment(environ), timeout_s=_NAMES_S)
    return list(dict.fromkeys(answer.out.split())) if answer.ok else []


def gpus_of_a_node(environ: Mapping[str, str]) -> int:
    """How many GPUs a node has, the least that any with GPUs has; 0: none has, or Slurm does not tell. Blocks for some
    seconds at most."""
    answer = run_program(("sinfo", "-h", "-o", "%G"), small_environment(environ), timeout_s=_NODES_S)
    counts = [gpus_by_type(line).total() for line in answer.out.splitlines()] if answer.ok else []
    return min(filter(None, counts), default=0)
