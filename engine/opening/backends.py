"""What of a deck runs on a cluster and what on this box: an engine looks after one of the two."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from ..adapters.slurm.jobfiles import control_folder
from ..adapters.slurm.script import names_several
from ..core.events import AttemptStarting
from ..core.recorded import Recorded
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..errors import EngineUnavailableError, UsageError
from ..text import plural

_TOLD = frozenset({"sent", "began", "ended"})
"""sent: `gpudeck submit` has handed it over."""
_NAMED = 5


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
    chosen = file.selected
    specs = [spec for spec in file.tasks if chosen is None or spec.name in chosen]
    names = [spec.name for spec in specs if spec.extras.nodes == 1 and names_several(_nodelist(spec))]
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    words = "slurm.nodelist names several nodes for a task of one: passed over"
    return [f"{names[0]}{others}: {words}"] if names else []


def _nodelist(spec: TaskSpec) -> str:
    return str(dict(spec.extras.slurm).get("nodelist", ""))


def refuse_elsewhere(file: DeckFile, told: Recorded) -> None:
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
    jobs = ((start.task, told.jobs.get((start.task, start.attempt), "")) for start in starts[:_NAMED])
    names = ", ".join(f"{task} (job {job})" if job else task for task, job in jobs)
    more = len(starts) - _NAMED
    return f"{names} and {plural(more, 'more task')}" if more > 0 else names
