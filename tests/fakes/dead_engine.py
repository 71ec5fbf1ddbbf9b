"""An attempt whose engine was killed, for launchers that come later. Real processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.core.spec import Leftovers
from gpudeck.engine.ports import Known

from .local_rig import PYTHON, Rig, kill, lives

OLD = f"old-{os.getpid()}"
"""The token of the attempt."""

_INIT = """
import os, signal, subprocess, sys
from gpudeck.engine.adapters.processes.proc import become_subreaper

become_subreaper()
reaps = sys.argv[1] == "reaps"
subprocess.Popen([sys.executable, "-c", *sys.argv[2:]])
try:
    while reaps:
        os.wait()
except ChildProcessError:
    pass
while True:
    signal.pause()
"""
"""Adopts what a dead engine leaves, in place of the box's own init, and reaps it if told to."""

_ENGINE = """
import asyncio, os, sys
from pathlib import Path
from gpudeck.tests.fakes.local_rig import Rig

async def main():
    rig = Rig(Path(sys.argv[1]))
    token = rig.start(*sys.argv[4:], token=sys.argv[3], leftovers=sys.argv[2])
    print(os.getpid(), rig.pids[token], rig.ticks[token], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

_INITS: list[subprocess.Popen[str]] = []


@contextmanager
def inits() -> Generator[None]:
    """Ends the stand-ins for init, and with them nothing else."""
    _INITS.clear()
    yield
    before = set(proc.own_children())
    for process in _INITS:
        process.kill()
        process.wait()
    for child in set(proc.own_children()) - before:  # what they had not reaped, where this process reaps orphans
        os.waitpid(child, 0)


def left_by_a_killed_engine(rig: Rig, *argv: str, leftovers: Leftovers = "stop", reaped: bool = True) -> Known:
    """An attempt whose engine was killed with -9 once it had made the file `up`. *reaped*: somebody reaps what dies of
    it, as an init does."""
    init = subprocess.Popen(
        (PYTHON, "-c", _INIT, "reaps" if reaped else "sleeps", _ENGINE, str(rig.folder), leftovers, OLD, *argv),
        stdout=subprocess.PIPE,
        text=True,
    )
    _INITS.append(init)
    assert init.stdout
    engine, pid, ticks = map(int, init.stdout.readline().split())
    init.stdout.close()
    while not (rig.folder / "up").exists():
        assert init.poll() is None
    kill(engine)
    while lives(engine):
        pass
    rig.pids[OLD] = pid
    return Known(OLD, pid, ticks, leftovers)
