"""Attempts of an earlier engine, found again by what their wrappers wrote; what that does not tell Slurm is asked for.

Nothing here depends on which host, or which boot of it, this engine runs on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...core.fate import Fate
from ...ports import Known
from .jobfiles import VOID, claimed_by, path, read_map
from .jobs import Job

_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Left:
    """What lies in the control folder, by names as far as these tell. An empty one, where it cannot be read, proves
    nothing."""

    folder: str
    names: frozenset[str] = frozenset()
    elements: dict[str, str] = field(default_factory=dict[str, str])
    """"BATCH_7", by token."""
    claims: dict[str, str] = field(default_factory=dict[str, str])
    """Who has those that were read, by token."""

    @staticmethod
    def read(folder: str, known: Sequence[Known], limit_s: float = _LIMIT_S) -> Left:
        """Blocks for as long as the folder takes to answer, *limit_s* at most."""
        found = [Left(folder)]
        reader = threading.Thread(target=lambda: found.append(_left(folder, known)), name="gpudeck-left", daemon=True)
        with contextlib.suppress(RuntimeError):  # as many threads as the user, or the cgroup, may have
            reader.start()
            reader.join(limit_s)
        return found[-1]

    def fate(self, known: Known) -> tuple[Fate, Job]:
        """What its files prove, and the attempt as a job. "adopted" where they prove no end: Slurm may."""
        job = Job(known.token, id=known.job, stage="waiting", element=self.elements.get(known.token, ""))
        if f"{known.token}.ended" in self.names:  # the wrapper's last act: nothing of it lives, whatever is in it
            return "ended", job
        claim = self.claims.get(known.token, "")
        if claim == VOID:
            return "never ran", job
        job.claimed = f"{known.token}.claim" in self.names
        job.id = job.id or claim
        if not job.id:
            job.stage = "doubt"
        return "adopted", job


def _left(folder: str, known: Sequence[Known]) -> Left:
    try:
        names = frozenset(os.listdir(folder))
    except OSError:
        return Left(folder)
    unsure = [each for each in known if not each.job or f"{each.token}.began" not in names]
    claims = {each.token: _claim(folder, each.token) for each in unsure if f"{each.token}.claim" in names}
    unnumbered = any(not each.job and claims.get(each.token, "") in ("", VOID) for each in known)
    batches = [name.removesuffix(".map") for name in names if name.endswith(".map")] if unnumbered else []
    return Left(folder, names, dict(_elements(folder, batches)), claims)


def _claim(folder: str, token: str) -> str:
    try:
        return claimed_by(folder, token)
    except OSError:
        return ""


def _elements(folder: str, batches: Iterable[str]) -> Iterable[tuple[str, str]]:
    for batch in batches:
        try:
            with open(path(folder, batch, "map"), encoding="utf-8") as file:
                tokens = read_map(file.read())
        except OSError:
            continue
        for index, token in tokens.items():
            yield token, f"{batch}_{index}"
