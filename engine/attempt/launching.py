"""A task of several processes: what starts them, around its command, and what each of them is told. Pure.

The launcher (torchrun, or accelerate, which uses it) finds a free rendezvous by itself. Below it each rank is a shell
that gives way to the command: rank 0 writes where the launcher does, the others to files of their own, as they write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..core.spec import TaskSpec
from ..logs.files import AttemptPaths
from ..taskfile.finish import shell

Launcher = Literal["torchrun", "accelerate"]

_TORCHRUN = ("-m", "torch.distributed.run", "--standalone")
_ACCELERATE = ("-m", "accelerate.commands.launch", "--num_machines", "1", "--main_process_port", "0")

_APART = '[ "${RANK:-0}" = 0 ] || exec >>"$1.rank$RANK.log" 2>>"$1.rank$RANK.err"; shift; exec "$@"'
_MERGED = '[ "${RANK:-0}" = 0 ] || exec >>"$1.rank$RANK.log" 2>&1; shift; exec "$@"'
"""Without a variable of its own: one of that name in the environment would reach the command changed."""

_SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1")
_OF_GRACE = 0.8
"""When ranks that do not end are killed by the launcher: it has to tell of it before it is killed itself."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """How an attempt's processes are started."""

    launcher: Launcher
    count: int
    on_gpus: bool


def ranks_of(spec: TaskSpec, gpus: int, cores: int) -> Ranks | None:
    """None: its command alone. *gpus*: how many the attempt was given; 0 also where it falls back to CPU."""
    extras = spec.extras
    count = extras.nproc or _count(spec, gpus, cores)
    match extras.launch:
        case "torchrun" | "accelerate" as launcher:
            return Ranks(launcher, count, gpus > 0)
        case "auto" if count > 1:
            return Ranks("torchrun", count, gpus > 0)
        case _:
            return None


def _count(spec: TaskSpec, gpus: int, cores: int) -> int:
    if gpus:
        return gpus
    wanted = spec.resources.gpus
    return max(1, min(wanted, cores)) if isinstance(wanted, int) else 1


def launched(ranks: Ranks, argv: Sequence[str], python: str, paths: AttemptPaths, *, merged: bool) -> tuple[str, ...]:
    """The program to execute, around *argv*. *merged*: ranks write both of their streams to one file."""
    rank = (shell(), "-c", _MERGED if merged else _APART, "gpudeck", paths.stem, *argv)
    count = str(ranks.count)
    if ranks.launcher == "torchrun":
        return (python, *_TORCHRUN, "--nproc-per-node", count, "--no-python", *rank)
    # Without several GPUs it starts one process, whatever the number, unless it is told so.
    several = ("--multi_gpu",) if ranks.count > 1 and not ranks.on_gpus else ()
    return (python, *_ACCELERATE, "--num_processes", count, *several, "--no_python", *rank)


def launch_env(ranks: Ranks, spec: TaskSpec, paths: AttemptPaths) -> dict[str, str]:
    """What launchers and ranks are told; what the task or its user says of these goes before it, but for the file in
    which the first error is kept."""
    found = {
        # As an option it would stop a torch that does not know it; such a one passes the variable over.
        "PET_SIGNALS_TO_HANDLE": ",".join(f"SIG{name}" for name in _handled(spec)),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(spec.policy.grace_s * _OF_GRACE))),
        "TORCHELASTIC_ERROR_FILE": paths.error,
    }
    # accelerate looks for a free port first and takes it later, when it may be gone; torchrun takes the one it finds.
    return {**found, "PET_STANDALONE": "1"} if ranks.launcher == "accelerate" else found


def threads_each(ranks: Ranks, spec: TaskSpec, gpus: int, cpus: int) -> int:
    """Cores for one rank's libraries. *cpus*: what the task counts for, or without a number of its own a slot's."""
    whole = cpus if spec.resources.cpus else cpus * max(1, gpus)
    return max(1, whole // ranks.count)


def _handled(spec: TaskSpec) -> list[str]:
    """Signals that the launcher hands on and ends by. The one that only warns must reach the ranks alone."""
    policy = spec.policy
    return [name for name in dict.fromkeys((*_SIGNALS, policy.stop_signal)) if name not in (policy.warn_signal, "KILL")]


def with_defaults(env: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """*env* with what it lacks of *defaults*, and our place for the first error."""
    return {**defaults, **env, "TORCHELASTIC_ERROR_FILE": defaults["TORCHELASTIC_ERROR_FILE"]}
