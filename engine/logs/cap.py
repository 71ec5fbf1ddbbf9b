"""Bounds the disk that the logs of an attempt take (`log_cap`), while the task writes straight to its files.

When they have grown beyond the cap, disk space in their middle is given back to the file system: names, sizes and
offsets stay, the beginning and the newest part stay, the middle reads as zero bytes. The writer notices nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.deck import Deck
from ..core.events import AttemptEnded, AttemptStarting, Fact, StartRevoked
from .files import AttemptPaths

PERIOD_S = 1.0
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_FILL = 0.75
"""How much of the cap is left full: what is freed is then large, and seldom."""
_HEAD = 0.25
"""How much of what stays is the beginning: versions, options, the model's summary."""
_HEAD_MOST_BYTES = 16 << 20
_CANNOT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_RANK = re.compile(r"rank\d+\.(?:log|err)")


def _load_fallocate() -> Callable[[int, int, int, int], int] | None:
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return call


_fallocate = _load_fallocate()


def punch(fd: int, start: int, count: int) -> None:
    """Give the disk space of a part of a file back; it then reads as zero bytes. Raises OSError.

    https://man7.org/linux/man-pages/man2/fallocate.2.html, "Deallocating file space".
    """
    if _fallocate is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    while _fallocate(fd, _PUNCH_HOLE | _KEEP_SIZE, start, count) != 0:
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


Punch = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class _Watched:
    paths: AttemptPaths
    cap_bytes: int
    ranks: bool
    """Processes of it may have logs of their own."""

    def files(self) -> list[str]:
        found = list(dict.fromkeys((self.paths.out, self.paths.err)))
        if self.ranks:
            stem = os.path.basename(self.paths.out).removesuffix("log")
            with contextlib.suppress(OSError):
                found += [
                    f"{self.paths.dir}/{name}"
                    for name in os.listdir(self.paths.dir)
                    if name.startswith(stem) and _RANK.fullmatch(name[len(stem) :])
                ]
        return found


class LogCaps:
    """Looks at the logs of attempts with a cap once a second, in a thread that exists only while there are any.

    `follow` and `close` on the loop's thread; they touch no file.
    """

    def __init__(
        self,
        deck: Deck,
        paths: Callable[[str, int], AttemptPaths],
        notice: Callable[[str], None],
        *,
        punch: Punch = punch,
    ) -> None:
        """*paths*: where the files of (task, attempt) are. *notice* is told, on the helper's thread and once, where
        caps cannot be kept."""
        self._deck = deck
        self._paths = paths
        self._notice = notice
        self._punch = punch
        self._watched: dict[tuple[str, int], _Watched] = {}
        self._ended: list[_Watched] = []
        self._work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._helpless = False

    def follow(self, facts: Iterable[Fact]) -> None:
        """Attempts started or ended; starts of an earlier engine's attempts that go on are given once."""
        for fact in facts:
            match fact:
                case AttemptStarting():
                    self._started(fact)
                case AttemptEnded() | StartRevoked():
                    self._over(fact.task, fact.attempt)
                case _:
                    pass

    def _started(self, fact: AttemptStarting) -> None:
        task = self._deck.by_name.get(fact.task)
        extras = task.spec.extras if task is not None else None
        if extras is None or extras.log_cap_mib is None or self._helpless:
            return
        watched = _Watched(
            self._paths(fact.task, fact.attempt), extras.log_cap_mib << 20, ranks=extras.launch != "command"
        )
        with self._work:
            self._watched[fact.task, fact.attempt] = watched
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log-cap", daemon=True)
                self._thread.start()

    def _over(self, task: str, attempt: int) -> None:
        if (task, attempt) in self._watched:
            with self._work:
                self._ended.append(self._watched.pop((task, attempt)))
                self._work.notify()

    def close(self, timeout_s: float = 2.0) -> None:
        """Look at what has ended once more, and end the thread; one that a file server holds is left to itself."""
        with self._work:
            self._closed = True
            self._work.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: self._closed or self._ended, PERIOD_S)
                ended, self._ended = self._ended, []
                todo = [*ended, *self._watched.values()]
                if not todo or self._helpless:
                    self._thread = None
                    return
                closed = self._closed
            for watched in todo:
                self._look(watched)
            if closed:
                return

    def _look(self, watched: _Watched) -> None:
        try:
            keep_within(watched.files(), watched.cap_bytes, self._punch)
        except OSError as error:
            if error.errno in _CANNOT and not self._helpless:
                self._helpless = True
                self._notice(
                    f"log_cap cannot be kept: the file system of {watched.paths.dir} does not free the middle of a "
                    f"file ({error.strerror}): logs grow"
                )


def keep_within(paths: Sequence[str], cap_bytes: int, punch: Punch = punch) -> int:
    """Free the middle of these files if together they take more disk than *cap_bytes*; what is no regular file of its
    own is left alone. Returns how many bytes were freed.

    Raises OSError where the file system cannot do it.
    """
    taken = _taken(paths)
    total = sum(taken.values())
    if total <= cap_bytes:
        return 0
    for path, share in _shares(taken, int(cap_bytes * _FILL)).items():
        if taken[path] > share:
            _free_middle(path, share, punch)
    return max(0, total - sum(_taken(taken).values()))


def _taken(paths: Iterable[str]) -> dict[str, int]:
    """Disk that each log takes, in bytes; without what some file systems reserve behind a file that grows."""
    found = {path: _log(path) for path in paths}
    return {path: min(log.st_blocks * 512, log.st_size) for path, log in found.items() if log is not None}


def _shares(taken: Mapping[str, int], budget: int) -> dict[str, int]:
    """Small files keep all they have; the others share what is left evenly."""
    shares: dict[str, int] = {}
    for path in sorted(taken, key=lambda path: taken[path]):
        shares[path] = min(taken[path], budget // (len(taken) - len(shares)))
        budget -= shares[path]
    return shares


def _free_middle(path: str, keep_bytes: int, punch: Punch) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return
        block = max(4096, found.st_blksize)
        head = min(int(keep_bytes * _HEAD), _HEAD_MOST_BYTES)
        start = -(-head // block) * block
        end = (found.st_size - (keep_bytes - head)) // block * block
        if end > start:
            punch(fd, start, end - start)
    finally:
        os.close(fd)


def _log(path: str) -> os.stat_result | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else None
