"""How attempts end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal[
    "ok", "exit", "signal", "oom", "timeout", "missing output", "stale output", "watch", "spawn error", "lost",
    "interrupted", "cancelled", "port taken", "preempted", "node_fail",
]  # fmt: skip
"""How an attempt ended. `exit` is a code that is not a success; `lost`: proven gone, its code unknown. `port
taken`: a port that it was told to use was another process's. Of a cluster, `preempted`: a more urgent job took its
place; `node_fail`: a node of it failed."""

Cause = Literal["", "oom", "timeout", "preempted", "node_fail", "cancelled", "launch"]
"""Why an attempt ended, as a cluster says. `timeout`: its own limit; `cancelled`: by somebody who asked the cluster;
`launch`: it could not start the job; empty: nothing that the exit code does not tell."""

Next = Literal["succeeded", "failed", "cancelled", "backoff", "queued"]
"""Where a task goes when its attempt has ended. `queued`: again at once, nothing charged."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, as far as it is known."""

    reason: Reason
    exit_code: int | None = None
    """As a shell would say it; 129 to 192 may be a signal or an exit. None: not known."""
    signal: int | None = None
    """Only where a signal is certain (we reaped the process itself)."""
    detail: str = ""
    """One line for the user: the exception's last line, the missing path, …"""
    device_fault: bool = False
    """The log names a fault of the device itself (CUDA initialisation, ECC, Xid, lost)."""

    @property
    def ok(self) -> bool:
        return self.reason == "ok"
