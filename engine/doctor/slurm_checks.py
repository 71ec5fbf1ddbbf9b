"""Judgements on a cluster, for a deck that wants to run there. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..adapters.slurm.cluster import Partition
from ..core.spec import TaskSpec
from ..headless.text import plural
from ..taskfile.cluster import few_cores
from ..taskfile.problems import did_you_mean
from .child import Ended
from .finding import Finding, fail, ok, warn
from .slurm_look import SlurmFacts
from .slurm_wishes import Wish

_SOON_FORGOTTEN_S = 120
"""The controller may be asked only once a minute."""
_ASK = "ask whoever runs the cluster"


def check_answer(facts: SlurmFacts) -> Finding:
    name = "Slurm"
    if facts.missing:
        found = "not found" if "sbatch" in facts.missing else f"no {', '.join(facts.missing)}"
        return fail(name, found, "run gpudeck on a login node of the cluster, or load its module first")
    text = facts.version or "sbatch"
    if facts.trouble:
        return fail(name, f"{text}: {facts.trouble}", _ASK)
    where = facts.config.get("ClusterName", "")
    return ok(name, f"{text}, the controller of {where or 'the cluster'} answers in {facts.answer_s * 1e3:.0f} ms")


def check_partitions(facts: SlurmFacts, wanted: Sequence[Wish]) -> Iterator[Finding]:
    """A line for each that a task names, and for the default where one names none."""
    for name in dict.fromkeys(part for wish in wanted for part in wish.partition.split(",")):
        yield _check_partition(facts.partitions, name)


def _check_partition(partitions: Sequence[Partition], name: str) -> Finding:
    check, names = "partition", [each.name for each in partitions]
    found = partition_of(partitions, name)
    if found is None and not name:
        return fail(check, "no task names one, and the cluster has no default", f"partition in [slurm]: {_any(names)}")
    if found is None:
        return fail(check, f"{name}: the cluster has none of this name", did_you_mean(name, names) or _any(names))
    text = f"{found.name}: {found.state}, {found.nodes_up} of {plural(found.nodes_total, 'node')} up"
    if found.gpus:
        free = ", ".join(f"{gpus.free} of {gpus.total} {gpus.type or 'GPUs'}" for gpus in found.gpus)
        text += f", {free} free"
    if found.state != "up":
        return fail(check, text, f"jobs do not start there: {_ASK}, or name another")
    if not found.nodes_up:
        return warn(check, text, "jobs wait until a node is back")
    return ok(check, text)


def check_times(facts: SlurmFacts, wanted: Sequence[Wish]) -> Iterator[Finding]:
    """That a partition of each lets a job last as long as the task asks for: many clusters take it all the same, and
    never start it."""
    for wish in wanted:
        asked = next((int(word.removeprefix("--time=")) for word in wish.arguments if word.startswith("--time=")), 0)
        found = [each for name in wish.partition.split(",") if (each := partition_of(facts.partitions, name))]
        limits = {each.name: facts.times.get(each.name, math.inf) / 60 for each in found}
        if limits and all(asked > limit for limit in limits.values()):
            most = ", ".join(f"{limit:g} in {name}" for name, limit in limits.items())
            text = f"{wish.task} asks for {asked} min, and a job may last {most}: it never starts"
            yield fail("time", text, "a shorter timeout, or time in [slurm], or another partition")


def check_cores(tasks: Sequence[TaskSpec]) -> Iterator[Finding]:
    words = few_cores(tasks)
    if words:
        yield warn("cores", words, "cpus, of each node: 8 a GPU is usual")


def partition_of(partitions: Sequence[Partition], name: str) -> Partition | None:
    """Of this name; the default for ""."""
    return next((each for each in partitions if each.name == name or (not name and each.default)), None)


def check_gpus(facts: SlurmFacts, wanted: Sequence[Wish]) -> Iterator[Finding]:
    """That the partitions have GPUs, and the types that tasks name."""
    for wish in wanted:
        found = partition_of(facts.partitions, wish.partition)
        if found is None or not (wish.gpus or wish.gpu_types):
            continue
        known = [gpus.type for gpus in found.gpus]
        if not known:
            yield fail("gres", f"{wish.task} wants GPUs, and {found.name} has none", "partition in [slurm]")
        for kind in wish.gpu_types:
            if known and kind not in known:
                text = f"{wish.task} wants gpu:{kind}, which {found.name} does not have"
                yield fail("gres", text, f"it has {_any([f'gpu:{each}' if each else 'gpu' for each in known])}")


def check_account(facts: SlurmFacts, wanted: Sequence[Wish]) -> Iterator[Finding]:
    """What accounting lets the user submit to; nothing where nobody keeps accounts."""
    if facts.associations is None or not wanted:
        return
    accounts = list(dict.fromkeys(each.account for each in facts.associations))
    qos = list(dict.fromkeys(name for each in facts.associations for name in each.qos))
    strict = "associations" in facts.config.get("AccountingStorageEnforce", "")
    say = fail if strict else warn
    wrong = list(dict.fromkeys(wish.account for wish in wanted if wish.account and wish.account not in accounts))
    if wrong or (strict and not accounts):
        text = f"{', '.join(wrong) or 'none'}: you may submit to {_any(accounts)}"
        yield say("account", text, f"account in [slurm], or {_ASK}" if accounts else _ASK)
    elif accounts:
        yield ok("account", f"you may submit to {_any(accounts)}")
    for name in dict.fromkeys(wish.qos for wish in wanted if wish.qos and wish.qos not in qos):
        yield say("qos", f"{name}: you may use {_any(qos)}", "qos in [slurm]")


def check_limits(facts: SlurmFacts, wanted: Sequence[Wish], max_submitted: int, *, sacct: bool) -> Iterator[Finding]:
    """The controller's own, against what the engine does."""
    name = "Slurm limits"
    most, largest, age_s = (facts.number(key) for key in ("MaxJobCount", "MaxArraySize", "MinJobAge"))
    told = {"MaxJobCount": most, "MaxArraySize": largest, "MinJobAge": age_s}
    text = ", ".join(f"{key} {value}" for key, value in told.items() if value is not None)
    fine = True
    if most is not None and most <= max_submitted:
        fine = False
        yield warn(name, f"the cluster holds {most} jobs, max_submitted is {max_submitted}", "a smaller max_submitted")
    if facts.most_submitted is not None and facts.most_submitted <= max_submitted:
        fine = False
        words = f"you may have {facts.most_submitted} jobs submitted (MaxSubmitJobs), max_submitted is {max_submitted}"
        yield warn(
            name,
            words,
            f"max_submitted = {max(1, facts.most_submitted - 1)} in [slurm]: Slurm counts an ended one a moment longer",
        )
    if largest == 0 and any(wish.array for wish in wanted):
        fine = False
        yield fail(name, "the cluster takes no job arrays (MaxArraySize 0)", "array = false")
    if age_s is not None and age_s < _SOON_FORGOTTEN_S and not sacct:
        fine = False
        remedy = f"ends are read beside the logs; for those without a word {_ASK}: MinJobAge 300"
        yield warn(name, f"ended jobs are forgotten after {age_s} s (MinJobAge), and there is no sacct", remedy)
    if fine:
        yield ok(name, text or "none told")


def check_requests(tried: Sequence[tuple[Wish, Ended]]) -> Iterator[Finding]:
    """What `sbatch --test-only` said to each."""
    name = "job requests"
    bad = [(wish, ended) for wish, ended in tried if ended.code != 0]
    for wish, ended in bad:
        why = ended.last_line.removeprefix("sbatch: error: ").removeprefix("allocation failure: ") or ended.how
        yield fail(name, f"{wish.task}: sbatch {' '.join(wish.arguments)}: {why}", "[slurm], or the task's own slurm")
    if tried and not bad:
        count = sum(wish.tasks for wish, _ in tried)
        yield ok(name, f"sbatch would take {plural(count, 'task')} ({plural(len(tried), 'kind')} of jobs)")


def _any(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
