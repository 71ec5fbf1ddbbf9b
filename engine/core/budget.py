"""What the attempts of a deck have taken, and whether its budget lets more start."""

from __future__ import annotations

from .deck import Deck, Task
from .phases import Attempt

_EXACT_S = 0.01
"""Times are floats: what ran for an hour may have run for a hair less."""


def spent_budget(deck: Deck, at: float) -> str:
    """Why the budget lets nothing more start; "" while it does."""
    budget = deck.settings.budget
    if budget.gpu_hours is not None and used_gpu_s(deck, at) + _EXACT_S >= budget.gpu_hours * 3600:
        return f"the budget of {budget.gpu_hours:g} GPU hours is used up (gpu_hours)"
    if budget.until is not None and deck.wall_ahead and budget.until.next(0.0) <= at + deck.wall_ahead:
        return f"the budget was until {budget.until}"
    return ""


def used_gpu_s(deck: Deck, at: float) -> float:
    """What all attempts have taken until now: seconds by the GPUs that each has. One that a restart of the box ended
    counts until that is found out: nobody knows when it was."""
    running = [(task, attempt) for task, attempt in deck.lasting if attempt.began]
    return deck.gpu_s + sum(_lived_s(deck, attempt, at) * cards(deck, task, attempt) for task, attempt in running)


def _lived_s(deck: Deck, attempt: Attempt, at: float) -> float:
    return max(0.0, at + deck.wall_ahead - attempt.wall if attempt.rebooted else at - attempt.at)


def used_in_words(deck: Deck, at: float) -> str:
    """ "12.3 of 100 GPU hours"; "" where no budget counts them."""
    most = deck.settings.budget.gpu_hours
    return "" if most is None else f"{used_gpu_s(deck, at) / 3600:.3g} of {most:g} GPU hours"


def cards(deck: Deck, task: Task, attempt: Attempt) -> int:
    """GPUs of an attempt; on a cluster those that it asks for."""
    asked = task.begun_spec.resources
    if deck.cluster and isinstance(asked.gpus, int):
        return asked.gpus * task.begun_spec.extras.nodes
    return len(attempt.gpus)
