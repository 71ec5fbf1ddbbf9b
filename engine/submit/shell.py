"""submit.sh: hands each job to sbatch once, with what it waits for. It needs bash and Slurm, and no gpudeck. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from ..adapters.slurm.states import FAILED
from .waits import Waits

LOCK = ".lock"
"""Held by who submits, or writes jobs anew."""


@dataclass(frozen=True, slots=True)
class Member:
    """A task of a job."""

    task: str
    token: str
    files: str
    """What its script and its record are called in the folder of submit.sh, without .sh and .json."""
    attempt: str
    """What its files are called where the deck has them: "/…/logs/a/attempt-1". They are made when it is submitted, so
    that nobody else takes their number."""
    merged: bool
    """Both streams go to one log."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one sbatch submits: a task, or several as an array."""

    name: str
    """The job's name, which no other job has."""
    script: str
    """Relative to submit.sh."""
    members: tuple[Member, ...]
    waits: Waits
    batch: str = ""
    """Of an array; empty: one job."""


def submit_script(deck: str, control: str, units: Sequence[Unit], in_flight: Mapping[str, str], *, version: str) -> str:
    """The whole text. *control*: absolute path of the folder in which jobs tell how they ended; *in_flight*: by task
    the token of a job that an earlier submit.sh has handed over, and that others may wait for."""
    lines = [f"known {shlex.quote(task)} {token}" for task, token in in_flight.items()]
    for unit in units:
        lines.append("")
        lines.append(_words("job", unit.name, unit.script, unit.batch))
        for member in unit.members:
            err = () if member.merged else ("err",)
            lines.append(_words("  task", member.task, member.token, member.files, member.attempt, *err))
        lines += [_words("  after_ok", *unit.waits.ok)] * bool(unit.waits.ok)
        lines += [_words("  after_end", *unit.waits.ended)] * bool(unit.waits.ended)
        lines.append("  submit")
    failed = "|".join(sorted(FAILED))
    head = _HEAD.format(deck=" ".join(deck.split()), version=version, control=shlex.quote(control), failed=failed)
    return "\n".join([head, _BODY, *lines, "", "tell", ""])


def _words(verb: str, *words: str) -> str:
    return " ".join([verb, *(shlex.quote(word) for word in words)])


_HEAD = """\
#!/bin/bash
# The deck {deck} as Slurm jobs, written by gpudeck {version}. `bash submit.sh` submits each of them once: what Slurm
# has taken is kept beside the logs, so after an interruption or a refusal it may just be run again.
control={control}
failed='{failed}'
"""

_BODY = (files(__package__ or "") / "submit.sh").read_text(encoding="utf-8")
"""Defines the verbs that follow it: known, job, task, after_ok, after_end, submit, tell."""
