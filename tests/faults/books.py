"""The engine's books after a deck has run to its end, compared with each other and with what its tasks saw."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpudeck.engine.adapters.journal.db import look_at
from gpudeck.engine.attempts.record import read_record
from gpudeck.engine.core.events import AttemptEnded, AttemptStarting, Fact, StartRevoked
from tests.e2e.decks import Deck, Event
from tests.faults.ledger import Attempt, Ledger
from tests.faults.lives import Lives

Codes = Mapping[str, Sequence[int | None]]
"""By task: how each of its attempts ended; None: not known."""


@dataclass(frozen=True, slots=True)
class Books:
    """A deck's ledger, journal, records, logs, and what its engines said."""

    folder: Path
    ledger: Ledger
    lives: Lives
    state_dir: str = ".gpudeck"
    log_dir: str = "logs"

    def facts(self) -> list[Fact]:
        facts, damage = look_at(str(self.folder / self.state_dir / "tasks/deck.db"))
        assert damage == ""
        return facts

    def log(self, task: str, attempt: int, suffix: str = "log") -> bytes:
        return (self.folder / self.log_dir / task / f"attempt-{attempt}.{suffix}").read_bytes()

    def record(self, task: str, attempt: int) -> Event:
        return json.loads(self.log(task, attempt, "json"))

    def described(self, task: str, attempt: int) -> bool:
        """Whether its attempt-N.json says all that it can say by now."""
        told = read_record(str(self.folder / self.log_dir / task / f"attempt-{attempt}.json"))
        over = self.ledger.codes().get((task, attempt)) is not None
        return bool(told) and (not over or "end" in told)

    def living(self) -> list[int]:
        """What the deck's tasks started and that lives."""
        return Deck(self.folder).living()

    def end_tasks(self) -> None:
        """What a test that failed has left."""
        Deck(self.folder).kill_living()

    def complaints(self, wanted: Codes, forgotten: Collection[Attempt] = ()) -> list[str]:
        """Everything that is not as promised, after the deck has run to its end.

        Of attempts that the journal may have *forgotten*, because it was damaged, only what tasks saw and wrote is
        judged.
        """
        whole = self.facts()
        facts = [fact for fact in whole if _about(fact) not in forgotten]
        return [
            *self.ledger.complaints(),
            *_attempts(whole, wanted, last_only=bool(forgotten)),
            *_numbers(whole, self.ledger),
            *_against_ledger(facts, self.ledger, forgotten),
            *self._records(facts),
            *self._reports(facts, forgotten),
            *self._logs(),
            *self._links(),
            *(f"{pid} still lives" for pid in self.living()),
        ]

    def _records(self, facts: Sequence[Fact]) -> list[str]:
        """attempt-N.json says what the journal says."""
        wrong: list[str] = []
        ends = _ends(facts)
        for task, attempt in self.ledger.codes().keys() & ends.keys():
            end = ends[task, attempt]
            record = self.record(task, attempt)
            if record.get("task") != task or not record.get("command"):
                wrong.append(f"{task} attempt {attempt}: its json does not say what it is: {record}")
            kept = record.get("end", {})
            if kept.get("exit_code", "missing") != end.outcome.exit_code:
                wrong.append(f"{task} attempt {attempt}: its json says {kept}, the journal {end.outcome}")
        return wrong

    def _reports(self, facts: Sequence[Fact], forgotten: Collection[Attempt]) -> list[str]:
        """What was printed agrees with the journal; an end may go unsaid where its engine was killed, never be said
        twice."""
        ends = _ends(facts)
        told: set[Attempt] = set()
        wrong: list[str] = []
        for event in self.lives.reported():
            if event["event"] == "task_ended":
                who = event["task"], event["attempt"]
                wrong += [f"the end of {who} was told twice"] if who in told else []
                told.add(who)
                if who in forgotten:
                    continue
                if who not in ends or event["exit_code"] != ends[who].outcome.exit_code:
                    wrong.append(f"{event} was told, the journal says {ends.get(who)}")
        return wrong

    def _links(self) -> list[str]:
        """latest.log leads to the newest attempt."""
        newest = dict(sorted(self.ledger.codes()))
        links = {task: self.folder / self.log_dir / task / "latest.log" for task in newest}
        return [
            f"{task}: latest.log is {link.readlink() if link.is_symlink() else None}, not of attempt {newest[task]}"
            for task, link in links.items()
            if not link.is_symlink() or link.readlink() != Path(f"attempt-{newest[task]}.log")
        ]

    def _logs(self) -> list[str]:
        """What a task wrote is there from its first line to its last."""
        wrong: list[str] = []
        for (task, attempt), code in self.ledger.codes().items():
            out, err = self.log(task, attempt), self.log(task, attempt, "err")
            if not out.startswith(f"first line of {attempt}\n".encode()):
                wrong.append(f"{task} attempt {attempt}: its log begins with {out[:50]!r}")
            if code is not None and not out.endswith(f"last line of {attempt}\n".encode()):
                wrong.append(f"{task} attempt {attempt}: its log ends with {out[-50:]!r}")
            # A shell tells of what it ran just when the stop came: "Terminated".
            words = err.replace(b"Terminated\n", b"")
            if code is not None and words != f"first word of {attempt}\nlast word of {attempt}\n".encode():
                wrong.append(f"{task} attempt {attempt}: its stderr is {err[:200]!r}")
        return wrong


