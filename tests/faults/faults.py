"""The faults, what decks they are done to, and what becomes of those."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fakes.small_disk import small_disk
from tests.faults import disk_faults, engine_faults
from tests.faults.books import Codes
from tests.faults.cases import UNTOUCHED, Case

DAY_S = 86_400

Apply = Callable[[Case], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done, what the deck is like, and what becomes of it."""

    apply: Apply
    setting: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of `Case`."""
    wanted: Mapping[str, Codes] = field(default_factory=dict[str, Codes])
    """By state, where it is not `UNTOUCHED`."""
    on_terminal: bool = False

    def outcome(self, state: str) -> Codes:
        return {**UNTOUCHED[state], **self.wanted.get(state, {})}


def nothing(case: Case) -> None:
    """What its tasks do is the fault."""
    case.release()
    case.complete()


LINE = "head -c 10000000 /dev/zero | tr '\\\\0' x"
FLOOD = "yes 'epoch 3/100 loss 0.12' | head -c 5000000 | tr '\\\\n' '\\\\r'"

FAULTS: Mapping[str, Fault] = {
    "engine killed": Fault(engine_faults.engine_killed),
    "engine killed, tasks adopted": Fault(engine_faults.engine_killed_and_what_ran_is_adopted),
    "engine terminated": Fault(
        engine_faults.engine_terminated,
        wanted={"waiting": {"keeper": [143, 0]}, "starting": {"subject": [None, 0]}, "running": {"subject": [143, 0]}},
    ),
    "pids reused": Fault(
        engine_faults.pids_reused,
        wanted={"waiting": {"keeper": [None, 0]}, "running": {"subject": [None, 0]}, "stopping": {"subject": [None]}},
    ),
    "box restarted": Fault(
        engine_faults.box_restarted,
        wanted={
            "waiting": {"keeper": [None, 0]},
            "starting": {"subject": [None, 0]},
            "running": {"subject": [None, 0]},
            "stopping": {"subject": [None]},
        },
    ),
    "disk of the journal full": Fault(disk_faults.journal_disk_full, {"state_dir": "small/state"}),
    "disk of the logs full": Fault(disk_faults.log_disk_full, {"log_dir": "small/logs"}),
    "journal truncated": Fault(disk_faults.journal_truncated),
    "journal garbled": Fault(disk_faults.journal_garbled),
    "journal of a newer version": Fault(disk_faults.journal_of_a_newer_version),
    "clock a day forward": Fault(engine_faults.clock_jumps(DAY_S, restart=False)),
    "clock a day back": Fault(engine_faults.clock_jumps(-DAY_S, restart=False)),
    "clock a day forward before a restart": Fault(engine_faults.clock_jumps(DAY_S, restart=True)),
    "clock a day back before a restart": Fault(engine_faults.clock_jumps(-DAY_S, restart=True)),
    "a child ignores TERM after its leader": Fault(
        nothing, {"mischief": "leave_deaf_child", "heard": "say asked; finish 7", "grace": "500ms"}
    ),
    "a line of 10 MB": Fault(nothing, {"mischief": LINE}),
    "a flood of carriage returns": Fault(nothing, {"mischief": FLOOD}),
    "terminal gone": Fault(engine_faults.terminal_gone, on_terminal=True),
    "lock holder frozen": Fault(engine_faults.lock_holder_frozen),
    "socket deleted": Fault(engine_faults.socket_deleted),
    "processes refused": Fault(engine_faults.processes_refused),
}


@contextlib.contextmanager
def disk_for(fault: Fault, folder: Path) -> Generator[None]:
    """The small disk that a fault's deck lies on, if it does."""
    if any(value.startswith("small/") for value in fault.setting.values()):
        with small_disk(folder / "small"):
            yield
    else:
        yield
