"""Whether Slurm is here and answers; for a deck that runs on it, whether it would take its jobs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..core.spec import TaskSpec
from . import slurm_checks
from .child import Ended, run
from .finding import Finding, ok, warn
from .slurm_look import Call, caller, look
from .slurm_trial import check_trial, try_job
from .slurm_wishes import Wish, wishes

_LIMIT_S = 5.0
_MOST_REQUESTS = 20
"""Kinds of jobs that sbatch is asked about."""


@dataclass(frozen=True, slots=True)
class Slurm:
    version: Ended
    """`sbatch --version`."""
    controller: Ended
    """`squeue` for our own jobs: the controller has to answer it."""


def look_for_slurm(environ: Mapping[str, str]) -> Slurm | None:
    """None: there is no sbatch."""
    path = environ.get("PATH")
    sbatch, squeue = (shutil.which(name, path=path) for name in ("sbatch", "squeue"))
    if sbatch is None:
        return None
    root = os.path.abspath(os.sep)
    version = run([sbatch, "--version"], env=environ, cwd=root, limit_s=_LIMIT_S)
    asked = [squeue or "squeue", "-h", "-u", str(os.getuid()), "-o", "%i"]
    return Slurm(version, run(asked, env=environ, cwd=root, limit_s=_LIMIT_S))


def check_slurm(slurm: Slurm | None) -> Finding:
    if slurm is None:
        return ok("Slurm", "not found")
    text = slurm.version.out.strip() or "sbatch"
    if slurm.controller.code != 0:
        return warn("Slurm", f"found: {text}; squeue: {slurm.controller.how}", "ask whoever runs the cluster")
    return ok("Slurm", f"found: {text}, its controller answers")


def check_cluster(
    tasks: Sequence[TaskSpec], log_dir: str, max_submitted: int, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Of a deck that runs on Slurm. The last check submits a job of its own, and waits up to a minute for it."""
    call = caller(environ)
    facts = look(call)
    yield slurm_checks.check_answer(facts)
    if facts.missing or facts.trouble:
        return
    wanted = wishes(tasks, log_dir, environ)
    yield from slurm_checks.check_partitions(facts, wanted)
    yield from slurm_checks.check_times(facts, wanted)
    yield from slurm_checks.check_gpus(facts, wanted)
    yield from slurm_checks.check_cores(tasks)
    yield from slurm_checks.check_account(facts, wanted)
    sacct = facts.associations is not None and shutil.which("sacct", path=environ.get("PATH")) is not None
    yield from slurm_checks.check_limits(facts, wanted, max_submitted, sacct=sacct)
    known = [wish for wish in wanted if slurm_checks.partition_of(facts.partitions, wish.partition.split(",")[0])]
    tried = [(wish, _would_take(call, wish)) for wish in known[:_MOST_REQUESTS]]
    yield from slurm_checks.check_requests(tried)
    taken = [wish for wish, ended in tried if ended.code == 0]
    if taken:
        yield from check_trial(try_job(call, taken[0], log_dir), taken[0])


def _would_take(call: Call, wish: Wish) -> Ended:
    extra = "".join(f"#SBATCH {line}\n" for line in wish.extra)
    return call("sbatch", "--test-only", *wish.arguments, stdin=f"#!/bin/bash\n{extra}true\n")
