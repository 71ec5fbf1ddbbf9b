"""attempt-N.json: read back, and what of it is made in the same way for every attempt."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..core.gpu_names import is_simulated as is_simulated_gpu
from ..text import pairs_text, wh_text

if TYPE_CHECKING:  # who only reads a record needs no deck and no parser of metrics
    from .outputs import OutputStamp

_SHELLS = ("bash", "sh")


class RecordedGpu(msgspec.Struct, frozen=True):
    """A GPU of an attempt, as its attempt-N.json has it."""

    index: int
    uuid: str


def read_record(path: str) -> dict[str, Any]:
    """What an attempt-N.json says; {} when it is missing or damaged."""
    try:
        with open(path, "rb") as file:
            record: object = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}


def git_text(git: object) -> str:
    """What a record has under `git`: "1a2b3c4d5e on main, with changes that are not committed"; "" where it does not
    tell."""
    if not isinstance(git, dict):
        return ""
    state = cast("Mapping[str, Any]", git)
    commit = str(state.get("commit") or "")[:10] or "no commit yet"
    branch = f" on {state['branch']}" if state.get("branch") else ""
    return f"{commit}{branch}" + (", with changes that are not committed" if state.get("dirty") else "")


def given_in(record: Mapping[str, Any]) -> dict[str, str]:
    """The values that the attempt had in the place of the file's (`retry --set`)."""
    given = record.get("set")
    if not isinstance(given, dict):
        return {}
    return {str(name): str(value) for name, value in cast("dict[object, object]", given).items()}


def otherwise_text(record: Mapping[str, Any]) -> str:
    """What a retry has changed of the attempt (`--set`, `--env`): "bs=32 X=1"; "": nothing."""
    env = record.get("retried_env")
    variables = cast("dict[str, str | None]", env) if isinstance(env, dict) else {}
    return " ".join(filter(None, (pairs_text(given_in(record)), pairs_text(variables))))


def energy_text(end: Mapping[str, Any], *, simulated: bool = False) -> str:
    """ "1.2 Wh, mean 310 W", of what a record has under `end`, with SIM of *simulated* GPUs; "" for nothing."""
    energy_wh, power_w = end.get("energy_wh"), end.get("mean_power_w")
    if energy_wh is None or power_w is None:
        return ""
    return f"{wh_text(energy_wh)}, mean {power_w:.0f} W" + ("  SIM" if simulated else "")


def words_in(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The program and its arguments, secrets masked; () where the record does not tell."""
    words = record.get("command")
    return tuple(map(str, cast("list[object]", words))) if isinstance(words, list) else ()


def other_command(words: Sequence[str], command: str | Sequence[str]) -> str:
    """*words* as people write them; "" where there are none or they are *command*."""
    if not words or (not isinstance(command, str) and [*words] == [*command]):
        return ""
    text = words[2] if _runs_text(words) else shlex.join(words)
    return text if text != command else ""


def ran_otherwise(task: Mapping[str, Any]) -> str:
    """What the newest attempt of a task has run, in words, where the file says another command by now, also where its
    result was accepted for that. *task*: what `gpudeck show` tells of it. Reads a small file."""
    record = read_record(task["attempts"][-1]["json"]) if task["attempts"] else {}
    return ran_other(record, task)


def ran_other(record: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """The same of the attempt that a record is of."""
    if record.get("fingerprint") == task["fingerprint"]:
        return ""
    return other_command(words_in(record), task["command"])


def _runs_text(words: Sequence[str]) -> bool:
    """It is a command that the file has as one text."""
    return len(words) == 3 and words[1] == "-c" and os.path.basename(words[0]) in _SHELLS


def is_simulated(record: Mapping[str, Any]) -> bool:
    """Whether the attempt's GPUs were simulated ones."""
    gpus = record.get("gpus")
    found = cast("list[Mapping[str, Any]]", gpus) if isinstance(gpus, list) else []
    return any(is_simulated_gpu(str(gpu.get("uuid", ""))) for gpu in found)


def last_scores(path: str) -> tuple[dict[str, float], dict[str, float]]:
    """What an attempt that is over reported last, and the best of it, as its attempt-N.json says; {} when it does
    not."""
    from ..logs.metrics import from_text

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
    from .outputs import OutputStamp

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


def encode(record: Mapping[str, Any]) -> bytes:
    """Indented, one newline at the end; names that are not UTF-8 stay readable as escapes."""
    try:
        return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(record), indent=2).encode() + b"\n"


def iso(wall_s: float) -> str:
    """Local time with its offset, to the millisecond."""
    return datetime.fromtimestamp(wall_s).astimezone().isoformat(timespec="milliseconds")
