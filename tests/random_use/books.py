"""What must hold of a deck whatever was done to it, looked at from outside: what tasks wrote, processes, the journal,
logs, and what commands say are held against each other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpudeck.engine.adapters.journal.db import look_at
from gpudeck.engine.core.events import AttemptEnded, AttemptStarting, Fact, StartRevoked
from gpudeck.engine.decks.offline import open_offline
from gpudeck.engine.serve.offline import OfflineLook
from gpudeck.engine.taskfile.options import RunOptions
from tests.e2e.decks import lives
from tests.faults.ledger import Attempt

from . import files, shown
from .deck import UsedDeck
from .taskfile import NAMES, RUNS
from .told import HOLDING, WAITING, Told, printed, told

_CLOSED = ("lost", "drained")
_ENDED = ("succeeded", "cached", "failed", "cancelled")


def never(deck: UsedDeck) -> list[str]:
    """What is wrong at any time, and stays wrong."""
    tokens = Counter(line.token for line in deck.ledger.lines("begin"))
    deck.shared |= deck.unwrapped and deck.holder() is None
    return [
        *(wrong for wrong in deck.ledger.complaints() if not (deck.shared and "in use" in wrong)),
        *(f"token {token} began {count} times" for token, count in tokens.items() if count > 1),
        *_tracebacks(deck),
    ]


def at_rest(deck: UsedDeck, *, by_commands: bool = False) -> list[str]:
    """What is wrong, or not yet come to rest. *by_commands*: as they print it, which takes a while."""
    said = printed(deck) if by_commands else told(deck)
    facts = _facts(deck)
    wrong = [*shown.complaints(deck, said)]
    if said.status["engine"] and not deck.full:
        wrong += [*_on_closed(deck), *_living(deck, said, facts), *_against_ledger(deck, facts), *_replayed(deck, said)]
        wrong += [*files.wrong_logs(deck), *files.wrong_records(deck, ends_of(facts))]
    return wrong


def over(deck: UsedDeck) -> list[str]:
    """What is wrong after the engine has ended and all tasks with it."""
    facts = _facts(deck)
    ends = ends_of(facts)
    starts = {(fact.task, fact.attempt): fact.token for fact in facts if isinstance(fact, AttemptStarting)}
    wanted = {who for who in starts if who[0] in deck.file.tasks}  # of others the end is taken in when they come back
    revoked = {(fact.task, fact.attempt) for fact in facts if isinstance(fact, StartRevoked)}
    return [
        *(f"{pid} still lives: {words}" for pid, words in deck.relatives().items()),
        *(f"{who} has no end" for who in sorted(wanted - ends.keys() - revoked)),
        *_against_ledger(deck, facts),
        *files.wrong_logs(deck),
        *files.wrong_records(deck, ends),
        *files.wrong_reports(deck, ends),
        *files.left_records(deck, {starts[who] for who in starts.keys() - wanted}),
    ]


def _facts(deck: UsedDeck) -> Sequence[Fact]:
    facts, damage = look_at(str(deck.state_dir / "deck.db"))
    assert damage == "", f"the journal is damaged: {damage}"
    return facts


def ends_of(facts: Sequence[Fact]) -> Mapping[Attempt, AttemptEnded]:
    return {(fact.task, fact.attempt): fact for fact in facts if isinstance(fact, AttemptEnded)}


def _tracebacks(deck: UsedDeck) -> Iterator[str]:
    for path in (deck.state_dir / "engine.log", deck.log_dir / "deck.log", *deck.folder.glob("err-*")):
        if path.exists() and "Traceback" in (text := path.read_text(errors="replace")):
            yield f"{path.name}: {text[-3000:]}"


def _on_closed(deck: UsedDeck) -> Iterator[str]:
    """Nothing starts on a GPU that is lost or drained."""
    for line in deck.ledger.lines("begin")[deck.looked_at :]:
        if line.task in NAMES and (shut := deck.closed.keys() & set(line.value.split(","))):
            yield f"{line.who} began on GPU {line.value}, and {', '.join(map(deck.closed.__getitem__, shut))}"


# -- processes, the journal, logs -------------------------------------------------------------------------------------


def _living(deck: UsedDeck, said: Told, facts: Sequence[Fact]) -> Iterator[str]:
    """What runs has a process, and what has ended has none."""
    living = deck.tokens()
    ends = ends_of(facts)
    starts = {fact.token: (fact.task, fact.attempt) for fact in facts if isinstance(fact, AttemptStarting)}
    for token, pids in living.items():
        if starts.get(token) in ends and any(map(lives, pids)):
            yield f"{starts[token]} has ended, and {pids} of it live"
        if token not in starts:
            yield f"{pids} run as {token}, of which the journal knows nothing"
    running = {starts[token] for token in living if token in starts}
    for name, row in said.rows.items():
        if row["state"] in HOLDING[:-1] and (name, row["attempt"]) not in running:
            yield f"{name} attempt {row['attempt']} is {row['state']}, and nothing of it lives"
        if row["state"] not in HOLDING and (name, row["attempt"]) in running:
            yield f"{name} attempt {row['attempt']} runs, and its row says {row['state']}"


def _against_ledger(deck: UsedDeck, facts: Sequence[Fact]) -> Iterator[str]:
    """The journal knows every attempt that ran, and says no other code than the task itself."""
    ends = ends_of(facts)
    started = {(fact.task, fact.attempt): fact.token for fact in facts if isinstance(fact, AttemptStarting)}
    for line in deck.ledger.lines("begin"):
        if line.task in NAMES and started.get(line.who) != line.token:
            yield f"{line.who} ran as {line.token}, the journal knows {started.get(line.who)}"
    codes = deck.ledger.codes()
    ran = {who: end for who, end in ends.items() if end.outcome.reason != "spawn error"}
    for who, end in ran.items():
        told, code = end.outcome.exit_code, codes.get(who)
        if told is not None and ((code is not None and code != told) or (code is None and told <= 128)):
            yield f"{who} ended with {code}, the journal says {end.outcome}"
        if end.outcome.ok and code != 0:
            yield f"{who} ended with {code}, the journal takes it for a success"
        if told is None and code is not None and end.outcome.ok:
            yield f"{who}: {end.outcome}"
    for token, count in Counter(fact.token for fact in facts if isinstance(fact, AttemptStarting)).items():
        if count > 1 and len({who for who, of in started.items() if of == token}) > 1:
            yield f"{token} is the token of several attempts"


def _replayed(deck: UsedDeck, said: Told) -> Iterator[str]:
    """Who reads the journal sees what the engine says."""
    if deck.unapplied or said.status["file_plan"] or said.status["file_problem"]:
        return
    path = str(deck.folder / "tasks.toml")
    for row in OfflineLook(open_offline(path, RunOptions(), deck.env), path).rows(()):
        live = said.rows.get(row.name)
        if live is None:
            yield f"{row.name} is in the journal, and the engine does not show it"
            continue
        mine = (row.attempt, row.held, row.priority, row.exit_code)
        theirs = tuple(live[key] for key in ("attempt", "held", "priority", "exit_code"))
        no_fact = row.state == "backoff" and live["state"] in WAITING  # that its time is over
        no_fact |= row.state == "running" and is_unproven(live)
        if mine != theirs or (row.state != live["state"] and not no_fact):
            yield f"{row.name} is {live['state']} {theirs}, and {row.state} {mine} as the journal is replayed"


def is_unproven(row: Mapping[str, Any]) -> bool:
    """It was on a GPU that has got lost: no engine can say what became of it, which is no fact."""
    return row["state"] == "unknown" and "its GPU does not answer" in row["reason"]


def has_lost_its_copy(deck: UsedDeck) -> bool:
    """No engine runs, and a full disk has cost the copy of the file as it was taken."""
    ran = deck.holder() is None and deck.state_dir.exists() and bool(_facts(deck))
    return ran and not (deck.state_dir / "taken.toml").exists()


def started(deck: UsedDeck) -> bool:
    """Whether there is anything to look at: an engine runs, or one has left a journal and a copy of the file as it was
    taken, which a full disk may have cost."""
    if not deck.state_dir.exists() or not _facts(deck):
        return False
    return deck.holder() is not None or (deck.state_dir / "taken.toml").exists()


def wrong_runs(deck: UsedDeck) -> list[str]:
    """Single commands have come to their ends, and with their own codes."""
    if not any(line.task in RUNS for line in deck.ledger.lines("begin")):
        return []
    rows = json.loads(deck.run_command("ls", "--queue", "--json").out)
    codes = deck.ledger.codes()
    wrong = [f"run {row['name']} is {row['state']}" for row in rows if row["state"] not in _ENDED]
    for row in rows:
        code = codes.get((row["name"], row["attempt"]))
        if row["exit_code"] is not None and code is not None and row["exit_code"] != code:
            wrong.append(f"run {row['name']} ended with {code}, ls says {row['exit_code']}")
    return wrong


def unsettled(deck: UsedDeck) -> list[str]:
    """What has not come to its end although nothing is in its way any more."""
    said = told(deck)
    busy = [name for name, row in said.rows.items() if row["state"] in (*HOLDING, "backoff", "queued")]
    return [f"{name} is {said.rows[name]['state']}: {said.obstacles.get(name, '')}" for name in busy]


def remember(deck: UsedDeck) -> None:
    """What is to be held against what starts from now on."""
    said = told(deck)
    deck.looked_at = len(deck.ledger.lines("begin"))
    deck.closed = {str(gpu["index"]): gpu["note"] for gpu in said.status["gpus"] if gpu["note_kind"] in _CLOSED}
