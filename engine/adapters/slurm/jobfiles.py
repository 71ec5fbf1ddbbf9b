"""The small files by which the engine and a job's wrapper tell each other what they do: TOKEN.claim, TOKEN.began, …

They lie flat in one folder that nodes and engine share. The engine writes its own under another name and moves them, so
that a wrapper which finds one finds all of it. A wrapper, for which a program that moves files costs more than all else
it does, writes in one go: what does not end as written counts as not there yet. What goes wrong raises OSError, where
nothing else is said.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...atomic import write_atomic
from ...core.spec import StopScope
from ...logs.log_file import read_tail
from ...ports import Known, StartOrder
from ..host import read_text
from ..processes.spawn_error import explain_code, explain_setup
from .parse import expand_nodes

FOLDER = ".jobs"
"""Below the deck's log folder."""
VOID = "void"
"""What the engine writes into a claim so that no job ever runs anything under its token."""

UNABLE = 125
"""The code of what was never executed."""
NOT_EXECUTED = (126, 127)
_MOST_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Began:
    """What a wrapper tells before it runs its command."""

    job: str
    """As Slurm counts: "1234", or "1234_7" in an array."""
    nodes: tuple[str, ...]
    wall: float
    """Seconds since the epoch, by the node's clock; 0: not told."""


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


def void(folder: str, token: str) -> str:
    """Take the claim, so that no job with this token ever runs anything: VOID. Else, as `claimed_by`, who has it."""
    try:
        fd = os.open(path(folder, token, "claim"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return claimed_by(folder, token)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(f"{VOID}\n")
        file.flush()
        os.fsync(fd)
    return VOID


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
    return Began(said["job"], expand_nodes(said.get("nodes", "")), _number(said.get("wall", "")))


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


def remove(folder: str, tokens: Mapping[str, bool]) -> None:
    """Remove all files of tokens, or of batches; but for its claim where that is to be kept, since a job of it may
    still begin. Idempotent."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            token, _, kind = name.partition(".")
            if token in tokens and not (tokens[token] and kind == "claim"):
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job whose files are to be read."""

    token: str
    begun: bool
    """That is known."""
    closely: bool
    """Its log, its claim and its heartbeat, too."""
    order: StartOrder | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """What the files of a job say."""

    began: Began | None
    ended: Ended | None
    says_killed: bool = False
    """Something of it was, as its log tells: who started that (torchrun, srun, a DataLoader) ends with a code of its
    own then."""
    why: str = ""
    """What kept its command from being executed, as its log tells."""
    says_memory: bool = False
    """Slurm wrote into its log that it had more memory than it may have."""
    claim: str | None = None
    """Who has its claim; None: nobody, or it was not looked at."""
    beat: float | None = None
    """When its heartbeat was written, as the file says; 0: never. None: it was not, or could not be, looked at."""


def read_files(
    folder: str, wanted: Sequence[Wanted], claims: Mapping[str, str], *, on_network: bool
) -> dict[str, Files] | None:
    """What they say, by token, of those that say anything. None: the folder tells nothing now. One that somebody
    removed is made again, with these *claims*, by token: without its own, what runs would be ended."""
    try:
        if on_network:
            _refresh(folder)
        names = frozenset(os.listdir(folder))
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            make_again(folder, claims)
        return None
    except OSError:
        return None
    return {each.token: _files_of(folder, each) for each in wanted if each.closely or _is_news(each, names)}


def _is_news(wanted: Wanted, names: frozenset[str]) -> bool:
    return f"{wanted.token}.ended" in names or (not wanted.begun and f"{wanted.token}.began" in names)


def _files_of(folder: str, wanted: Wanted) -> Files:
    """Its end is read last: what comes meanwhile counts."""
    token, order = wanted.token, wanted.order
    logs = (order.stderr, order.stdout) if order is not None else ()
    memory, claim, beat = False, None, None
    if wanted.closely:
        memory, claim, beat = says_memory(*logs), _claim(folder, token), _modified(path(folder, token, "alive"))
    began = read_began(read_text(path(folder, token, "began")))
    ended = read_ended(read_text(path(folder, token, "ended")))
    killed, why = False, ""
    if ended is not None and order is not None:
        killed = bool(ended.code) and ended.code not in NOT_EXECUTED and says_killed(*logs)
        why = _explained(ended, order)
    return Files(began, ended, killed, why, memory, claim, beat)


def _explained(ended: Ended, order: StartOrder) -> str:
    if ended.code in NOT_EXECUTED:
        return explain_code(ended.code or 0, order.stderr, order.cwd)
    return explain_setup(order.stderr) if ended.error == "setup" else ""


def _claim(folder: str, token: str) -> str | None:
    with contextlib.suppress(OSError):
        if os.path.exists(path(folder, token, "claim")):
            return claimed_by(folder, token)
    return None


def _refresh(folder: str) -> None:
    """A client of NFS shows a listing that is up to 30 s old, until a write of its own tells it of the others'."""
    name = f"{folder}/.look-{os.getpid()}"
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.unlink(name)


def _modified(name: str) -> float | None:
    """0: it is not there; None: the folder does not say."""
    try:
        return os.stat(name).st_mtime
    except FileNotFoundError:
        return 0.0
    except OSError:
        return None


_TAIL_BYTES = 8192
_KILLED = re.compile(rb"\bkilled\b|SIGKILL|signal 9\b|out of memory|oom[-_ ]kill", re.IGNORECASE)
_MEMORY = re.compile(
    rb"^(?:slurmstepd|srun)\S*: error: .*(?:memory limit|oom[-_ ]kill|out of memory)", re.IGNORECASE | re.MULTILINE
)


def says_killed(*paths: str) -> bool:
    """See `Files`."""
    return any(_KILLED.search(read_tail(each, _TAIL_BYTES)) for each in paths)


def says_memory(*paths: str) -> bool:
    """See `Files`."""
    return any(_MEMORY.search(read_tail(each, _TAIL_BYTES)) for each in paths)


@dataclass(frozen=True, slots=True)
class Left:
    """What earlier engines' jobs left in the folder, by names as far as these tell. An empty one, where it cannot be
    read, proves nothing."""

    names: frozenset[str] = frozenset()
    elements: Mapping[str, str] = field(default_factory=dict[str, str])
    """"BATCH_7", by token."""
    claims: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who has those that were read, by token."""


def read_left(folder: str, known: Sequence[Known]) -> Left:
    """Of these attempts. Blocks for as long as the folder takes to answer; raises nothing."""
    try:
        names = frozenset(os.listdir(folder))
    except OSError:
        return Left()
    unsure = [each.token for each in known if not each.job or f"{each.token}.began" not in names]
    claims = {token: _claim(folder, token) or "" for token in unsure if f"{token}.claim" in names}
    unnumbered = any(not each.job and claims.get(each.token, "") in ("", VOID) for each in known)
    batches = [name.removesuffix(".map") for name in names if name.endswith(".map")] if unnumbered else []
    return Left(names, dict(_elements(folder, batches)), claims)


def _elements(folder: str, batches: Iterable[str]) -> Iterator[tuple[str, str]]:
    for batch in batches:
        for index, token in read_map(read_text(path(folder, batch, "map"))).items():
            yield token, f"{batch}_{index}"


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
                if kind != "claim" or claimed_by(folder, token) in ("", VOID):
                    os.unlink(entry.path)
