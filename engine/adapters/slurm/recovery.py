"""Attempts of an earlier engine, found again by what their wrappers wrote; what that does not tell Slurm is asked for.

Nothing here depends on which host, or which boot of it, this engine runs on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...core.fate import Fate
from ...ports import Known
from .jobfiles import VOID, claimed_by, path, read_ended, read_map
from .jobs import Job


@dataclass(frozen=True, slots=True)
class Left:
    """What lies in the control folder. An empty one, where it cannot be read, proves nothing."""

    folder: str
    names: frozenset[str] = frozenset()
    elements: dict[str, str] = field(default_factory=dict[str, str])
    """"BATCH_7", by token."""

    @staticmethod
    def read(folder: str, known: Sequence[Known]) -> Left:
        """Blocks for as long as the folder takes to answer."""
        try:
            names = frozenset(os.listdir(folder))
        except OSError:
            return Left(folder)
        unnumbered = {each.token for each in known if not each.job}
        batches = [name.removesuffix(".map") for name in names if name.endswith(".map")] if unnumbered else []
        return Left(folder, names, dict(_elements(folder, batches)))

    def fate(self, known: Known) -> tuple[Fate, Job]:
        """What its files prove, and the attempt as a job. "adopted" where they prove no end: Slurm may."""
        job = Job(known.token, id=known.job, stage="waiting", element=self.elements.get(known.token, ""))
        if f"{known.token}.ended" in self.names and self._told_its_end(known.token):
            return "ended", job
        claim = self._claim(known.token)
        if claim == VOID:
            return "never ran", job
        job.claimed = f"{known.token}.claim" in self.names
        job.id = job.id or claim
        if not job.id:
            job.stage = "doubt"
        return "adopted", job

    def _told_its_end(self, token: str) -> bool:
        try:
            with open(path(self.folder, token, "ended"), encoding="utf-8", errors="replace") as file:
                return read_ended(file.read()) is not None
        except OSError:
            return False

    def _claim(self, token: str) -> str:
        try:
            return claimed_by(self.folder, token) if f"{token}.claim" in self.names else ""
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
