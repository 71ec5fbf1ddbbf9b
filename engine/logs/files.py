"""Where an attempt's files lie: LOG_DIR/TASK/attempt-N.log|err|json, those of its ranks, and the links that point to
the newest."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

_MAX_NAME_BYTES = 200
_PLAIN = re.compile(r"[\w.\-=,+@]+(?:/[\w.\-=,+@]+)*")
_NOT_PLAIN = re.compile(r"[^\w.\-=,+@]")
_RESERVED = re.compile(r"attempt-\d+\..*|latest\.(?:log|err)|gpu\d+\.log|deck\.log|\.\.?", re.IGNORECASE)
_ATTEMPT_FILE = re.compile(r"attempt-(\d{1,9})\..+")


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """Absolute paths of one attempt's files. `err` is `out` where the streams are merged."""

    out: str
    err: str
    json: str
    dir: str

    @property
    def stem(self) -> str:
        """What all of them begin with."""
        return self.json.removesuffix(".json")

    @property
    def gpu_history(self) -> str:
        """What it used of its GPUs over time."""
        return f"{self.stem}.gpu.json"

    @property
    def curves(self) -> str:
        """What its metrics have been."""
        return curves_beside(self.json)

    @property
    def script(self) -> str:
        """What a cluster is given to run."""
        return f"{self.stem}.sh"

    @property
    def error(self) -> str:
        """Where torchrun keeps the error of the rank that failed first."""
        return f"{self.stem}.error.json"

    def of_rank(self, rank: int) -> AttemptPaths:
        """With the logs of one of several processes; rank 0 writes where their launcher does."""
        stem = f"{self.stem}.rank{rank}" if rank else self.stem
        out = f"{stem}.log"
        return replace(self, out=out, err=out if self.err == self.out else f"{stem}.err")


def curves_beside(record: str) -> str:
    """The file of an attempt's curves, by the path of its attempt-N.json."""
    return f"{record.removesuffix('.json')}.curves.json"


class NumberTakenError(FileExistsError):
    """Files of an attempt with this number are there, and are not its own."""

    def __init__(self, highest: int) -> None:
        """*highest*: of all numbers that are taken there."""
        super().__init__(errno.EEXIST, "files of its number are in its log folder (do two decks share one log_dir?)")
        self.highest = highest


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link to be made: its absolute path, and what it says."""

    path: str
    target: str
    only_replace: bool = False
    """Only where one is already, which would be out of date."""


def safe_name(task: str, *, twin: bool = False) -> str:
    """The folder of a task below LOG_DIR: its name, unless that cannot be one.

    `/` makes sub folders. A hash is added to names over 200 bytes (UTF-8), with `..`, empty parts or characters that
    task names do not have, to names that would meet files of ours (`attempt-1.log`, `gpu0.log`), and to a *twin*, which
    differs from another task's name only in case. `~` stands before the hash because no task name has it.
    """
    parts = task.split("/")
    plain = _PLAIN.fullmatch(task) is not None and not any(_RESERVED.fullmatch(part) for part in parts)
    raw = task.encode("utf-8", "surrogatepass")
    fits = plain and len(raw) <= _MAX_NAME_BYTES
    if fits and not twin:
        return task
    from hashlib import blake2s  # seldom needed, and slow to load

    digest = blake2s(raw, digest_size=5).hexdigest()
    kept = raw if fits else _NOT_PLAIN.sub("_", task).encode()[: _MAX_NAME_BYTES - 11]
    return f"{kept.decode('utf-8', 'ignore')}~{digest}"


class LogNames:
    """Where attempts' files lie below one LOG_DIR, without a look at it: for whoever knows the deck's tasks."""

    def __init__(self, log_dir: str, names: Iterable[str] = (), former: Sequence[str] = ()) -> None:
        """*names* are the deck's tasks in file order: of two that differ only in case the first keeps its name.
        *former*: where the deck had its logs before, the newest first."""
        self.dir = os.path.abspath(log_dir)
        """Absolute."""
        self.former = tuple(former)
        self._holders: dict[str, str] = {}
        self.admit(names)

    def admit(self, names: Iterable[str]) -> None:
        """More tasks of the deck, in file order."""
        for name in names:
            self._admit(name)

    def folder(self, task: str) -> str:
        """Absolute path of a task's folder; it need not exist."""
        return f"{self.dir}/{safe_name(task, twin=self._admit(task) != task)}"

    def paths(self, task: str, attempt: int, merge_stderr: bool) -> AttemptPaths:
        """Where this attempt's files are or would be. Touches nothing, and looks only where the deck had its logs
        elsewhere before."""
        folder = next((each for each in self._folders(task) if _has(each, attempt)), "") if self.former else ""
        folder = folder or self.folder(task)
        out = f"{folder}/attempt-{attempt}.log"
        err = out if merge_stderr else f"{folder}/attempt-{attempt}.err"
        return AttemptPaths(out, err, f"{folder}/attempt-{attempt}.json", folder)

    def _folders(self, task: str) -> list[str]:
        folder = self.folder(task)
        return [folder, *(former + folder[len(self.dir) :] for former in self.former)]

    def _admit(self, name: str) -> str:
        """The first task with this name, case aside."""
        folded = name.casefold()
        # The same text is kept once: there may be 100,000 names.
        return self._holders.setdefault(name if folded == name else folded, name)


