"""What a run of `make gpu` saw, as one page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parents[2] / "docs" / "dev" / "gpus-seen"


class NotPossibleError(Exception):
    """This machine cannot be asked that."""


Verdict = Literal["held", "NOT HELD", "not possible here"]


@dataclass(frozen=True)
class Line:
    subject: str
    asked: str
    seen: str
    verdict: Verdict


@dataclass
class Lines:
    """What one check asked and saw."""

    subject: str
    lines: list[Line] = field(default_factory=list[Line])

    def add(self, asked: str, held: bool, seen: object) -> None:
        self.lines.append(Line(self.subject, asked, str(seen), "held" if held else "NOT HELD"))

    def impossible(self, asked: str, why: object) -> None:
        self.lines.append(Line(self.subject, asked, str(why), "not possible here"))

    @contextmanager
    def unless_impossible(self, asked: str, *also: type[Exception]) -> Iterator[None]:
        """What shows meanwhile that it cannot be asked here is written down as that."""
        try:
            yield
        except (NotPossibleError, *also) as why:
            self.impossible(asked, why)

    @property
    def broken(self) -> list[Line]:
        return [line for line in self.lines if line.verdict == "NOT HELD"]


@dataclass
class Record:
    """*about*: date, driver, card, torch, …"""

    about: Mapping[str, str]
    parts: list[Lines] = field(default_factory=list[Lines])

    @property
    def lines(self) -> list[Line]:
        return [line for part in self.parts for line in part.lines]

    def subject(self, name: str) -> Lines:
        self.parts.append(Lines(name))
        return self.parts[-1]


def tally(record: Record) -> str:
    """ "41 held, 1 NOT HELD, 2 not possible here"."""
    verdicts = [line.verdict for line in record.lines]
    kinds: tuple[Verdict, ...] = ("held", "NOT HELD", "not possible here")
    return ", ".join(f"{verdicts.count(kind)} {kind}" for kind in kinds if kind in verdicts) or "nothing was asked"


def markdown(record: Record) -> str:
    about = record.about
    title = f"# {_plain(about['card'])}, driver {_plain(about['driver'])}"
    page = [title, "", f"{about['date']}: {tally(record)}.", "", "| | |", "|---|---|"]
    page += [f"| {name} | {_plain(value)} |" for name, value in about.items()]
    page += ["", "| subject | asked | seen | |", "|---|---|---|---|"]
    for line in record.lines:
        verdict = line.verdict if line.verdict == "held" else f"**{line.verdict}**"
        page.append(f"| {_plain(line.subject)} | {_plain(line.asked)} | {_plain(line.seen)} | {verdict} |")
    return "\n".join(page) + "\n"


def file_name(about: Mapping[str, str]) -> str:
    """DRIVER-CARD.md, with nothing in it that a file system or a link minds."""
    safe = re.sub(r"[^A-Za-z0-9._]+", "-", f"{about['driver']}-{about['card']}")
    return f"{safe.strip('-.') or 'unknown'}.md"


def write(record: Record, folder: Path = FOLDER) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / file_name(record.about)
    path.write_text(markdown(record))
    return path


def _plain(text: str) -> str:
    """One line that Markdown takes as text."""
    return re.sub(r"([\\|`*<\[\]])", r"\\\1", " ".join(text.split()))
