"""What earlier engines left and the journal does not tell.

A journal that was damaged has forgotten attempts; the files beside their logs and their records tell what they were.
What is told so becomes facts, which are written into the new journal before anything else is: results count, and what
still runs is taken over like any other attempt of an earlier engine. Records of attempts that nobody needs any more go.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from ..adapters import host
from ..adapters.background import within
from ..adapters.processes import proc, record
from ..attempts.record import RecordedGpu, read_record
from ..core.events import AttemptEnded, AttemptStarting, Fact, Outcome, Reason, RunEnded, RunStarted
from ..core.recorded import Recorded
from ..core.spec import DeckFile
from ..errors import UsageError
from ..globs import real
from ..ports import Instant
from ..snapshot.index import SHARED

_FILE = re.compile(r"attempt-([1-9]\d{0,8})\.json")


class _End(msgspec.Struct):
    at: str
    kind: Reason
    exit_code: int | None
    duration_s: float
    signal: int | None = None
    detail: str = ""
    device_fault: bool = False


class RecordedAttempt(msgspec.Struct):
    """attempt-N.json, as far as it matters here."""

    task: str
    attempt: int
    deck: str
    fingerprint: str
    start: str
    token: str
    gpus: tuple[RecordedGpu, ...] = ()
    end: _End | None = None
    log: str = ""
    where: str = ""
    """The cluster that it was given to."""


def has_forgotten(records: Collection[str], journal: Recorded) -> bool:
    """Whether there are records of attempts, by token, that the journal does not know, or attempts without one that
    last as far as it knows: an end is in the journal before its record goes."""
    return not (journal.tokens.issuperset(records) and journal.lasting_tokens.issubset(records))


def recover(
    log_dir: str,
    records: Collection[str],
    deck: str,
    journal: Recorded,
    *,
    boot_id: str,
    results_too: bool,
    options: str = "",
) -> tuple[list[Fact], str]:
    """Facts about the newest attempt of each task of *deck*, where the journal does not know how it ended; and what to
    say of them.

    *records*: tokens of attempts that left one. *boot_id*: of the boot on which the last engine ran. *results_too*:
    also of attempts that were over and done with. *options*: those given now, encoded, for a run that is made up.
    Looks at all folders below *log_dir*.
    """
    lasting = journal.lasting
    results: list[Fact] = []
    still: list[Fact] = []
    now = host.SystemClock().now()
    for told, of_lasting in recorded_attempts(log_dir, deck, lasting):
        before = lasting.get(told.task)
        may_last = told.token in records or (told.where != "" and told.end is None)
        has_ended = told.end is not None and before is not None and before.token == told.token
        if journal.is_over((told.task, told.attempt)) or not (results_too or may_last or has_ended):
            continue
        if before is not None and before.attempt > told.attempt:
            continue
        if before is not None and before.attempt < told.attempt:
            results.append(_ended(of_lasting, now) if of_lasting and of_lasting.end else _lost(before, now))
        if told.end is not None:
            results += [_ended(told, now)] if _same(before, told) else [_starting(told, now), _ended(told, now)]
        elif may_last and not _same(before, told):
            still.append(_starting(told, now))
    ended = sum(isinstance(fact, AttemptEnded) for fact in results)
    said = f"{ended} results and {len(still)} unfinished attempts are known again from their logs and records"
    return list(_in_a_run(results, still, journal, boot_id, now, options)), said


def _same(start: AttemptStarting | None, told: RecordedAttempt) -> bool:
    return start is not None and start.attempt == told.attempt


def recorded_attempts(
    log_dir: str, deck: str, lasting: Mapping[str, AttemptStarting]
) -> Iterator[tuple[RecordedAttempt, RecordedAttempt | None]]:
    """Of each task the newest attempt, and the one that lasts if that is another."""
    for folder, folders, names in os.walk(log_dir):
        if SHARED in folders:
            folders.remove(SHARED)  # copies of code
        numbers = [int(match[1]) for name in names if (match := _FILE.fullmatch(name))]
        told = _read_attempt(folder, max(numbers)) if numbers else None
        if told is not None and told.deck == deck:
            start = lasting.get(told.task)
            yield told, _read_attempt(folder, start.attempt) if start is not None else None


def _read_attempt(folder: str, attempt: int) -> RecordedAttempt | None:
    stem = os.path.join(folder, f"attempt-{attempt}")
    try:
        told = msgspec.convert(read_record(f"{stem}.json"), RecordedAttempt)
    except msgspec.ValidationError:
        return None
    if os.path.exists(f"{stem}.sh"):  # what a cluster was given, and may begin only now
        told.where = "slurm"
    return told


def _in_a_run(
    results: Sequence[Fact], still: Sequence[Fact], journal: Recorded, boot_id: str, now: Instant, options: str
) -> Iterator[Fact]:
    """Where the journal has forgotten the run as well, one is made up; it goes on only if something lasts."""
    run, goes_on = journal.run, journal.unfinished
    if not (results or still):
        return
    if not goes_on:
        run += 1
        yield RunStarted(run, os.urandom(8).hex(), now.boot_s, now.wall_s, boot_id, host.hostname(), options=options)
    yield from results
    if not goes_on and not still:
        yield RunEnded(run, now.boot_s, now.wall_s)
    yield from still


def _starting(told: RecordedAttempt, now: Instant) -> AttemptStarting:
    wall = _wall(told.start, now)
    return AttemptStarting(
        told.task,
        told.attempt,
        told.token,
        told.fingerprint,
        gpus=tuple(gpu.uuid for gpu in told.gpus),
        cpu_slots=0 if told.gpus else 1,
        reserved_mib=0,
        at=now.boot_s - (now.wall_s - wall),
        wall=wall,
        alone=bool(told.gpus),
        where=told.where,
    )


def _ended(told: RecordedAttempt, now: Instant) -> AttemptEnded:
    assert told.end is not None
    end, wall = told.end, _wall(told.end.at, now)
    outcome = Outcome(end.kind, end.exit_code, end.signal, end.detail, end.device_fault)
    return AttemptEnded(
        told.task,
        told.attempt,
        outcome,
        at=now.boot_s - (now.wall_s - wall),
        wall=wall,
        duration_s=end.duration_s,
        next="succeeded" if outcome.ok else "cancelled" if outcome.reason == "cancelled" else "failed",
        fingerprint=told.fingerprint,
    )


def _lost(start: AttemptStarting, now: Instant) -> AttemptEnded:
    """A later one was begun, so it had ended."""
    outcome = Outcome("lost", detail="the journal was damaged")
    return AttemptEnded(
        start.task, start.attempt, outcome, now.boot_s, now.wall_s, 0.0, "failed", fingerprint=start.fingerprint
    )


def _wall(iso: str, now: Instant) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return now.wall_s


# -- records of attempts -----------------------------------------------------------------------------------------------

OLD_RECORD_S = 3600.0
"""A wrapper that was late for its start has come and gone by then."""
_LOOK_S = 5.0
"""All processes have been looked at by then, unless one is stuck in the kernel."""

Unsettled = tuple[AttemptEnded, AttemptStarting]
"""An end in the journal of which the rest (attempt-N.json, dropping the record) may not have been done."""


def unsettled(left: Collection[str], told: Recorded) -> list[Unsettled]:
    """Ends on disk whose record still stands, by the tokens of all records *left*: a crash came between the fact and
    what follows from it."""
    pairs = ((end, told.starts.get(key)) for key, end in told.ends.items()) if left else ()
    return [(end, start) for end, start in pairs if start is not None and start.token in left]


def sweep_records(attempts_dir: str, keep: Iterable[str]) -> None:
    """Drop records that no attempt needs any more: of starts that came to nothing, as soon as no wrapper of theirs can
    be on its way."""
    kept = set(keep)
    limit = time.time() - OLD_RECORD_S
    with os.scandir(attempts_dir) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name in kept:
                    continue
                if entry.stat().st_mtime < limit or record.read(entry.path).end:
                    os.unlink(entry.path)


def refuse_strangers(attempts_dir: str, file: DeckFile, told: Recorded) -> None:
    """Attempts of this deck that run and that its journal, lost or cut short by damage, does not know: the deck would
    start them a second time. Their records tell, or, where the whole state is gone, their processes. Raises UsageError
    that names each with its session leader."""
    lines: list[str] = []
    for token in sorted(set(os.listdir(attempts_dir)) - told.tokens):
        wrapper = record.read(os.path.join(attempts_dir, token))
        if wrapper.living():
            lines.append(_stranger(file, "an attempt", wrapper.pid, "that the journal does not know"))
    if not told.tokens and not lines:
        lines += left_without_state(file)
    if lines:
        raise UsageError("\n".join(lines))


def left_without_state(file: DeckFile) -> Iterator[str]:
    """A line for each attempt that still runs though the state folder, which knew of it, is gone."""
    log_dir = file.settings.log_dir
    has_logs = os.path.isdir(log_dir) and os.listdir(log_dir)
    sessions: Mapping[str, int] = _sessions() if has_logs else {}
    for told, _ in recorded_attempts(log_dir, file.settings.name, {}) if sessions else ():
        # Logs that were copied tell of what runs elsewhere.
        if told.end is None and told.token in sessions and real(told.log).startswith(os.path.join(real(log_dir), "")):
            what = f"{told.task} attempt {told.attempt}"
            yield _stranger(file, what, sessions[told.token], "and the deck's state, which knew of it, was removed")


def _sessions() -> Mapping[str, int]:
    """Of all attempts of this user that run on this box, by token. A process that is stuck hides them."""

    def look() -> Mapping[str, int]:
        tokens = ((proc.token_in(proc.environ(each.pid) or b""), each) for each in proc.everyone().values())
        return {token: process.session for token, process in tokens if token}

    with contextlib.suppress(TimeoutError):
        return within(_LOOK_S, look)
    return {}


def _stranger(file: DeckFile, what: str, pid: int, why: str) -> str:
    return f"{file.shown}: {what} still runs (pid {pid}) {why}: wait for its end, or end it: kill -- -{pid}"
