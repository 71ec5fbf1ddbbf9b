"""Faults of the engine, its pids, clocks and processes; each sees the deck through to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

from gpudeck.engine.adapters.state.lock import read_holder
from gpudeck.engine.core.events import BoxRestarted
from tests.e2e.decks import lives, until
from tests.faults.cases import Case
from tests.faults.scarcity import no_more_processes

LONGEST_UP_S = 600.0


# -- the engine ends --------------------------------------------------------------------------------------------------


def engine_killed(case: Case) -> None:
    """kill -9; what it held goes on and ends without it."""
    case.engine.kill()
    case.release()
    case.complete()


def engine_killed_and_what_ran_is_adopted(case: Case) -> None:
    case.engine.kill()
    case.start()
    case.until(lambda: [event for event in case.engine.events() if event["event"] == "deck_opened"])
    case.release()
    case.complete()


def engine_terminated(case: Case) -> None:
    """TERM: tasks are stopped, interrupted, and go on with the next start."""
    case.engine.signal(signal.SIGTERM)
    case.until(lambda: "SIGTERM" in case.engine.notes())
    if case.state == "stopping":
        case.release()
    assert case.engine.finish() == 128 + signal.SIGTERM
    case.release()
    case.start()
    assert case.engine.finish() == (1 if case.state == "stopping" else 0)


def terminal_gone(case: Case) -> None:
    terminal = case.engine.terminal
    assert terminal is not None
    terminal.close()
    case.release()
    assert case.engine.finish() == (1 if case.state == "stopping" else 0)


def lock_holder_frozen(case: Case) -> None:
    """SIGSTOP; a second engine does not take its place, whatever ends meanwhile."""
    frozen = case.engine
    frozen.signal(signal.SIGSTOP)
    case.release()
    code, said = case.refused()
    assert code == 3
    assert f"{frozen.pid} " in said
    assert "frozen" in said
    frozen.signal(signal.SIGCONT)
    case.complete()


def socket_deleted(case: Case) -> None:
    """Clients cannot come for a while; the engine makes another socket, and tasks do not care."""
    address = case.until(_address, case)
    os.unlink(address)
    if case.state == "running":
        case.until(lambda: (found := _address(case)) and os.path.exists(found))
    case.release()
    case.complete()


def _address(case: Case) -> str:
    holder = read_holder(str(case.folder / ".gpudeck/tasks"))
    return holder.address if holder is not None else ""


# -- pids and clocks --------------------------------------------------------------------------------------------------


def pids_reused(case: Case) -> None:
    """Engine and tasks die together, and strangers get the tasks' pids: they are neither adopted nor harmed."""
    with _all_replaced_by_strangers(case):
        case.complete()


def box_restarted(case: Case) -> None:
    """Engine and tasks are gone, the clock of the box begins anew, and strangers have the tasks' pids."""
    with _all_replaced_by_strangers(case):
        case.start(boot="another-boot", up_s=5.0)
        case.engine.finish()
    restarts = [fact for fact in case.books.facts() if isinstance(fact, BoxRestarted)]
    assert [fact.at < LONGEST_UP_S for fact in restarts] == [True]


@contextlib.contextmanager
def _all_replaced_by_strangers(case: Case) -> Generator[None]:
    case.engine.kill()
    wrappers = {os.getsid(pid) for pid in case.books.living()}
    for pid in case.books.living():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not case.books.living())
    case.release()
    with contextlib.ExitStack() as strangers:
        pids = [strangers.enter_context(stranger_with_pid(pid)) for pid in wrappers]
        yield
        assert all(lives(pid) for pid in pids)


@contextlib.contextmanager
def stranger_with_pid(wanted: int) -> Generator[int]:
    """A process, leader of its own session, that has got this pid."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(1000):
        last.write_text(str(wanted - 1))
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        if process.pid == wanted:
            break
        process.kill()
        process.wait()
    else:
        raise AssertionError(f"pid {wanted} is not to be had: it has been given to somebody else")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def clock_jumps(by_s: int, *, restart: bool) -> Callable[[Case], None]:
    def jump(case: Case) -> None:
        case.wall.write_text(str(by_s))
        if restart:
            case.engine.kill()
            case.start()
        case.release()
        case.complete()

    return jump


def processes_refused(case: Case) -> None:
    """Neither process nor thread can be made for a while."""
    with no_more_processes(case.engine.pid, case.forks) as refused:
        case.release()
        case.until(refused)
    case.complete()
