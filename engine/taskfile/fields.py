"""From the keys of a task to its Resources, Policy and Extras, shared between tasks with equal ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from ..core.spec import Extras, Leftovers, Metric, Policy, Progress, Resources, RetryOn, StopScope, Watch
from .defaults import OF_TASK
from .problems import BadValueError
from .schema import TASK

Fields = Mapping[str, object]

RESOURCE_KEYS = ("gpus", "gpu_ids", "exclusive", "gpu_memory", "cpus", "memory", "max_parallel")
POLICY_KEYS = (
    "retries", "retry_on", "backoff", "timeout", "grace", "stop_signal", "stop_scope", "warn_signal", "warn_before",
    "success_codes", "leftovers", "linger", "stderr", "launch",
)  # fmt: skip


def resources_of(fields: Fields, known: dict[object, object]) -> Resources:
    """`resources`, one for all tasks whose values are equal."""
    key = tuple([fields.get(key) for key in RESOURCE_KEYS])
    if key not in known:
        known[key] = resources(fields)
    return cast("Resources", known[key])


def policy_of(fields: Fields, known: dict[object, object], *, on_slurm: bool) -> Policy:
    """`policy`, one for all tasks whose values are equal."""
    key = (*[fields.get(key) for key in POLICY_KEYS], _is_launched(fields))
    if key not in known:
        known[key] = policy(fields, on_slurm=on_slurm)
    return cast("Policy", known[key])


def resources(fields: Fields) -> Resources:
    """Raises BadValueError inside a key."""
    get = {**OF_TASK, **fields}.get
    made = Resources(
        gpus=cast("int", get("gpus")),
        gpu_ids=cast("tuple[str, ...]", get("gpu_ids")),
        exclusive=cast("bool", get("exclusive")),
        gpu_memory_mib=cast("int", get("gpu_memory")),
        cpus=cast("int", get("cpus")),
        memory_mib=cast("int", get("memory")),
        max_parallel=cast("int", get("max_parallel")),
    )
    if made.gpu_ids and isinstance(made.gpus, int) and made.gpus > len(made.gpu_ids):
        raise BadValueError(f"= {made.gpus}, but gpu_ids names only {len(made.gpu_ids)}", "gpus")
    return made


def policy(fields: Fields, *, on_slurm: bool) -> Policy:
    """*on_slurm*: there is a limit besides the timeout. Raises BadValueError inside a key."""
    get = {**OF_TASK, "stop_scope": "leader" if _is_launched(fields) else "group", **fields}.get
    made = Policy(
        retries=cast("int", get("retries")),
        retry_on=cast("frozenset[RetryOn]", get("retry_on")),
        backoff_s=cast("float", get("backoff")),
        timeout_s=cast("float", get("timeout")),
        grace_s=cast("float", get("grace")),
        stop_signal=cast("str", get("stop_signal")),
        stop_scope=cast("StopScope", get("stop_scope")),
        warn_signal=cast("str", get("warn_signal")),
        warn_before_s=cast("float", get("warn_before")),
        success_codes=cast("frozenset[int]", get("success_codes")),
        leftovers=cast("Leftovers", get("leftovers")),
        linger_s=cast("float", get("linger")),
        merge_stderr=get("stderr") == "merge",
    )
    _check_warning(made, said="warn_before" in fields, on_slurm=on_slurm)
    return made


def _is_launched(fields: Fields) -> bool:
    """A launcher hands signals on to the ranks itself: from us they would get them twice."""
    launch = fields.get("launch", OF_TASK["launch"])
    return launch in ("torchrun", "accelerate") or (launch == "auto" and _several(fields))


def _several(fields: Fields) -> bool:
    nproc = fields.get("nproc")
    return nproc != 1 if nproc is not None else fields.get("gpus", OF_TASK["gpus"]) not in (0, 1)


def _check_warning(policy: Policy, *, said: bool, on_slurm: bool) -> None:
    if policy.warn_signal is None or (on_slurm and policy.timeout_s is None):
        return
    if policy.timeout_s is None:
        raise BadValueError("says nothing without a timeout", "warn_signal")
    if policy.warn_before_s >= policy.timeout_s:
        before = TASK["warn_before"].default.strip('"')
        words = "is" if said else f"comes {before} before the end (warn_before), which is"
        raise BadValueError(f"{words} not shorter than the timeout", "warn_before" if said else "warn_signal")


def extras(
    fields: Fields, metrics: tuple[Metric, ...], watch: Watch | None, slurm: tuple[tuple[str, object], ...]
) -> Extras:
    """Raises BadValueError inside a key."""
    get = {**OF_TASK, **fields}.get
    launch = cast("Literal['command']", get("launch"))
    nproc = cast("int | None", get("nproc"))
    if nproc is not None and launch == "command":
        raise BadValueError(f'says nothing with launch = "{launch}"', "nproc")
    return Extras(
        launch=launch,
        nproc=nproc,
        nodes=cast("int", get("nodes")),
        progress=cast("Progress | None", get("progress")),
        metrics=metrics,
        watch=watch,
        slurm=slurm,
    )
