"""What must hold of the files that a deck leaves: logs, attempt-N.json, what headless engines printed, records."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpudeck.engine.core.events import AttemptEnded
from tests.faults.ledger import Attempt

from .deck import UsedDeck
from .taskfile import NAMES

_TALKS = 502
"""Lines of a task that prints many."""


def wrong_logs(deck: UsedDeck) -> Iterator[str]:
    """What a task wrote is there from its first line to its last, and latest.log is of its newest attempt."""
    codes = {who: code for who, code in deck.ledger.codes().items() if who[0] in NAMES}
    newest = dict(sorted(codes))
    for (task, attempt), code in codes.items():
        path = deck.log_dir / task / f"attempt-{attempt}.log"
        if (task, attempt) in deck.unsure or code is None or (deck.cleaned and not path.exists()):
            continue
        text = path.read_bytes()
        wanted = _TALKS if b"\nline 1\n" in text else 2
        whole = text.startswith(f"first line of {attempt}\n".encode())
        if not whole or not text.endswith(f"last line of {attempt}\n".encode()) or text.count(b"\n") != wanted:
            yield f"{task} attempt {attempt}: its log is {text[:50]!r} … {text[-50:]!r}, {len(text)} bytes"
        if task in deck.file.tasks and attempt == newest[task] and _leads_to(path.with_name("latest.log")) < attempt:
            yield f"latest.log of {task} is not of attempt {attempt}"


def _leads_to(link: Path) -> int:
    """The attempt whose log it is, which may be a newer one that never began; 0: nothing's."""
    name = link.resolve().name
    return int(name.removeprefix("attempt-").removesuffix(".log")) if link.is_symlink() else 0


def wrong_records(deck: UsedDeck, ends: Mapping[Attempt, AttemptEnded]) -> Iterator[str]:
    """attempt-N.json says what the journal says."""
    for (task, attempt), end in ends.items():
        path = deck.log_dir / task / f"attempt-{attempt}.json"
        if (task, attempt) in deck.unsure or (task, attempt) not in deck.ledger.codes() or not path.exists():
            continue
        kept = json.loads(path.read_text()).get("end", {})
        if kept.get("exit_code", "missing") != end.outcome.exit_code:
            yield f"{path} says {kept}, the journal {end.outcome}"


def wrong_reports(deck: UsedDeck, ends: Mapping[Attempt, AttemptEnded]) -> Iterator[str]:
    """What headless engines printed agrees with the journal, and no end is told twice."""
    told: set[Attempt] = set()
    for event in _events(deck):
        if event["event"] == "task_ended":
            who = event["task"], event["attempt"]
            if who in told:
                yield f"the end of {who} was told twice"
            told.add(who)
            if who not in ends or event["exit_code"] != ends[who].outcome.exit_code:
                yield f"{event} was told, the journal says {ends.get(who)}"


def _events(deck: UsedDeck) -> Iterator[dict[str, Any]]:
    for path in deck.folder.glob("out-*"):
        for line in path.read_text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                yield json.loads(line)


def left_records(deck: UsedDeck, kept: Collection[str]) -> Iterator[str]:
    """Nothing is left of attempts that are settled; *kept*: tokens of others. What turns a late wrapper of a start that
    came to nothing away stays for an hour."""
    for path in (deck.state_dir / "attempts").iterdir():
        text = path.read_text(errors="replace") if path.is_file() else ""
        if path.name not in kept and text.strip() != "void":
            yield f"{path} was left: {text}"
