"""On which terms attempts run: those of the task file, and what was asked for by hand."""

from __future__ import annotations

from dataclasses import dataclass

from .spec import Policy


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """How a task that was asked for again by hand runs, until it has settled."""

    fresh: bool = False
    """It begins anew: resume_command does not take the place of the command."""
    env: tuple[tuple[str, str | None], ...] = ()
    """Over the task's own environment; None unsets."""
    not_on: tuple[str, ...] = ()
    """GPUs (UUIDs) that it does not get, as long as enough others exist."""
    changed: bool = False
    """The file has changed it, and it runs as it now says: not what has been done so already, under another name."""


PLAIN = RetryOptions()
CHANGED = RetryOptions(changed=True)


@dataclass(frozen=True, slots=True)
class Terms:
    """By what an attempt is stopped, judged and repeated."""

    policy: Policy
    rungs: int
    """Length of its on_oom ladder."""
