"""Which attempts were to leave which outputs, and whether what is there is a result: the one rule, asked by starts,
plans and selections alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from .events import AttemptEnded, AttemptStarting, Fact, StartRevoked, TaskAccepted
from .spec import TaskSpec

_EXACT_S = 0.05
"""Ends are known to a hundredth of a second."""


@dataclass(slots=True, eq=False)
class OutputAttempt:
    """An attempt that was to leave certain outputs."""

    task: str
    fingerprint: str
    outputs: tuple[str, ...] = ()
    began_wall: float = inf
    """inf: not known."""
    ok: bool | None = None
    """None: it runs, or nobody knows its end."""
    ended_wall: float = inf
    deck: str = ""
    """The deck that made it, where it is another one."""


class OutputHistory:
    """Attempts by the outputs that they were to leave. One pass over a journal, fact by fact."""

    def __init__(self) -> None:
        self._by_output: dict[str, list[OutputAttempt]] = defaultdict(list)
        self._newest: dict[str, OutputAttempt] = {}

    def add(self, fact: Fact) -> None:
        match fact:
            case AttemptStarting():
                attempt = OutputAttempt(fact.task, fact.fingerprint, fact.outputs, fact.wall)
                self._newest[fact.task] = attempt
                for output in fact.outputs:
                    self._by_output[output].append(attempt)
            case AttemptEnded() if fact.task in self._newest:
                if fact.never_ran:
                    self._drop(fact.task)
                    return
                attempt = self._newest[fact.task]
                attempt.fingerprint = fact.fingerprint or attempt.fingerprint
                attempt.ok, attempt.ended_wall = fact.outcome.ok, fact.wall
            case StartRevoked() if fact.task in self._newest:
                self._drop(fact.task)
            case TaskAccepted() if fact.task in self._newest:
                self._newest[fact.task].fingerprint = fact.fingerprint
            case _:
                pass

    def _drop(self, task: str) -> None:
        """Its newest attempt came to nothing."""
        attempt = self._newest.pop(task)
        for output in attempt.outputs:
            self._by_output[output].remove(attempt)

    def of(self, outputs: Iterable[str]) -> list[OutputAttempt]:
        """Those that had one of these, each once, as they are known now."""
        found = {id(each): each for output in outputs for each in self._by_output.get(output, ())}
        return [replace(each) for each in found.values()]

    def lasting(self) -> list[OutputAttempt]:
        """Those that run, or whose end nobody knows."""
        return [each for each in self._newest.values() if each.ok is None]


def doubt(
    spec: TaskSpec,
    done_wall: float | None,
    attempts: Sequence[OutputAttempt],
    changed_wall: float,
    filed: Container[str] = (),
) -> str:
    """Why the outputs of a task, though they are there, are no result of it; "" where they are.

    The newest attempt that can have written what is there decides: it has to have succeeded, as this very work.
    *attempts*: of whatever deck, those that were to leave one of its outputs. *done_wall*: when this deck has succeeded
    with it, None: never. *changed_wall*: when something of these outputs changed last. *filed*: this deck's tasks; that
    two of them name the same output is the user's doing, and makes neither run again.
    """
    counted, since = attempts, ""
    if done_wall is not None:
        own = OutputAttempt(spec.name, spec.fingerprint, spec.outputs, ok=True, ended_wall=done_wall)
        counted, since = [own, *(each for each in attempts if _may_spoil(spec, each, filed))], " since"
    newest_first = sorted(counted, key=lambda each: each.ended_wall, reverse=True)
    for attempt, before in pairwise([*newest_first, None]):
        if attempt is not None and (before is None or changed_wall >= _writes_from(attempt, before)):
            return _against(spec, attempt, since)
    return ""


def _writes_from(attempt: OutputAttempt, before: OutputAttempt) -> float:
    """Wall time from which what is written is this attempt's, and not that of the one *before*."""
    latest = before.ended_wall + _EXACT_S
    return min(attempt.began_wall, latest) if attempt.began_wall >= before.ended_wall else latest


def _may_spoil(spec: TaskSpec, attempt: OutputAttempt, filed: Container[str]) -> bool:
    """Whether it may undo a success. Of this deck only one that the task was for a while, under another name."""
    return bool(attempt.deck) or (attempt.task not in filed and attempt.outputs == spec.outputs)


def _against(spec: TaskSpec, attempt: OutputAttempt, since: str) -> str:
    who = attempt.deck or attempt.task
    if attempt.ok is None:
        return f"{who} runs it, or nobody knows its end"
    if not attempt.ok:
        return f"{who} has run it without success{since}"
    return f"{who} has run it as other work{since}" if attempt.fingerprint != spec.fingerprint else ""
