"""From queued to starting: what is done already is cached, the rest gets a place in the queue and, in turn, slots."""

from __future__ import annotations

from hashlib import blake2b
from itertools import islice

from . import events as e
from . import inputs as i
from .deck import Deck, Task
from .effects import CheckDone, Gather, Launch
from .fit import could_have, hours_shut, starts_barred
from .gone import doing
from .phases import Queued, Starting
from .readiness import arrivals, cached_by_outputs, cached_now, has_succeeded, reconsider, unproven
from .reserve import Reservation
from .schedule import Choice, Placement, pick
from .turn import Turn

AT_ONCE = 1_000
"""So many tasks at most get their place in one turn: nothing else waits for all of a large deck."""
LOOK_PATIENCE_S = 2.0
"""Outputs on a file server that does not answer keep other tasks from starting no longer than this."""
LONGEST_TRUST_S = 600.0
"""How far ahead a time of day is trusted: the box's clock may be set."""


def arrive(turn: Turn) -> None:
    deck = turn.deck
    looked: list[str] = []
    for task in islice(arrivals(deck), AT_ONCE):
        if doing(deck, task) is not None:
            deck.held_for_work[task.index] = None
            continue
        if doubtful := unproven(deck, task):
            looked += [each.name for each in doubtful if each.index not in deck.proving]
            deck.proving.update(each.index for each in doubtful)
            deck.held_for_proof.append(task.index)
            continue
        verdict = cached_now(deck, task, turn.at)
        if verdict is True:
            deck.checking.add(task.index)
            looked.append(task.name)
        else:
            decided(turn, task, verdict)
    if looked:
        deck.looked_until = turn.at + LOOK_PATIENCE_S
        deck.wake(deck.looked_until, "plan")
        turn.do(CheckDone(tuple(looked)))


def decided(turn: Turn, task: Task, fact: e.TaskCached | None) -> None:
    if fact is not None:
        turn.record(fact)
        return
    task.decided = True
    if not task.held:
        turn.deck.enqueue(task)


def done_checked(turn: Turn, item: i.DoneChecked) -> None:
    task = turn.deck.by_name.get(item.task)
    if task is not None and task.index in turn.deck.proving:
        _proven(turn, task, item)
    if task is None or task.index not in turn.deck.checking:
        return
    turn.deck.checking.discard(task.index)
    turn.deck.plan_due = True
    if isinstance(task.phase, Queued):
        is_result = item.are_result and not (task.forced or task.decided)
        decided(turn, task, cached_by_outputs(turn.deck, task, turn.at) if is_result else None)


def _proven(turn: Turn, task: Task, item: i.DoneChecked) -> None:
    """What a task that others need was found to be. Once all are known, those others arrive again."""
    deck = turn.deck
    deck.proving.discard(task.index)
    if item.spoilt and has_succeeded(task):
        turn.record(e.ResultSpoilt(task.name, turn.at))
        reconsider(deck, task)
    deck.prove(task)
    if not deck.proving:
        deck.arrivals.extend(deck.held_for_proof)
        deck.held_for_proof.clear()


def fill(turn: Turn) -> None:
    deck = turn.deck
    while (choice := _picked(deck, turn.at)).placement is not None:
        if len(choice.placement.gpus) == 1 and choice.placement.gpus[0] in deck.gathering:
            gather(turn, choice.reservation)  # what is kept no more is left to others' next tasks before
        start(turn, choice.placement)
    gather(turn, choice.reservation)
    _await_hours(deck, turn.at)


def _await_hours(deck: Deck, at: float) -> None:
    """Look again when they come, the deck's or a task's; sooner, where they are far away, since the clock may be set
    meanwhile."""
    heads = (deck.tasks[place.task].spec.resources for place, _ in deck.queue.heads() if deck.hourly)
    shut = [found for asked in (deck.settings, *heads) if (found := hours_shut(deck, asked, at)) is not None]
    if not shut:
        return
    look_at = min(at + LONGEST_TRUST_S, *(opens_at for opens_at, _ in shut))
    if not at < deck.opens_at <= look_at + 1:
        deck.opens_at = look_at
        deck.wake(look_at, "plan")


def _picked(deck: Deck, at: float) -> Choice:
    choice = pick(deck, at)
    for held in filter(None, (choice.reservation, *choice.holds)):
        deck.heads[held.task] = held.since
    return choice


def gather(turn: Turn, reservation: Reservation | None) -> None:
    """Let a task that needs several GPUs keep those that come free, and one that is next go before other decks; or let
    them go."""
    deck = turn.deck
    wanted: tuple[str, ...] = ()
    if reservation is not None and len(reservation.gpus) > 1:
        wanted = tuple(sorted(reservation.gpus))
    first = tuple(sorted(_wanted_next(deck, turn.at)))
    if (wanted, first) != (deck.gathering, deck.wanted_next):
        deck.gathering, deck.wanted_next = wanted, first
        turn.do(Gather(wanted, deck.tasks[reservation.task].name if wanted and reservation is not None else "", first))


def _wanted_next(deck: Deck, at: float) -> set[str]:
    """GPUs that queued tasks which are next could have, did other decks leave them. One that starts goes on asking for
    its own until it has them: others may ask, too."""
    wanted: set[str] = set()
    if not deck.next_tasks or deck.cluster or deck.on_cpu or starts_barred(deck, at) is not None:
        return wanted
    for task in map(deck.tasks.__getitem__, deck.next_tasks):
        if isinstance(task.phase, Starting):
            wanted.update(set(task.phase.attempt.gpus).intersection(deck.wanted_next))
        else:
            wanted.update(could_have(deck, task, at))
    return wanted


def start(turn: Turn, placement: Placement) -> None:
    deck = turn.deck
    task = deck.tasks[placement.task]
    number = task.attempts + 1
    token = blake2b(f"{deck.run.seed}\0{task.name}\0{number}\0{task.revoked}".encode(), digest_size=12).hexdigest()
    rung = min(task.oom_ends, len(task.spec.ladder))
    timeout_rung = min(task.timeout_ends, len(task.spec.on_timeout))
    card_mib = (deck.smallest_mib(placement.gpus) or 0) if task.spec.cards else 0
    fact = e.AttemptStarting(
        task=task.name,
        attempt=number,
        token=token,
        fingerprint=task.spec.fingerprint,
        gpus=placement.gpus,
        cpu_slots=placement.cpu_slots,
        reserved_mib=placement.reserved_mib,
        at=turn.at,
        wall=turn.wall,
        rung=rung,
        alone=placement.alone,
        outputs=task.spec.outputs,
        terms=_terms(turn, task),
        card_mib=card_mib,
        where="slurm" if deck.cluster else "",
        timeout_rung=timeout_rung,
    )
    turn.record(fact)
    may_resume = task.spec.resume is not None and task.goes_on
    turn.do(
        Launch(
            task.name, number, token, placement.gpus, rung, may_resume, task.again.env, card_mib, task.revoked > 0,
            timeout_rung,
        )
    )  # fmt: skip


def _terms(turn: Turn, task: Task) -> int:
    """The number of a task's terms, under which the journal has them from now on."""
    deck = turn.deck
    terms = e.Terms(task.begun_spec.policy, len(task.spec.ladder), len(task.spec.on_timeout))
    number = deck.terms_numbers.get(terms)
    if number is None:
        number = len(deck.terms) + 1
        turn.record(e.TermsFixed(number, terms))
    return number
