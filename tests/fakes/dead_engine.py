"""An attempt whose engine was killed, for launchers that come later. Real processes, forked by the fork server.

fork_server … main=tests.fakes.dead_engine: reaps|sleeps FOLDER LEFTOVERS TOKEN COMMAND…
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.processes.launcher import become_subreaper
from gpudeck.engine.core.spec import Leftovers
from gpudeck.engine.ports import Known

from . import forked
from .local_rig import Rig, kill, lives

OLD = f"old-{os.getpid()}"
"""The token of the attempt."""

_INITS: list[forked.Forked] = []


@contextmanager
def inits() -> Generator[None]:
    """Ends the stand-ins for init, and what they still have."""
    _INITS.clear()
    yield
    for process in _INITS:
        left = proc.descend([process.pid])
        process.kill()
        for pid in left:
            kill(pid)
        process.wait()


def left_by_a_killed_engine(rig: Rig, *argv: str, leftovers: Leftovers = "stop", reaped: bool = True) -> Known:
    """An attempt whose engine was killed with -9 once it had made the file `up`. *reaped*: somebody reaps what dies of
    it, as an init does."""
    words = ["reaps" if reaped else "sleeps", str(rig.folder), leftovers, OLD, *argv]
    told, tell = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        init = forked.fork(words, cwd=rig.folder, env=os.environ, fds=[null, tell, 2], main=__name__)
    finally:
        os.close(null)
        os.close(tell)
    _INITS.append(init)
    with open(told) as line:
        engine, pid, ticks = map(int, line.readline().split())
    while not (rig.folder / "up").exists():
        assert init.poll() is None
    kill(engine)
    while lives(engine):
        pass
    rig.pids[OLD] = pid
    return Known(OLD, pid, ticks, leftovers)


def main() -> None:
    """Adopt what a dead engine leaves, in place of the box's own init, and reap it if told to."""
    become_subreaper()
    if os.fork() == 0:
        asyncio.run(_engine(*sys.argv[2:]))
    try:
        while sys.argv[1] == "reaps":
            os.wait()
    except ChildProcessError:
        pass
    while True:
        signal.pause()


async def _engine(folder: str, leftovers: Any, token: str, *argv: str) -> None:
    rig = Rig(Path(folder))
    rig.start(*argv, token=token, leftovers=leftovers)
    print(os.getpid(), rig.pids[token], rig.ticks[token], flush=True)
    await asyncio.Event().wait()
