"""What of a deck runs on a cluster and what on this box: an engine looks after one of the two. Tasks that `gpudeck
submit` has handed to Slurm and no engine has taken up are here, too: the journal knows nothing of them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..adapters.slurm.jobfiles import VOID, claimed_by, control_folder, path
from ..core.events import AttemptStarting
from ..core.recorded import Recorded
from ..core.spec import DeckFile, DeckSettings
from ..errors import EngineUnavailableError, UsageError
from ..text import names_text, plural

if TYPE_CHECKING:
    from .journal_recovery import RecordedAttempt

_TOLD = frozenset({"sent", "began", "ended"})
"""sent: `gpudeck submit` has handed it over."""
_SENT = ".sent"


def tokens_recorded(settings: DeckSettings, attempts_dir: str) -> set[str]:
    """Tokens of attempts that left a record, here or on a cluster. Raises OSError."""
    found = set(os.listdir(attempts_dir))
    control = control_folder(settings.log_dir)
    if settings.backend == "slurm" and os.path.isdir(control):
        for name in os.listdir(control):
            token, _, kind = name.partition(".")
            if kind in _TOLD:
                found.add(token)
    return found


def require_cluster(settings: DeckSettings, environ: Mapping[str, str]) -> None:
    """Raises EngineUnavailableError where jobs cannot be submitted from here at all."""
    if settings.backend == "slurm" and shutil.which("sbatch", path=environ.get("PATH")) is None:
        raise EngineUnavailableError(
            'backend = "slurm" needs sbatch, which is not on PATH here: start the deck on a login node of the cluster'
        )


def may_have_jobs(settings: DeckSettings, told: Recorded) -> bool:
    """Whether a deck without a past may have one all the same: its state is gone, and its jobs wait in a queue."""
    return settings.backend == "slurm" and not told.run and os.path.isdir(control_folder(settings.log_dir))


def passed_over_nodelists(file: DeckFile) -> list[str]:
    """What to say, once, of tasks of one node whose nodelist names several: Slurm would give them all of these."""
    if file.settings.backend != "slurm":
        return []
    from ..adapters.slurm.script import names_several  # with what runs Slurm's programs

    asked = {spec.name: dict(spec.extras.slurm).get("nodelist", "") for spec in file.chosen if spec.extras.nodes == 1}
    names = [name for name, nodes in asked.items() if names_several(str(nodes))]
    words = "slurm.nodelist names several nodes for a task of one: passed over"
    return [f"{names_text(names, 1)}: {words}"] if names else []


def refuse_other_backend(file: DeckFile, told: Recorded) -> None:
    """Attempts that are not known to have ended and run where this engine cannot see them end.

    Raises UsageError that names them.
    """
    here = "" if file.settings.backend == "local" else file.settings.backend
    elsewhere = [start for start in told.lasting.values() if start.where != here]
    if not elsewhere:
        return
    backend = "local" if here else elsewhere[0].where
    where = "on this box" if here else "on the cluster"
    raise UsageError(
        f"{file.shown}: {_names(elsewhere, told)} began {where} and {'has' if len(elsewhere) == 1 else 'have'} not "
        f'ended, as far as is known; with backend = "{file.settings.backend}" nobody would see it: '
        f"`gpudeck --backend {backend}` goes on with what was begun, and `gpudeck stop --tasks` then ends it"
    )


def _names(starts: Sequence[AttemptStarting], told: Recorded) -> str:
    jobs = ((start.task, told.jobs.get((start.task, start.attempt), "")) for start in starts)
    return _named([f"{task} (job {job})" if job else task for task, job in jobs], 5)


def _named(tasks: Sequence[str], shown: int) -> str:
    """ "a, b and 2 more tasks"."""
    more = len(tasks) - shown
    return ", ".join(tasks[:shown]) + (f" and {plural(more, 'more task')}" if more > 0 else "")


# -- handed over by `gpudeck submit` -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """A task whose newest attempt is such a job."""

    task: str
    token: str
    fingerprint: str
    """Of the work that was submitted."""
    at: float
    """Seconds since the epoch."""
    ended: bool


def submitted(file: DeckFile, journal: Recorded) -> list[Sent]:
    """Those of the selected tasks, in file order; a folder that cannot be read has none."""
    try:
        found = all_submitted(file, journal)
    except OSError:
        return []
    return [each for each in found if file.selected is None or each.task in file.selected]


def all_submitted(file: DeckFile, journal: Recorded) -> list[Sent]:
    """Those of the file, in its order. Looks at all log folders where there are any. Raises OSError where the folder
    that has the jobs' files is there and cannot be read."""
    control = control_folder(file.settings.log_dir)
    try:
        names = frozenset(os.listdir(control))
    except FileNotFoundError:
        return []
    tokens = {name.removesuffix(_SENT) for name in names if name.endswith(_SENT)} - journal.tokens
    if not tokens:
        return []
    from .journal_recovery import recorded_attempts  # with all that attempts leave behind, where they are on a cluster

    newest = (each for each, _ in recorded_attempts(file.settings.log_dir, file.settings.name, {}))
    sent = (each for each in newest if each.token in tokens and not _is_void(control, each.token, names))
    found = {each.task: each for each in sent}
    return [_sent(control, found[spec.name], names) for spec in file.tasks if spec.name in found]


def _is_void(control: str, token: str, names: Collection[str]) -> bool:
    """`gpudeck submit` has found it gone, and nothing of it will ever run."""
    return f"{token}.claim" in names and f"{token}.began" not in names and claimed_by(control, token) == VOID


def _sent(control: str, told: RecordedAttempt, names: Collection[str]) -> Sent:
    at = os.stat(path(control, told.token, "sent")).st_mtime
    return Sent(told.task, told.token, told.fingerprint, at, f"{told.token}.ended" in names)


def refuse_submitted(file: DeckFile, journal: Recorded, *, insists: bool) -> None:
    """An engine for this box would run them a second time. *insists*: the user asked for this box by name, which is
    enough for those that have ended.

    Raises UsageError.
    """
    found = [] if file.settings.backend == "slurm" else submitted(file, journal)
    running = [each for each in found if not each.ended]
    if running:
        raise UsageError(
            f"{file.shown}: {submitted_text(running)}, and no end of {_them(running)} is known: "
            "`gpudeck --backend slurm` goes on with what was begun, and `gpudeck stop --tasks` then ends it"
        )
    if found and not insists:
        raise UsageError(
            f"{file.shown}: {submitted_text(found)}, and no engine knows how {'it' if len(found) == 1 else 'they'} "
            "ended: `gpudeck --backend slurm` takes that in, "
            f"`gpudeck --backend local` runs {_them(found)} again on this box"
        )


def submitted_text(found: Sequence[Sent]) -> str:
    """ "a, b and 2 more tasks were submitted as Slurm jobs on 2026-11-23 14:05": the newest of them."""
    names = _named([each.task for each in found], 3)
    on = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(each.at for each in found)))
    return f"{names} {'was' if len(found) == 1 else 'were'} submitted as Slurm jobs on {on}"


def submitted_note(found: Sequence[Sent]) -> str:
    """What an onlooker is told, in a line."""
    over = sum(each.ended for each in found)
    ended = f" ({'all' if over == len(found) > 1 else over} ended since)" if over else ""
    return f"{submitted_text(found)}{ended}: `gpudeck --backend slurm` follows {_them(found)}"


def _them(found: Sequence[Sent]) -> str:
    return "it" if len(found) == 1 else "them"
