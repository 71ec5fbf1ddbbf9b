"""What a cluster is asked for an attempt: from the task and its start to a `JobOrder`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ..core.events import AttemptStarting
from ..core.spec import TaskSpec
from ..ports import JobOrder
from ..taskfile.fit import gpus_in
from .launching import Ranks


def gpus_each(spec: TaskSpec) -> int:
    """GPUs on each node of its job."""
    wanted = spec.resources.gpus
    return gpus_in(dict(spec.extras.slurm).get("gres")) if wanted == "all" else wanted


def cards_of(start: AttemptStarting, spec: TaskSpec | None) -> int:
    """How many GPUs an attempt has; *spec*: what it was started as, if anybody knows."""
    if not start.where:
        return len(start.gpus)
    return 0 if spec is None else gpus_each(spec) * spec.extras.nodes


def job_order(
    spec: TaskSpec,
    attempt: int,
    ranks: Ranks | None,
    *,
    script: str,
    options: Mapping[str, object],
    avoid: Iterable[str],
    own_env: Iterable[str],
) -> JobOrder:
    """*script*: the path at which it is kept. *options*: its [slurm], placeholders filled; *avoid*: nodes that failed
    under it; *own_env*: names of variables that the task itself sets."""
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
        exclude=tuple(sorted(avoid)),
        exclusive=wanted.exclusive or wanted.gpus == "all" or options.get("exclusive") is True,
        script=script,
        own_env=frozenset(own_env),
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
