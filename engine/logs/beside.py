"""What the decks of the same file under a profile or a --name have run: their outputs lie where the plain deck's do."""

from __future__ import annotations

import glob
import os

from ..core.spec import TaskSpec
from .files import LogNames, highest_in
from .record import read_record


class Beside:
    """The logs of these decks, for the deck under no other name. May be asked on any thread."""

    def __init__(self, log_dir: str) -> None:
        """*log_dir*: the plain deck's, "…/logs" or "…/logs/STEM"."""
        root, stem = os.path.split(os.path.abspath(log_dir))
        if stem == "logs":
            root, stem = os.path.join(root, stem), "tasks"
        found = [] if "@" in stem else sorted(glob.glob(f"{glob.escape(os.path.join(root, stem))}@*"))
        self._decks = [LogNames(folder) for folder in found]

    def other_work(self, spec: TaskSpec) -> str:
        """The deck whose newest attempt of this task was other work, so that its outputs may be of that; "": none."""
        return next((os.path.basename(deck.dir) for deck in self._decks if _ran_other_work(deck, spec)), "")


def _ran_other_work(deck: LogNames, spec: TaskSpec) -> bool:
    newest = highest_in(deck.folder(spec.name))
    if not newest:
        return False
    record = read_record(deck.paths(spec.name, newest, merge_stderr=False).json)
    return record.get("fingerprint") != spec.fingerprint
