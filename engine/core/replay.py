"""From the facts of earlier engines to a deck as they left it: by the same `apply` that an engine uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .apply import apply
from .deck import Deck, Task
from .events import AttemptStarting, Fact
from .phases import WAITING, Queued
from .readiness import spread


def replay(deck: Deck, facts: Iterable[Fact]) -> dict[str, AttemptStarting]:
    """Fold a journal into a fresh deck. Returns the starts of the attempts that have not ended, by token."""
    starts: dict[str, AttemptStarting] = {}
    deck.replaying = True
    for fact in facts:
        apply(deck, fact)
        if isinstance(fact, AttemptStarting) and fact.task in deck.by_name:
            starts[fact.token] = fact
    deck.replaying = False
    deck.count_surplus()
    deck.no_starts_until = -1e9
    deck.unopened = True
    deck.marks.recount(deck.tasks)
    lasting = {token: fact for token, fact in starts.items() if token in deck.active}
    for fact in lasting.values():
        _keep_terms(deck.by_name[fact.task], fact)
    return lasting


def derive(deck: Deck) -> None:
    """Let what follows from the facts follow: queued and blocked. Without a run under way nothing is queued."""
    over, deck.run.ended = deck.run.ended, False
    spread(deck)
    deck.run.ended = over
    for task in deck.tasks if over else ():
        if isinstance(task.phase, Queued):
            deck.move(task, WAITING)


def _keep_terms(task: Task, fact: AttemptStarting) -> None:
    """An attempt is judged by what the file said when it began."""
    attempt = task.attempt()
    if attempt is None or attempt.spec is not None or attempt.terms is None:
        return
    terms, spec = attempt.terms, task.spec
    other_work = attempt.fingerprint != spec.fingerprint
    if other_work or (terms.policy, fact.outputs) != (spec.policy, spec.outputs):
        ladder = (spec.work,) * terms.rungs if other_work else spec.ladder
        attempt.spec = replace(
            spec, fingerprint=attempt.fingerprint, policy=terms.policy, outputs=fact.outputs, ladder=ladder
        )
