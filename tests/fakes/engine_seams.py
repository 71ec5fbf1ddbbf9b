"""What a test may do to an engine from within: hold it between two steps, have it look more often, shift its wall
clock, refuse it processes, or kill it at a step of its own. All that production code knows nothing of.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import gpudeck.engine.engine as engine_module
from gpudeck.engine.adapters import host
from gpudeck.engine.attempts.start_plan import Planner, StartPlan
from gpudeck.engine.core.deck import Task
from gpudeck.engine.core.effects import Launch

_ENGINE = os.path.dirname(engine_module.__file__)
_CLONE_NEWNS, _CLONE_NEWUTS = 0x20000, 0x4000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PURE = tuple(f"{_ENGINE}/{part}/" for part in ("core", "taskfile", "protocol", "headless"))
"""They touch nothing outside: what is not done when one of their functions returns is done by its caller."""


def install(seams: Mapping[str, Any]) -> None:
    """Change this process as *seams* say: `hold` FOLDER, `wall` FILE, `forks` FILE,
    `boot` ID, `mortal` NUMBER, `count` FILE, `constants` {"MODULE:NAME": VALUE}, `sqlite` SECONDS,
    `host` {"name": NAME, PLACE: FILE}."""
    for name, value in seams.items():
        _SEAMS[name](value)


def hold_starts(folder: str) -> None:
    """A start whose fact is on disk gets no further while FOLDER/hold exists; FOLDER/held tells that one is there."""
    plan, hold, held = Planner.plan, Path(folder, "hold"), Path(folder, "held")
    never = threading.Event()

    def plan_later(self: Planner, task: Task, launch: Launch) -> StartPlan:
        while task.name == "subject" and hold.exists():
            held.touch()
            never.wait(0.005)
        return plan(self, task, launch)

    Planner.plan = plan_later


def shift_wall_clock(file: str) -> None:
    """The wall clock is off by the number of seconds in FILE."""
    true_time = time.time

    def shifted() -> float:
        try:
            with open(file) as offset:
                return true_time() + float(offset.read())
        except (OSError, ValueError):
            return true_time()

    time.time = shifted


def refuse_forks(file: str) -> None:
    """No process and no thread can be made while FILE exists, as where the kernel's limit is reached; it grows then."""
    spawn, start = os.posix_spawn, threading.Thread.start

    def refused() -> bool:
        if not os.path.exists(file):
            return False
        with open(file, "a") as met:
            met.write("refused\n")
        return True

    def spawn_or_refuse(*args: Any, **more: Any) -> int:
        if refused():
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return spawn(*args, **more)

    def start_or_refuse(thread: threading.Thread) -> None:
        if refused():
            raise RuntimeError("can't start new thread")
        start(thread)

    os.posix_spawn = spawn_or_refuse
    threading.Thread.start = start_or_refuse


def set_constants(values: Mapping[str, Any]) -> None:
    """Constants of modules are others: periods, waits, limits. `CLASS.METHOD.NAME`: the default of an argument."""
    for place, value in values.items():
        module, _, path = place.partition(":")
        *path, name = path.split(".")
        found: Any = reduce(getattr, path, import_module(module))
        if path and name in found.__kwdefaults__:
            found.__kwdefaults__[name] = value
        else:
            assert hasattr(found, name), f"there is no {place}"
            setattr(found, name, value)


def hurry_sqlite(seconds: float) -> None:
    """No connection waits longer than this for another program's lock."""
    connect = sqlite3.connect

    def connect_hurried(*args: Any, timeout: float = 5.0, **more: Any) -> sqlite3.Connection:
        return connect(*args, timeout=min(timeout, seconds), **more)

    sqlite3.connect = connect_hurried


def be_host(host: Mapping[str, str]) -> None:
    """This is another host, with this `name`, on which FILEs are in PLACEs of other ones."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(failed: int) -> None:
        if failed:
            raise OSError(ctypes.get_errno(), "namespaces of a host of its own cannot be made")

    check(libc.unshare(_CLONE_NEWNS | _CLONE_NEWUTS))
    check(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    socket.sethostname(host["name"])
    for place, file in host.items():
        if place != "name" and os.path.exists(place):
            check(libc.mount(file.encode(), place.encode(), None, _MS_BIND, None))


def boot(boot_id: str) -> None:
    """The kernel says that this is another boot."""
    host.boot_id = lambda *_: boot_id


def die_at(number: int) -> None:
    """kill -9 at the NUMBERth call or return of or in a function of the engine's that touches the world, in whatever
    thread: between any two system calls that it makes, and before and after each."""
    left = number

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _at_each_step(count_down)


def count_steps(file: str) -> None:
    """FILE tells, once the engine has ended, how many such moments it had."""
    count = 0

    def count_up() -> None:
        nonlocal count
        count += 1

    _at_each_step(count_up)

    def tell() -> None:
        Path(file).write_text(str(count))

    threading._register_atexit(tell)  # type: ignore[attr-defined]


def _at_each_step(step: Callable[[], None]) -> None:
    counts: dict[str, bool] = {}

    def look(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if name not in counts:
            counts[name] = name.startswith(_ENGINE) and not name.startswith(_PURE)
        if counts[name]:
            step()

    threading.setprofile(look)
    sys.setprofile(look)


_SEAMS: Mapping[str, Callable[[Any], None]] = {
    "hold": hold_starts,
    "wall": shift_wall_clock,
    "forks": refuse_forks,
    "boot": boot,
    "mortal": die_at,
    "count": count_steps,
    "constants": set_constants,
    "sqlite": hurry_sqlite,
    "host": be_host,
}