def _about(fact: Fact) -> Attempt | None:
    return (fact.task, fact.attempt) if isinstance(fact, (AttemptStarting, AttemptEnded)) else None


def _ends(facts: Sequence[Fact]) -> dict[Attempt, AttemptEnded]:
    return {(fact.task, fact.attempt): fact for fact in facts if isinstance(fact, AttemptEnded)}


def _attempts(facts: Sequence[Fact], wanted: Codes, *, last_only: bool) -> list[str]:
    codes: dict[str, list[int | None]] = {}
    for fact in facts:
        if isinstance(fact, AttemptEnded):
            codes.setdefault(fact.task, []).append(fact.outcome.exit_code)
    since = -1 if last_only else 0
    return [
        f"{task}: the attempts ended with {codes.get(task)}, not {wanted.get(task)}"
        for task in sorted({*codes, *wanted})
        if codes.get(task, [])[since:] != list(wanted.get(task, []))[since:]
    ]


def _numbers(facts: Sequence[Fact], ledger: Ledger) -> list[str]:
    """No number is left out: a start that came to nothing is tried again under its own."""
    used: dict[str, set[int]] = {}
    for task, attempt in (*ledger.codes(), *_ends(facts)):
        used.setdefault(task, set()).add(attempt)
    return [f"{task}: attempts {sorted(got)}" for task, got in used.items() if got != set(range(1, len(got) + 1))]


def _against_ledger(facts: Sequence[Fact], ledger: Ledger, forgotten: Collection[Attempt]) -> list[str]:
    """The journal knows every attempt that ran, with its token, and says no other code than the task itself."""
    ends = _ends(facts)
    revoked = [(fact.task, fact.attempt) for fact in facts if isinstance(fact, StartRevoked)]
    started = {(fact.task, fact.attempt): fact for fact in facts if isinstance(fact, AttemptStarting)}
    found: list[str] = []
    for line in ledger.lines("begin"):
        start = started.get(line.who)
        if line.who not in forgotten and (start is None or start.token != line.token):
            found.append(f"{line.who} ran as {line.token}, the journal knows {start}")
    for who, code in ledger.codes().items():
        end = ends.get(who)
        if who in forgotten:
            continue
        if end is None:
            found.append(f"{who} has no end")
        elif code is not None and end.outcome.exit_code not in (code, None):
            found.append(f"{who} ended with {code}, the journal says {end.outcome}")
        elif code is None and end.outcome.exit_code is not None and end.outcome.exit_code <= 128:
            found.append(f"{who} did not end by itself, the journal says {end.outcome}")
    found += [f"{who}: {end.outcome}" for who, end in ends.items() if end.outcome.ok != (end.outcome.exit_code == 0)]
    found += [
        f"{who} never ran, and its end says {end.outcome}"
        for who, end in ends.items()
        if who not in ledger.codes() and end.outcome.exit_code is not None
    ]
    found += [f"{who} has no end" for who in started if who not in ends and who not in revoked]
    return found
