"""Slurm: what the cluster tells of itself, what the tasks ask of it, and whether it can give it."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..adapters.host import login_of
from ..adapters.slurm.calls import small_environment
from ..adapters.slurm.cluster import SINFO, Partition, partitions_of
from ..adapters.slurm.script import extra_lines, resources
from ..attempts.launching import gpus_each, job_order, ranks_of
from ..core.gpu_names import gpus_by_type
from ..core.spec import TaskSpec
from ..ports import JobOrder
from ..taskfile.command import RuntimeValues, asked
from ..taskfile.fit import few_cores
from ..taskfile.problems import BadValueError, did_you_mean
from ..taskfile.units import sbatch_time_s
from ..text import plural
from .child import Ended, run
from .finding import Finding, fail, ok, warn

NEEDED = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
LIMIT_S = 10.0


class Call:
    """Runs Slurm's programs as the engine would."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.env = small_environment(environ)

    def __call__(self, *argv: str, stdin: str = "") -> Ended:
        return run(argv, env=self.env, cwd=os.sep, limit_s=LIMIT_S, stdin=stdin)


@dataclass(frozen=True, slots=True)
class SlurmFacts:
    missing: tuple[str, ...] = ()
    """Programs that are not on the PATH; nothing else is known then."""
    version: str = ""
    trouble: str = ""
    """How the controller does not answer; nothing but the version is known then."""
    answer_s: float = 0.0
    config: Mapping[str, str] = field(default_factory=dict[str, str])
    """`scontrol show config`."""
    partitions: tuple[Partition, ...] = ()
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long a job may last, seconds by partition; those without a limit are not in it."""
    most_submitted: int | None = None
    """Jobs that the user may have in the queue and running, the least that any QOS or association says."""
    associations: Mapping[str, Sequence[str]] | None = None
    """Accounts that the user may submit to, each with its QOS. None: nobody keeps accounts here, or the user has
    no name to keep them under."""

    def number(self, name: str) -> int | None:
        """Of the configuration: "300 sec" is 300."""
        word = self.config.get(name, "").split()[:1]
        return int(word[0]) if word and word[0].isdecimal() else None


def look(call: Call) -> SlurmFacts:
    missing = tuple([name for name in NEEDED if shutil.which(name, path=call.env.get("PATH")) is None])
    if missing:
        return SlurmFacts(missing)
    version = call("sbatch", "--version").out.strip()
    before = time.perf_counter()
    config, sinfo = call("scontrol", "show", "config"), call(*SINFO, "-a")  # hidden partitions, too
    for name, ended in (("scontrol", config), ("sinfo", sinfo)):
        if ended.code != 0:
            return SlurmFacts((), version, f"{name}: {ended.how}")
    answer_s = (time.perf_counter() - before) / 2
    known = config_of(config.out)
    times = times_of(call("sinfo", "-h", "-a", "-o", "%R|%l").out)
    found = SlurmFacts((), version, "", answer_s, known, tuple(partitions_of(sinfo.out)), times)
    whose = _whose(call, known)
    if not whose:
        return found
    told = call("sacctmgr", "-n", "-P", "show", "associations", *whose, "format=account,qos")
    return replace(
        found,
        most_submitted=_most_submitted(call, whose),
        associations=associations_of(told.out.splitlines()) if told.code == 0 else None,
    )


def config_of(text: str) -> dict[str, str]:
    """`Name = value` lines."""
    pairs = [line.partition("=") for line in text.splitlines()]
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def times_of(text: str) -> dict[str, float]:
    """ "main|1-00:00:00" lines."""
    found: dict[str, float] = {}
    for name, _, limit in (line.partition("|") for line in text.splitlines()):
        with contextlib.suppress(BadValueError):  # infinite
            found[name] = sbatch_time_s(limit)
    return found


def _most_submitted(call: Call, whose: Sequence[str]) -> int | None:
    """Of all QOS the least counts: which of them a job gets is not known here."""
    told = [
        call("sacctmgr", "-n", "-P", "show", "associations", *whose, "format=maxsubmitjobs").out,
        call("sacctmgr", "-n", "-P", "show", "qos", "format=maxsubmitjobsperuser").out,
    ]
    return min((int(word) for word in " ".join(told).replace("|", " ").split() if word.isdecimal()), default=None)


def _whose(call: Call, config: Mapping[str, str]) -> tuple[str, ...]:
    """Words that name the user's associations; empty where nobody keeps them."""
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return ()
    if shutil.which("sacctmgr", path=call.env.get("PATH")) is None:
        return ()
    login = login_of(os.getuid(), nameless="")
    # accounts are of names
    return (f"user={login}", f"cluster={config.get('ClusterName', '')}") if login else ()


