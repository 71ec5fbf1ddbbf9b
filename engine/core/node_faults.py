"""Whose fault a job's end is: a node's of the cluster, which the next attempts then avoid, or the command's. Pure."""

from __future__ import annotations

from .deck import Deck, Task
from .events import Outcome
from .phases import Attempt

SOON_S = 60.0
"""A command that is not found, or not executable, has ended by then; later the code is the command's own."""
FINE_S = 5.0
"""What runs for longer was found."""
_NOT_FOUND = (126, 127)


def start_failed(outcome: Outcome, duration_s: float) -> bool:
    """Whether nothing of the command ran: its job began nothing, or its program was not there."""
    not_found = outcome.reason == "exit" and outcome.exit_code in _NOT_FOUND and duration_s < SOON_S
    return not_found or outcome.reason == "spawn error"


def suspects(attempt: Attempt, outcome: Outcome, duration_s: float) -> tuple[str, ...]:
    """Nodes that may be why. Of a job that began nothing it is the first, on which Slurm starts it; which of several a
    program was missing on nobody knows."""
    if outcome.reason == "node_fail":
        return attempt.nodes or attempt.ended_on
    if not attempt.where or not start_failed(outcome, duration_s):
        return ()
    if attempt.ended_on and not attempt.nodes:
        return attempt.ended_on[:1]
    return attempt.nodes if len(attempt.nodes) == 1 else ()


def is_the_nodes(deck: Deck, task: Task, nodes: tuple[str, ...], at: float) -> bool:
    """Whether a start that failed on one of these is to be tried elsewhere, at the cluster's expense. Not once it has
    failed there before, since Slurm has no other node then; nor once it fails on other nodes as well, and on none of
    them tasks of its entry do start."""
    if not nodes or task.avoid_nodes.issuperset(nodes):
        return False
    elsewhere = task.entry.failed_starts.difference(nodes)
    return not elsewhere or bool(task.entry.good_starts.difference(nodes)) or _runs_elsewhere(deck, task, nodes, at)


def _runs_elsewhere(deck: Deck, task: Task, nodes: tuple[str, ...], at: float) -> bool:
    attempts = (attempt for other, attempt in deck.lasting if other is not task and other.entry is task.entry)
    return any(
        attempt.nodes and at - attempt.at >= FINE_S and not set(nodes) & set(attempt.nodes) for attempt in attempts
    )
