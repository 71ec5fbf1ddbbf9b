"""What a check came to: one line for people, one object for scripts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..taskfile.problems import printable

Level = Literal["ok", "warn", "fail"]
LEVELS: tuple[Level, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `text` is what was seen, `remedy` what to do about it: "" where all is well."""

    level: Level
    check: str
    text: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """All of it on one line, without what a terminal would obey."""
        return printable(f"{self.text} → {self.remedy}" if self.remedy else self.text)


def ok(check: str, text: str) -> Finding:
    return Finding("ok", check, text)


def warn(check: str, text: str, remedy: str) -> Finding:
    return Finding("warn", check, text, remedy)


def fail(check: str, text: str, remedy: str) -> Finding:
    return Finding("fail", check, text, remedy)


def worst(findings: Iterable[Finding]) -> Level:
    """The gravest level; "ok" of none."""
    return LEVELS[max((LEVELS.index(finding.level) for finding in findings), default=0)]
