"""attempt-N.json: what an attempt was made of and how it ended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..atomic import write_atomic
from ..core.events import Outcome
from .metrics import from_text, to_text
from .outputs import OutputStamp
from .secrets import masked_command, masked_env
from .told import read_record as read_record

if TYPE_CHECKING:
    from .gitstate import GitState


@dataclass(frozen=True, slots=True)
class AttemptHeader:
    """What an attempt was made of."""

    task: str
    attempt: int
    deck: str
    command: Sequence[str] | str
    env: Sequence[tuple[str, str | None]]
    """What the file gives, placeholders filled; secrets are masked when it is written."""
    cwd: str
    """Where it runs; in `snapshot`, where it has one."""
    gpus: Sequence[tuple[int, str]]
    """(index, UUID)."""
    started_wall: float
    log: str
    err: str
    fingerprint: str = ""
    token: str = ""
    outputs_before: Mapping[str, OutputStamp] = field(default_factory=dict[str, OutputStamp])
    """So that an engine that adopts the attempt can still tell stale outputs."""
    gpu_profile: str = ""
    """The [[gpu_profile]] of its cards, by its memory as written: "80GiB"."""
    launched: Sequence[str] = ()
    """What is executed where a launcher starts the command; (): the command itself."""
    ranks: int = 0
    """How many of the command the launcher starts; 0: there is none."""
    snapshot: str = ""
    """The top of the copy of the code that it runs; empty: it runs the code itself."""
    git: GitState | None = None
    """What the copy is of; None: git is asked."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a cluster runs an attempt."""

    job: str
    """The cluster's id of it."""
    nodes: Sequence[str] = ()
    """Empty: it waits there to begin."""
    began_wall: float | None = None


def with_place(record: dict[str, Any], placed: Placed) -> dict[str, Any]:
    """*record* with what is known now: a job id, and once it runs the nodes, the first of them as its host, and when it
    began."""
    start = {} if placed.began_wall is None else {"start": _iso(placed.began_wall)}
    host = placed.nodes[0] if placed.nodes else ""
    return {**record, "host": host, "job": placed.job, "nodes": list(placed.nodes), **start}


@dataclass(frozen=True, slots=True)
class Score:
    """What one metric came to."""

    last: float
    best: float | None
    """By the task's own `best`; None: it never was a number."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How it ended. None: not known."""

    outcome: Outcome
    reason: str
    """The outcome in one line for people, as `describe` says it."""
    ended_wall: float
    duration_s: float
    peak_mib: int | None = None
    mean_mib: float | None = None
    peak_util_percent: float | None = None
    mean_util_percent: float | None = None
    mean_power_w: float | None = None
    """Of all its GPUs together; of a shared one its share."""
    energy_wh: float | None = None
    progress: float | None = None
    """The share done as its output told it last, 0 to 1."""
    metrics: Mapping[str, Score] = field(default_factory=dict[str, Score])


def header_record(header: AttemptHeader, *, host: str, git: GitState | None) -> dict[str, Any]:
    launched = {"launched": masked_command(header.launched), "ranks": header.ranks} if header.ranks else {}
    return {
        "task": header.task,
        "attempt": header.attempt,
        "deck": header.deck,
        "command": masked_command(header.command),
        **launched,
        "env": masked_env(header.env),
        "cwd": header.cwd,
        **({"snapshot": header.snapshot} if header.snapshot else {}),
        "gpus": [{"index": index, "uuid": uuid} for index, uuid in header.gpus],
        **({"gpu_profile": header.gpu_profile} if header.gpu_profile else {}),
        "host": host,
        "git": git,
        "fingerprint": header.fingerprint,
        "token": header.token,
        "log": header.log,
        "err": header.err,
        "start": _iso(header.started_wall),
        "outputs_before": header.outputs_before,
    }


def end_record(end: AttemptEnd) -> dict[str, Any]:
    outcome = end.outcome
    return {
        "at": _iso(end.ended_wall),
        "reason": end.reason,
        "kind": outcome.reason,
        "detail": outcome.detail,
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "device_fault": outcome.device_fault,
        "duration_s": round(end.duration_s, 3),
        "peak_mib": end.peak_mib,
        "mean_mib": end.mean_mib,
        "peak_util_percent": end.peak_util_percent,
        "mean_util_percent": end.mean_util_percent,
        "mean_power_w": None if end.mean_power_w is None else round(end.mean_power_w, 1),
        "energy_wh": None if end.energy_wh is None else round(end.energy_wh, 6),
        "progress": end.progress,
        "metrics": {
            name: to_text({"last": score.last} | ({} if score.best is None else {"best": score.best}))
            for name, score in end.metrics.items()
        },
    }


def told_again(end: dict[str, Any], before: object) -> dict[str, Any]:
    """*end* of a record that may have it already: an engine that completes it anew knows nothing of what was used."""
    told = cast("dict[str, Any]", before) if isinstance(before, dict) else {}
    if told.get("at") != end["at"]:
        return end
    return {key: told.get(key) if value is None else value for key, value in end.items()}


def encode(record: Mapping[str, Any]) -> bytes:
    """Indented, one newline at the end; names that are not UTF-8 stay readable as escapes."""
    try:
        return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(record), indent=2).encode() + b"\n"


def last_scores(path: str) -> tuple[dict[str, float], dict[str, float]]:
    """What an attempt that is over reported last, and the best of it, as its attempt-N.json says; {} when it does
    not."""
    try:
        end: Any = read_record(path).get("end")
        metrics: Any = end.get("metrics", {}) if end else {}
        told = msgspec.convert(metrics, dict[str, dict[str, float | str]])
    except (AttributeError, msgspec.ValidationError):
        return {}, {}
    scores = {name: from_text(score) for name, score in told.items()}
    last = {name: score["last"] for name, score in scores.items() if "last" in score}
    return last, {name: score["best"] for name, score in scores.items() if "best" in score}


def stamps_in(record: Mapping[str, Any], log: str) -> Mapping[str, OutputStamp]:
    """`outputs_before` of a record read back. *log*: where its log lies now; outputs have moved along with it."""
    try:
        stamps = msgspec.convert(record.get("outputs_before", {}), dict[str, OutputStamp])
    except msgspec.ValidationError:
        return {}
    before, now = _apart(str(record.get("log", log)), log)
    return {now + path.removeprefix(before) if path.startswith(before) else path: stamps[path] for path in stamps}


def _apart(one: str, other: str) -> tuple[str, str]:
    """What two paths begin with before the part that they have in common at their ends."""
    ends, others = one.split("/"), other.split("/")
    while ends and others and ends[-1] == others[-1]:
        ends.pop()
        others.pop()
    return "/".join([*ends, ""]), "/".join([*others, ""])


def create(path: str, raw: bytes) -> bool:
    """Write a file that does not exist yet. False: it does. Raises OSError, and then leaves nothing."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    try:
        if os.write(fd, raw) != len(raw):
            raise OSError(28, "No space left on device", path)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    return True


def replace(path: str, raw: bytes) -> None:
    """Write a file so that readers see the old one or the new one. Raises OSError."""
    write_atomic(path, raw, durable=False, draft=f"{path}~")


def _iso(wall_s: float) -> str:
    """Local time with its offset, to the millisecond."""
    return datetime.fromtimestamp(wall_s).astimezone().isoformat(timespec="milliseconds")
