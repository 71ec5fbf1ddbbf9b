"""What a check came to: one line for people, one object for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ..taskfile.problems import printable
from ..text import plural

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


VERSION = 1
"""Of the JSON: goes up when a field is renamed or removed."""
_SHOWN = {"ok": "ok", "warn": "warn", "fail": "FAIL"}
_NAME_COLUMNS = 22


def line(finding: Finding) -> str:
    return f"{_SHOWN[finding.level]:<5} {finding.check:<{_NAME_COLUMNS}} {finding.line}"


def verdict(findings: Sequence[Finding]) -> str:
    """ "19 ok, 2 warnings, 1 failure"."""
    count = _counts(findings)
    return f"{count['ok']} ok, {plural(count['warn'], 'warning')}, {plural(count['fail'], 'failure')}"


def as_json(findings: Sequence[Finding], *, version: str, file: str, task: str) -> str:
    """*file*, *task*: "" where there is none."""
    content = {
        "version": VERSION,
        "gpudeck": version,
        "file": file or None,
        "task": task or None,
        "result": worst(findings),
        "counts": _counts(findings),
        "checks": [asdict(finding) for finding in findings],
    }
    return json.dumps(content, indent=2)


def _counts(findings: Sequence[Finding]) -> dict[str, int]:
    return {level: sum(finding.level == level for finding in findings) for level in LEVELS}
