"""A task of several processes, or on a cluster: what starts them, around its command, what each of them is told, and
what the cluster is asked for. Pure.

On one box the launcher (torchrun, or accelerate, which uses it) finds a free rendezvous by itself. Over several nodes
of a cluster one of them runs on each, and they meet at the first node: its address as the cluster tells it, and a port
made of the job's number. srun starts the ranks itself. Below either each rank is a shell that gives way to the command:
rank 0 writes where the launcher does, the others to files of their own, as they write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from ..core.events import AttemptStarting
from ..core.spec import TaskSpec
from ..logs.files import AttemptPaths
from ..ports import JobOrder
from ..taskfile.command import shell
from ..taskfile.fit import gpus_in

Launcher = Literal["torchrun", "accelerate", "srun"]

_TORCHRUN = ("-m", "torch.distributed.run", "--standalone")
_ACCELERATE = ("-m", "accelerate.commands.launch", "--num_machines", "1", "--main_process_port", "0")

_APART = '[ "${RANK:-0}" = 0 ] || exec >>"$1.rank$RANK.log" 2>>"$1.rank$RANK.err"; shift; exec "$@"'
_MERGED = '[ "${RANK:-0}" = 0 ] || exec >>"$1.rank$RANK.log" 2>&1; shift; exec "$@"'
"""Without a variable of its own: one of that name in the environment would reach the command changed."""

_HOST = 'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1'
_ADDRESS = f'scontrol show node "$({_HOST})" | sed -n "s/.*NodeAddr=\\([^ ]*\\).*/\\1/p"'
_PORT = "$((15000 + SLURM_JOB_ID % 10000))"
"""As `gpudeck.distributed` has it: below those that systems give out by themselves, apart for jobs side by side."""
_ON_NODES = {
    "torchrun": (
        f'exec "$1" -m torch.distributed.run --node-rank "$SLURM_NODEID" --master-addr "$({_ADDRESS})" '
        f'--master-port {_PORT} "${{@:2}}"'
    ),
    "accelerate": (
        f'exec "$1" -m accelerate.commands.launch --machine_rank "$SLURM_NODEID" --main_process_ip "$({_ADDRESS})" '
        f'--main_process_port {_PORT} --rdzv_backend static "${{@:2}}"'
    ),
}
"""What runs on each node of several: bash, with the launcher's Python and the rest of its words."""

_STEP = (
    'gd_cores=$((${SLURM_CPUS_ON_NODE:-1} / $1)); export MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}" '
    'MASTER_PORT="${MASTER_PORT:-$((15000 + $$ % 10000))}"; '
    "unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS_PER_NODE; "
    'exec srun --kill-on-bad-exit=1 --overlap --nodes=1 ${SLURMD_NODENAME:+--nodelist="$SLURMD_NODENAME"} '
    '--ntasks="$1" --cpus-per-task=$((gd_cores > 0 ? gd_cores : 1)) '
    'env CUDA_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES" "${@:2}"'
)
"""On this box, inside a job: srun itself would show each rank all GPUs of the job, and hold each to the cores that the
job has for a task of its own."""

_SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1")
_OF_GRACE = 0.8
"""When ranks that do not end are killed by the launcher: it has to tell of it before it is killed itself."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """How an attempt's processes are started."""

    launcher: Launcher
    count: int
    """On each node."""
    on_gpus: bool
    nodes: int = 1
    cluster: bool = False
    """They start in a job of their own."""

    @property
    def total(self) -> int:
        return self.count * self.nodes

    @property
    def tasks_per_node(self) -> int:
        """How many processes the job's own srun has to start on each node; 0: it needs none."""
        if not self.cluster:
            return 0
        return self.count if self.launcher == "srun" else int(self.nodes > 1)


def ranks_of(spec: TaskSpec, gpus: int, cores: int, *, cluster: bool = False) -> Ranks | None:
    """None: its command alone. *gpus*: how many the attempt was given, on each node; 0 also where it falls back to
    CPU. *cluster*: it is a job of its own."""
    extras = spec.extras
    count = extras.nproc or _count(spec, gpus, cores)
    match extras.launch:
        case "torchrun" | "accelerate" | "srun" as launcher:
            return Ranks(launcher, count, gpus > 0, extras.nodes, cluster)
        case "auto" if cluster and count * extras.nodes > 1:
            return Ranks("srun", count, gpus > 0, extras.nodes, cluster)
        case "auto" if count > 1:
            return Ranks("torchrun", count, gpus > 0, extras.nodes, cluster)
        case _:
            return None


def _count(spec: TaskSpec, gpus: int, cores: int) -> int:
    if gpus:
        return gpus
    wanted = spec.resources.gpus
    return max(1, min(wanted, cores)) if isinstance(wanted, int) else 1


