"""The small files by which the engine and a job's wrapper tell each other what they do: TOKEN.claim, TOKEN.began, …

They lie flat in one folder that nodes and engine share. The engine writes its own under another name and moves them, so
that a wrapper which finds one finds all of it. A wrapper, for which a program that moves files costs more than all else
it does, writes in one go: what does not end as written counts as not there yet. What goes wrong raises OSError, where
nothing else is said.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...atomic import write_atomic
from ...core.spec import StopScope
from .parse import expand_nodes

FOLDER = ".jobs"
"""Below the deck's log folder."""
VOID = "void"
"""What the engine writes into a claim so that no job ever runs anything under its token."""

_MOST_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Began:
    """What a wrapper tells before it runs its command."""

    job: str
    """As Slurm counts: "1234", or "1234_7" in an array."""
    nodes: tuple[str, ...]
    host: str
    wall: float
    """Seconds since the epoch, by the node's clock; 0: not told."""
    gpus: str = ""
    """CUDA_VISIBLE_DEVICES as Slurm set it."""
    cpus: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """What it tells once nothing of its command lives."""

    code: int | None
    """None: the command never ran, see `error`."""
    wall: float
    """When the command ended, by the node's clock; 0: not told."""
    error: str = ""
    """spawn-cwd, spawn-log or setup."""
    signal: str = ""
    """What the wrapper was told last: "TERM", or "limit" for Slurm's time limit."""
    by_itself: bool = False
    """The command ended before the wrapper had told it to."""


def control_folder(log_dir: str) -> str:
    """Absolute where *log_dir* is."""
    return f"{log_dir}/{FOLDER}"


def path(folder: str, token: str, kind: str) -> str:
    """*kind*: claim, began, ended, alive, stop, warn, gpu, setup; sent, which only submit.sh writes; or map, of an
    array's batch."""
    return f"{folder}/{token}.{kind}"


def write(folder: str, token: str, kind: str, text: str) -> None:
    """Replace one, for its owner alone."""
    write_atomic(path(folder, token, kind), text.encode(), mode=0o600)


def void(folder: str, token: str) -> bool:
    """Take the claim, so that no job with this token ever runs anything. False: a job has it."""
    try:
        fd = os.open(path(folder, token, "claim"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return claimed_by(folder, token) == VOID
    with open(fd, "w", encoding="utf-8") as file:
        file.write(f"{VOID}\n")
        file.flush()
        os.fsync(fd)
    return True


def claimed_by(folder: str, token: str) -> str:
    """The id of the job that has the claim, or VOID; empty: nobody has, or whoever does has not said so yet."""
    try:
        with open(path(folder, token, "claim"), "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""


def read_began(text: str) -> Began | None:
    """What a TOKEN.began says. None: nothing yet."""
    said = _pairs(text)
    if "job" not in said or not text.endswith("\n"):
        return None
    cpus = said.get("cpus", "")
    return Began(
        job=said.get("job", ""),
        nodes=expand_nodes(said.get("nodes", "")),
        host=said.get("host", ""),
        wall=_number(said.get("wall", "")),
        gpus=said.get("gpus", ""),
        cpus=int(cpus) if cpus.isdecimal() else None,
    )


def read_ended(text: str) -> Ended | None:
    """What a TOKEN.ended says. None: nothing yet, or ever where a disk had no space or lost power."""
    said = _pairs(text)
    code = said.get("code", "")
    if not code or not text.endswith("\n"):
        return None
    number = int(code) if code.isdecimal() else None
    error = "" if number is not None else code
    return Ended(number, _number(said.get("wall", "")), error, said.get("signal", ""), said.get("stopped") == "0")


def stop_text(signal: int | str, grace_s: float, scope: StopScope) -> str:
    """For a TOKEN.stop: end it. Again counts only where it is sooner."""
    return f"{signal} {max(0.0, grace_s):.2f} {scope}\n"


def warn_text(signal: int | str) -> str:
    """For a TOKEN.warn: send *signal* to those of its processes that catch it."""
    return f"{signal}\n"


def map_text(tokens: Iterable[str]) -> str:
    """For a BATCH.map: which token each element of an array has."""
    return "".join([f"{index} {token}\n" for index, token in enumerate(tokens)])


def read_map(text: str) -> dict[int, str]:
    """Tokens by the elements' numbers."""
    rows = [line.split() for line in text.splitlines()]
    return {int(row[0]): row[1] for row in rows if len(row) == 2 and row[0].isdecimal()}


def remove(folder: str, *tokens: str, keep_claim: bool = False) -> None:
    """Remove all files of tokens, or of batches. *keep_claim*: jobs of them may still begin. Idempotent."""
    gone = frozenset(tokens)
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            token, _, kind = name.partition(".")
            if token in gone and not (keep_claim and kind == "claim"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{folder}/{name}")


def _pairs(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def make_again(folder: str, claims: Mapping[str, str]) -> None:
    """Make it with *claims*, the id of the job or VOID by token: no job ever sees it without them. Raises OSError where
    the folder above the logs is gone, too: then its file system may be."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(os.path.dirname(folder))
    new = f"{folder}.{os.getpid()}"
    os.mkdir(new, 0o700)
    try:
        for token, claim in claims.items():
            write(new, token, "claim", f"{claim}\n")
        os.rename(new, folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise


_BATCH_S = 7 * 86_400.0
"""By then an array's elements are known by their job ids, or have begun."""
_VOID_S = 60 * 86_400.0
"""So long a job that was given up may stand in a queue and find its claim taken."""


def sweep(folder: str) -> None:
    """Remove old files of arrays, and old claims of jobs that were never to run. What tells how an attempt ended stays:
    another deck may have its logs here, too. Blocks; raises nothing."""
    now = time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            token, _, kind = entry.name.partition(".")
            limit_s = {"map": _BATCH_S, "sh": _BATCH_S, "claim": _VOID_S}.get(kind)
            with contextlib.suppress(OSError):
                if limit_s is None or now - entry.stat().st_mtime < limit_s:
                    continue
                if kind != "claim" or claimed_by(folder, token) == VOID:
                    os.unlink(entry.path)
