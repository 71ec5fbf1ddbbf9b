"""Findings as lines for people and as JSON for scripts (docs/doctor.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from ..headless.text import plural
from .finding import LEVELS, Finding, worst

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
