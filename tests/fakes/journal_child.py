"""Scenarios that need a process of their own: one that is killed, one on a small disk, one whose disk breaks.

python -m tests.fakes.journal_child SCENARIO FOLDER [ARGUMENTS]        each prints lines for its test
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import platform
import random
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from typing import IO

from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.errors import EngineUnavailableError
from tests.fakes import forked
from tests.fakes.journal import appended, numbered, numbers

LONG_S = 30.0


def write_for_ever(folder: str, seed: str) -> None:
    """Append batches of 1 to 5 facts; the end of each batch is printed once its future is done."""
    draw = random.Random(seed)
    journal = SqliteJournal.open(os.path.join(folder, "deck.db"))
    end = len(list(journal.load()))
    while True:
        count, durable = draw.randint(1, 5), draw.random() < 0.7
        future = appended(journal, numbered(end, count), durable=durable)
        end += count
        future.add_done_callback(lambda _, end=end: print(end, flush=True))
        if durable and draw.random() < 0.5:
            future.result(LONG_S)


def fill_a_small_disk(folder: str) -> None:
    """On a small file system: fill it, append, free it, append. Prints what came of each append as JSON."""
    told: list[bool] = []

    def tell(full: bool, _: str) -> None:
        told.append(full)
        raise RuntimeError("whoever is told is gone")

    journal = SqliteJournal.open(os.path.join(folder, "deck.db"))
    journal.on_disk = tell
    appended(journal, numbered(0)).result(LONG_S)
    hog = os.open(os.path.join(folder, "hog"), os.O_WRONLY | os.O_CREAT)
    _fill(hog)
    results = {
        "full": _outcome(appended(journal, numbered(1, 400))),
        "kept": _outcome(appended(journal, numbered(401, 100), keep=True)),
        "not kept": _outcome(appended(journal, numbered(501))),
    }
    _fill(hog)
    results["beyond the reserve"] = _outcome(appended(journal, numbered(502, 40_000), keep=True))
    os.ftruncate(hog, 0)
    results["freed"] = _outcome(appended(journal, numbered(40_502)))
    journal.close()
    again = SqliteJournal.open(os.path.join(folder, "deck.db"))
    kept = numbers(again.load())
    again.close()
    print(
        json.dumps(
            {"results": results, "told": told, "kept": kept, "damage": again.damage, "start": _start(folder, hog)}
        )
    )


def _start(folder: str, hog: int) -> list[str]:
    """What is said to a start on the full disk, and to the next one."""
    path = os.path.join(folder, "deck.db")
    os.unlink(os.path.join(folder, "reserve"))
    _fill(hog)
    try:
        SqliteJournal.open(path)
    except EngineUnavailableError as error:
        refused = str(error)
    else:
        refused = ""
    os.ftruncate(hog, 0)
    again = SqliteJournal.open(path)
    again.close()
    return [refused, again.damage]


def _fill(fd: int) -> None:
    for size in (65536, 4096):
        try:
            while os.write(fd, b"x" * size):
                pass
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def _outcome(future: Future[None]) -> str:
    error = future.exception(LONG_S)
    if error is None:
        return "written"
    return errno.errorcode[error.errno] if isinstance(error, OSError) and error.errno else type(error).__name__


def break_the_disk(folder: str, calls: str, code: str) -> None:
    """From the second append on the kernel answers *calls* with an error. Prints what came of three appends."""
    journal = SqliteJournal.open(os.path.join(folder, "deck.db"))
    outcomes = [_outcome(appended(journal, numbered(0)))]
    _refuse(calls.split("+"), getattr(errno, code))
    outcomes += [_outcome(appended(journal, numbered(number))) for number in (1, 2)]
    print(json.dumps(outcomes), flush=True)
    os._exit(0)


_CALLS = {
    "x86_64": {"fsync": 74, "fdatasync": 75, "pwrite64": 18, "seccomp": 317},
    "aarch64": {"fsync": 82, "fdatasync": 83, "pwrite64": 68, "seccomp": 277},
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _refuse(calls: list[str], code: int) -> None:
    """Let the kernel answer these system calls of all threads with *code* (seccomp, for this process's lifetime)."""
    table = _CALLS[platform.machine()]
    load, jump_if_equal, answer, allow, fail = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
    program = [struct.pack("HBBI", load, 0, 0, 0)]
    program += [struct.pack("HBBI", jump_if_equal, len(calls) - at, 0, table[call]) for at, call in enumerate(calls)]
    program += [struct.pack("HBBI", answer, 0, 0, allow), struct.pack("HBBI", answer, 0, 0, fail | code)]
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privs, set_filter, all_threads = 38, 1, 1
    wanted = _Program(len(program), b"".join(program))
    if libc.prctl(no_new_privs, 1, 0, 0, 0) or libc.syscall(
        table["seccomp"], set_filter, all_threads, ctypes.byref(wanted)
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


@contextlib.contextmanager
def started(*words: str) -> Iterator[tuple[forked.Forked, IO[str]]]:
    """One of these in a process that is forked, and what it prints."""
    read, write = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    with open(read) as out:
        try:
            process = forked.fork(words, cwd="/", env=os.environ, fds=[null, write, 2], main=__name__)
        finally:
            os.close(null)
            os.close(write)
        try:
            yield process, out
        finally:
            process.kill()
            process.wait()


def main() -> None:
    {"write": write_for_ever, "fill": fill_a_small_disk, "break": break_the_disk}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