class LogFolder(LogNames):
    """The files below one LOG_DIR. One thread; every method may raise OSError when the folder cannot be used."""

    def __init__(self, log_dir: str, names: Iterable[str] = (), former: Sequence[str] = ()) -> None:
        """See `LogNames`."""
        super().__init__(log_dir, names, former)
        self._highest: dict[str, int] = {}
        try:
            self._found = set(os.listdir(self.dir))
        except FileNotFoundError:
            self._found = set[str]()

    def claim(self, task: str, attempt: int, paths: AttemptPaths, *, again: bool, make: bool) -> None:
        """Make the task's folder, and take the number of an attempt that begins now, before any other deck with this
        LOG_DIR does. *again*: a start under it has come to nothing, and may have left an empty log. *make*: the log
        too, so that of two decks one gets it; else its process makes it. Raises NumberTakenError, and OSError."""
        if _make_folder(paths.dir) or task in self._highest:
            self._highest[task] = max(attempt, self._highest.get(task, 0))
        else:
            self._found.add(self._top(paths.dir))
        if again and not size_of(paths.out):
            return
        try:
            if os.path.lexists(paths.json):
                raise FileExistsError
            if make:
                os.close(os.open(paths.out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            elif os.path.lexists(paths.out):
                raise FileExistsError
        except FileExistsError:
            raise NumberTakenError(max(attempt, highest_in(paths.dir))) from None

    def links(self, paths: AttemptPaths, gpu_indices: Iterable[int]) -> tuple[Link, ...]:
        """What should point to this attempt from its start on: latest.log, latest.err and LOG_DIR/gpuN.log, for
        `make_link`. Relative, so that the folder can be moved or copied. Nothing, where it began in a former one."""
        if not paths.out.startswith(f"{self.dir}/"):
            return ()
        merged = paths.err == paths.out
        target = paths.out[len(self.dir) + 1 :]
        return (
            Link(f"{paths.dir}/latest.log", os.path.basename(paths.out)),
            Link(f"{paths.dir}/latest.err", os.path.basename(paths.err), only_replace=merged),
            *(Link(f"{self.dir}/gpu{index}.log", target) for index in gpu_indices),
        )

    def highest(self, task: str) -> int:
        """Highest attempt number that has left files, 0 for none. Reads a task's folder once, and only if it exists."""
        known = self._highest.get(task)
        if known is not None:
            return known
        folder, *former = self._folders(task)
        if self._top(folder) not in self._found and not former:
            return 0
        number = self._highest[task] = max(map(highest_in, (folder, *former)))
        return number

    def _top(self, folder: str) -> str:
        return folder[len(self.dir) + 1 :].partition("/")[0]


def make_link(link: Link) -> None:
    """Make a link, or point it elsewhere: whoever follows it sees the old target or the new one. Raises OSError."""
    if link.only_replace and not os.path.lexists(link.path):
        return
    try:
        os.symlink(link.target, link.path)
    except FileExistsError:
        _replace_link(link)


def _replace_link(link: Link) -> None:
    temporary = f"{link.path}~"
    try:
        os.symlink(link.target, temporary)
    except FileExistsError:
        os.unlink(temporary)
        os.symlink(link.target, temporary)
    os.replace(temporary, link.path)


def _make_folder(path: str) -> bool:
    """Returns whether it is new."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    except FileNotFoundError:
        os.makedirs(path, exist_ok=True)
    return True


def _has(folder: str, attempt: int) -> bool:
    return os.path.lexists(f"{folder}/attempt-{attempt}.json")


def size_of(path: str) -> int:
    """0: it is empty, or cannot be looked at."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def telling_log(paths: AttemptPaths) -> str:
    """Standard error if anything was written to it, else standard output."""
    return paths.err if size_of(paths.err) else paths.out


def highest_in(folder: str) -> int:
    """Highest attempt number that has left files in a task's folder, 0 for none."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return max((int(found[1]) for name in names if (found := _ATTEMPT_FILE.fullmatch(name))), default=0)


def rank_logs(out_log: str) -> Mapping[int, tuple[str, str]]:
    """Paths of stdout and stderr of each rank that has logs of its own, by rank; equal where they are merged."""
    folder, name = os.path.split(out_log)
    stem = name.removesuffix(".log")
    pattern = re.compile(re.escape(stem) + r"\.rank([1-9]\d{0,4})\.log")
    try:
        found = sorted(int(match[1]) for each in os.listdir(folder or ".") if (match := pattern.fullmatch(each)))
    except OSError:
        return {}
    paths = {rank: f"{folder}/{stem}.rank{rank}" for rank in found}
    return {rank: (f"{path}.log", _err_of(path)) for rank, path in paths.items()}


def _err_of(path: str) -> str:
    return f"{path}.err" if os.path.exists(f"{path}.err") else f"{path}.log"