def associations_of(lines: Sequence[str]) -> dict[str, list[str]]:
    """ "physics|normal,long" lines."""
    found: dict[str, list[str]] = {}
    for name, _, qos in (line.partition("|") for line in lines if line.strip()):
        found.setdefault(name, []).extend(filter(None, qos.strip("|").split(",")))
    return found


@dataclass(frozen=True, slots=True)
class Wish:
    task: str
    """The first that has it."""
    arguments: tuple[str, ...]
    """For sbatch."""
    extra: tuple[str, ...]
    """Raw options, for #SBATCH lines."""
    partition: str
    """"": the cluster's default."""
    account: str
    qos: str
    gpus: int
    """On each node."""
    gpu_types: tuple[str, ...]
    array: bool
    python: str
    cwd: str
    tasks: int = 1


def wishes(tasks: Sequence[TaskSpec], log_dir: str, environ: Mapping[str, str]) -> list[Wish]:
    """The commonest first; each as of a first attempt. *environ*: for {env.NAME}, and SBATCH_ACCOUNT and
    the like."""
    found: dict[tuple[str, ...], Wish] = {}
    for task in tasks:
        wish = _wish(task, _order(task, log_dir, environ), environ)
        key = wish.arguments + wish.extra
        known = found.get(key)
        found[key] = wish if known is None else replace(known, tasks=known.tasks + 1)
    return sorted(found.values(), key=lambda wish: -wish.tasks)


def _order(task: TaskSpec, log_dir: str, environ: Mapping[str, str]) -> JobOrder:
    gpus = gpus_each(task)
    values = RuntimeValues(
        1, tuple(map(str, range(gpus))), task.resources.cpus or 1, log_dir, log_dir, sys.executable, environ
    )
    ranks = ranks_of(task, gpus, 1, cluster=True)
    return job_order(task, 1, ranks, asked(task, values))


def _wish(task: TaskSpec, order: JobOrder, environ: Mapping[str, str]) -> Wish:
    arguments = resources(order)
    gres = next((word.removeprefix("--gres=") for word in arguments if word.startswith("--gres=")), "")
    return Wish(
        task=task.name,
        arguments=tuple(arguments),
        extra=tuple(extra_lines(order)),
        partition=str(order.options.get("partition") or environ.get("SBATCH_PARTITION", "")),
        account=str(order.options.get("account") or environ.get("SBATCH_ACCOUNT", "")),
        qos=str(order.options.get("qos") or environ.get("SBATCH_QOS", "")),
        gpus=order.gpus,
        gpu_types=tuple(filter(None, gpus_by_type(gres))),
        array=bool(order.options.get("array")),
        python=task.python or "",
        cwd=task.cwd,
    )


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
    accounts = list(facts.associations)
    qos = list(dict.fromkeys(name for names in facts.associations.values() for name in names))
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
        words = (
            f"you, or a QOS here, may have {facts.most_submitted} jobs submitted (MaxSubmitJobs), "
            f"max_submitted is {max_submitted}"
        )
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


def check_slurm(call: Call) -> Finding:
    """Where tasks run on this box."""
    if shutil.which("sbatch", path=call.env.get("PATH")) is None:
        return ok("Slurm", "not found")
    text = call("sbatch", "--version").out.strip() or "sbatch"
    queue = call("squeue", "-h", "-u", str(os.getuid()), "-o", "%i")  # the controller has to answer it
    if queue.code != 0:
        return warn("Slurm", f"found: {text}; squeue: {queue.how}", _ASK)
    return ok("Slurm", f"found: {text}, its controller answers")
