"""What the decks of the same file under other names and profiles have run, or the file before it was renamed: their
outputs lie where this one's do."""

from __future__ import annotations

import glob
import os

from ..core.spec import TaskSpec
from .files import LogNames, highest_in
from .told import read_record


class Beside:
    """The logs of these decks: "…/logs" or "…/logs/STEM", and "…/logs/STEM@NAME". May be asked on any thread."""

    def __init__(self, log_dir: str) -> None:
        """*log_dir*: that of the deck that asks."""
        this = os.path.abspath(log_dir)
        root, stem = os.path.split(this)
        if stem == "logs":
            root, stem = this, "tasks"
        plain = stem.partition("@")[0]
        found = [os.path.join(root, plain), *sorted(glob.glob(f"{glob.escape(os.path.join(root, plain))}@*"))]
        if plain == "tasks":
            found[0] = root
        self._is_plain = "@" not in stem
        names = [plain, *map(os.path.basename, found[1:])]
        self._decks = [(name, LogNames(folder)) for name, folder in zip(names, found, strict=True) if folder != this]
        strangers = [folder for folder in (root, *_decks_in(root)) if folder != this and folder not in found]
        self._strangers = [(os.path.basename(folder), LogNames(folder)) for folder in strangers]

    def doubt(self, spec: TaskSpec) -> str:
        """Why the outputs of this task, though they are there, are no result: which deck ran it last without success,
        or as other work. "" where nothing speaks against them. A trial leaves the plain deck's results alone, other
        work or not. Of decks of other files only what did the same work counts."""
        found = (f"{name} {why}" for name, deck in self._decks if (why := self._why(deck, spec)))
        same = (f"{name} {why}" for name, deck in self._strangers if (why := self._why(deck, spec, same=True)))
        return next(found, "") or next(same, "")

    def _why(self, deck: LogNames, spec: TaskSpec, *, same: bool = False) -> str:
        newest = highest_in(deck.folder(spec.name))
        if not newest:
            return ""
        record = read_record(deck.paths(spec.name, newest, merge_stderr=False).json)
        if same and record.get("fingerprint") != spec.fingerprint:
            return ""
        match record.get("end"):
            case {"kind": "ok"}:
                other = self._is_plain and record.get("fingerprint") != spec.fingerprint
                return "has run it as other work" if other else ""
            case {}:
                return "has run it without success"
            case _:
                return "runs it, or nobody knows its end"


def _decks_in(folder: str) -> list[str]:
    """Log folders of decks that lie in it."""
    return sorted(os.path.dirname(log) for log in glob.glob(os.path.join(glob.escape(folder), "*", "deck.log")))