def launched(ranks: Ranks, argv: Sequence[str], python: str, paths: AttemptPaths, *, merged: bool) -> tuple[str, ...]:
    """The program to execute, around *argv*; with `tasks_per_node` what srun executes, not srun itself. *merged*: ranks
    write both of their streams to one file."""
    text = _MERGED if merged else _APART
    if ranks.launcher == "srun":
        rank = (shell(), "-c", text.replace("RANK", "SLURM_PROCID"), "gpudeck", paths.stem, *argv)
        return rank if ranks.cluster else (shell(), "-c", _STEP, "gpudeck", str(ranks.count), *rank)
    rank = (shell(), "-c", text, "gpudeck", paths.stem, *argv)
    if ranks.nodes > 1:
        return (shell(), "-c", _ON_NODES[ranks.launcher], "gpudeck", python, *_on_each_node(ranks), *rank)
    if ranks.launcher == "torchrun":
        return (python, *_TORCHRUN, "--nproc-per-node", str(ranks.count), "--no-python", *rank)
    return (python, *_ACCELERATE, "--num_processes", str(ranks.count), *_several(ranks), "--no_python", *rank)


def _on_each_node(ranks: Ranks) -> tuple[str, ...]:
    """The launcher's words that are the same on all nodes."""
    nodes, count = str(ranks.nodes), str(ranks.count)
    if ranks.launcher == "torchrun":
        return ("--nnodes", nodes, "--nproc-per-node", count, "--no-python")
    return ("--num_machines", nodes, "--num_processes", str(ranks.total), *_several(ranks), "--no_python")


def _several(ranks: Ranks) -> tuple[str, ...]:
    """Without several GPUs here accelerate starts one process, whatever the number, unless it is told so."""
    return ("--multi_gpu",) if ranks.total > 1 and (ranks.nodes > 1 or not ranks.on_gpus) else ()


def launch_env(ranks: Ranks, spec: TaskSpec, paths: AttemptPaths) -> dict[str, str]:
    """What launchers and ranks are told; what the task or its user says of these goes before it, but for the file in
    which the first error is kept."""
    if ranks.launcher == "srun":
        return {"TORCHELASTIC_ERROR_FILE": paths.error}
    found = {
        # As an option it would stop a torch that does not know it; such a one passes the variable over.
        "PET_SIGNALS_TO_HANDLE": ",".join(f"SIG{name}" for name in _handled(spec)),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(spec.policy.grace_s * _OF_GRACE))),
        "TORCHELASTIC_ERROR_FILE": paths.error,
    }
    # accelerate looks for a free port first and takes it later, when it may be gone; torchrun takes the one it finds.
    return {**found, "PET_STANDALONE": "1"} if ranks.launcher == "accelerate" and ranks.nodes == 1 else found


def threads_each(ranks: Ranks, spec: TaskSpec, gpus: int, cpus: int) -> int:
    """Cores for one rank's libraries. *cpus*: what the task counts for, or without a number of its own a slot's."""
    whole = cpus if spec.resources.cpus else cpus * max(1, gpus)
    return max(1, whole // ranks.count)


def _handled(spec: TaskSpec) -> list[str]:
    """Signals that the launcher hands on and ends by. The one that only warns must reach the ranks alone."""
    policy = spec.policy
    return [name for name in dict.fromkeys((*_SIGNALS, policy.stop_signal)) if name not in (policy.warn_signal, "KILL")]


# -- on a cluster ------------------------------------------------------------------------------------------------------


def gpus_each(spec: TaskSpec) -> int:
    """GPUs on each node of its job."""
    wanted = spec.resources.gpus
    return gpus_in(dict(spec.extras.slurm).get("gres")) if wanted == "all" else wanted


def cards_of(start: AttemptStarting, spec: TaskSpec | None) -> int:
    """How many GPUs an attempt has; *spec*: what it was started as, if anybody knows."""
    if not start.where:
        return len(start.gpus)
    return 0 if spec is None else gpus_each(spec) * spec.extras.nodes


def job_order(spec: TaskSpec, attempt: int, ranks: Ranks | None, options: Mapping[str, object]) -> JobOrder:
    """What a cluster is asked for: from the task alone. *options*: its [slurm], placeholders filled."""
    wanted, policy = spec.resources, spec.policy
    gpus = gpus_each(spec)
    return JobOrder(
        task=spec.name,
        attempt=attempt,
        gpus=gpus,
        nodes=spec.extras.nodes,
        cpus=wanted.cpus,
        memory_mib=cast("int | None", options.get("mem", wanted.memory_mib)),
        limit_s=_limit_s(spec, options),
        grace_s=policy.grace_s,
        linger_s=policy.linger_s,
        stop_signal=policy.stop_signal,
        stop_scope=policy.stop_scope,
        warn_signal=policy.warn_signal,
        warn_before_s=policy.warn_before_s,
        tasks_per_node=0 if ranks is None else ranks.tasks_per_node,
        options=options if gpus else _without_gpus(options),
        exclude=(),
        exclusive=wanted.exclusive or wanted.gpus == "all" or options.get("exclusive") is True,
        script="",
        own_env=frozenset(),
        ranks=1 if ranks is None else ranks.count,
    )


def _limit_s(spec: TaskSpec, options: Mapping[str, object]) -> float | None:
    said = cast("float | None", options.get("time"))
    timeout_s = spec.policy.timeout_s
    return said if said is not None or timeout_s is None else timeout_s + spec.policy.grace_s


def _without_gpus(options: Mapping[str, object]) -> Mapping[str, object]:
    """[slurm] says it for every task; this one wants none."""
    gres = options.get("gres")
    kept = ",".join(one for one in gres.split(",") if not one.startswith("gpu")) if isinstance(gres, str) else ""
    rest = {key: value for key, value in options.items() if key != "gres"}
    return {**rest, "gres": kept} if kept else rest
