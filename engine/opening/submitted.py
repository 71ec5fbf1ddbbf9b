"""Tasks that `gpudeck submit` has handed to Slurm and no engine has taken up: the journal knows nothing of them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..adapters.slurm.jobfiles import VOID, claimed_by, control_folder, path
from ..core.recorded import Recorded
from ..core.spec import DeckFile
from ..errors import UsageError
from ..text import plural

if TYPE_CHECKING:
    from .regained import Told

_SENT = ".sent"
_NAMED = 3


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
    from .regained import all_told  # with all that attempts leave behind, where they are on a cluster

    told = (each for each, _ in all_told(file.settings.log_dir, file.settings.name, {}) if each.token in tokens)
    found = {each.task: each for each in told if not _is_void(control, each.token, names)}
    return [_sent(control, found[spec.name], names) for spec in file.tasks if spec.name in found]


def _is_void(control: str, token: str, names: Collection[str]) -> bool:
    """`gpudeck submit` has found it gone, and nothing of it will ever run."""
    return f"{token}.claim" in names and f"{token}.began" not in names and claimed_by(control, token) == VOID


def _sent(control: str, told: Told, names: Collection[str]) -> Sent:
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
            f"{file.shown}: {in_words(running)}, and no end of {_them(running)} is known: `gpudeck --backend slurm` "
            "goes on with what was begun, and `gpudeck stop --tasks` then ends it"
        )
    if found and not insists:
        raise UsageError(
            f"{file.shown}: {in_words(found)}, and no engine knows how {_they(found)} ended: `gpudeck --backend slurm` "
            f"takes that in, `gpudeck --backend local` runs {_them(found)} again on this box"
        )


def in_words(found: Sequence[Sent]) -> str:
    """ "a, b and 2 more tasks were submitted as Slurm jobs on 2026-11-23 14:05": the newest of them."""
    names = ", ".join(each.task for each in found[:_NAMED])
    more = len(found) - _NAMED
    names += f" and {plural(more, 'more task')}" if more > 0 else ""
    on = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(each.at for each in found)))
    return f"{names} {'was' if len(found) == 1 else 'were'} submitted as Slurm jobs on {on}"


def standing(found: Sequence[Sent]) -> str:
    """What an onlooker is told, in a line."""
    over = sum(each.ended for each in found)
    ended = f" ({'all' if over == len(found) > 1 else over} ended since)" if over else ""
    return f"{in_words(found)}{ended}: `gpudeck --backend slurm` follows {_them(found)}"


def _them(found: Sequence[Sent]) -> str:
    return "it" if len(found) == 1 else "them"


def _they(found: Sequence[Sent]) -> str:
    return "it" if len(found) == 1 else "they"
