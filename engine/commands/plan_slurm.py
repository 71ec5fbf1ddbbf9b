"""`gpudeck plan` of a deck on Slurm: what each job asks for and runs, and of a single one its whole script, as an
engine would submit it. It needs no Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..adapters.slurm.cluster import partition_names
from ..adapters.slurm.jobfiles import control_folder
from ..adapters.slurm.script import script
from ..core.spec import TaskSpec
from ..errors import EngineUnavailableError
from ..logs.secrets import mask, secrets_in
from ..opening.submitted import submitted
from ..submit.target import Target, read_target
from ..submit.waits import NOTHING, Waits, waits_of
from ..taskfile.options import RunOptions
from ..taskfile.problems import did_you_mean

TOKEN = "0" * 24
"""Where a start puts one of its own."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A task, and what becomes of it."""

    task: str
    state: str
    """ "runs", "under way", "done earlier" or "left out"."""
    attempt: int = 0
    script: str = ""
    kept: str = ""
    """Where a start keeps the script."""
    waits: Waits = NOTHING


def plan(path: str, options: RunOptions, *, as_json: bool) -> int:
    """Print it. *options* ask for Slurm, as the file or the run may. Raises DeckError."""
    target = read_target(path, options, os.environ)
    try:
        jobs = planned(target)
    except OSError as error:
        raise EngineUnavailableError(f"{error.filename}: {error.strerror}") from error
    if as_json:
        print(json.dumps([_row(job) for job in jobs], indent=2))
        return 0
    for line in [*target.warnings, *target.file.later, *unknown_partitions(target.selected)]:
        print(f"warning: {line}")
    print("\n".join(_text(jobs)))
    return 0


def planned(target: Target) -> list[PlannedJob]:
    """All tasks, in file order. The values of secret variables are not shown. Raises OSError."""
    selected, done = target.selected, target.done()
    taken_up = {*target.journal.lasting, *(each.task for each in submitted(target.file, target.journal))}
    waits = waits_of(selected, done=done)
    jobs: list[PlannedJob] = []
    for spec in target.file.tasks:
        if spec.name not in waits:
            jobs.append(PlannedJob(spec.name, "left out"))
        elif spec.name in taken_up:
            jobs.append(PlannedJob(spec.name, "under way"))
        elif spec.name in done:
            jobs.append(PlannedJob(spec.name, "done earlier"))
        else:
            attempt = target.next_attempt(spec.name)
            made = target.made(spec.name, attempt, TOKEN)
            text = script(made.order, control_folder(target.logs.dir))
            shown = mask(text, [value for value in secrets_in(made.order.env) if value != TOKEN])
            jobs.append(PlannedJob(spec.name, "runs", attempt, shown, made.paths.script, waits[spec.name]))
    return jobs


def unknown_partitions(tasks: Iterable[TaskSpec]) -> Iterator[str]:
    """Those that tasks name, a line each, where Slurm is here and answers at once."""
    asked = [str(dict(spec.extras.slurm).get("partition", "")) for spec in tasks]
    names = list(dict.fromkeys(name for text in asked for name in text.split(",") if name))
    known = partition_names(os.environ) if names else []
    for name in names:
        if known and name not in known:
            hint = did_you_mean(name, known)
            yield f"partition {name} is not known to Slurm here" + (f": {hint}" if hint else "")


_OTHERS = ("under way", "done earlier", "left out")


def _text(jobs: Sequence[PlannedJob]) -> list[str]:
    running = [job for job in jobs if job.state == "runs"]
    more = [f"{len(found)} {state}" for state in _OTHERS if (found := _in(jobs, state))]
    if not running:
        return [", ".join(["nothing would be submitted", *more])]
    lines: list[str] = []
    for job in running:
        lines += [
            "",
            f"==> {job.task}, attempt {job.attempt}{_after(job.waits)}: {job.kept} <==",
            job.script.rstrip("\n") if len(running) == 1 else _gist(job.script),
        ]
    if len(running) > 1:
        lines += ["", "The whole script of one, with its environment and the wrapper: gpudeck plan --only TASK"]
    return [*lines[1:], "", ", ".join([f"{len(running)} of {len(jobs)} tasks would be submitted", *more])]


def _gist(script: str) -> str:
    """What it asks Slurm for, and its command."""
    asked = [line for line in script.partition("\n\n")[0].splitlines() if line.startswith("#SBATCH")]
    return "\n".join([*asked, script.partition("\ngd_argv=(")[2].partition(")\ngd_environment() {")[0]])


def _in(jobs: Sequence[PlannedJob], state: str) -> list[PlannedJob]:
    return [job for job in jobs if job.state == state]


def _after(waits: Waits) -> str:
    names = [*waits.ok, *waits.ended]
    return f", after {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}" if names else ""


def _row(job: PlannedJob) -> dict[str, object]:
    return {
        "task": job.task,
        "state": job.state,
        "attempt": job.attempt,
        "script": job.script,
        "kept": job.kept,
        "after_ok": list(job.waits.ok),
        "after_end": list(job.waits.ended),
    }
