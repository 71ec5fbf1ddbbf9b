"""What an examination asks of each card and sampling does not: modes that keep tasks from a card."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from .calls import Handle, Nvml, NvmlError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Card:
    """A physical card. None: not told."""

    index: int
    persistence: bool | None = None
    """Whether the driver stays loaded while nobody uses it."""
    compute_mode: int | None = None
    """NVML's: 0 shared, 2 nobody may compute, 3 one process at a time."""
    mig: bool = False
    instances: int = 0
    """MIG instances that exist."""


def look_at_cards(*, timeout_s: float = 10.0) -> tuple[Card, ...]:
    """All cards that answer; () where the driver does not, or not in time."""
    answer: Future[tuple[Card, ...]] = Future()
    threading.Thread(target=_answer, args=(answer,), name="nvml-checkup", daemon=True).start()
    try:
        return answer.result(timeout_s)
    except (NvmlError, TimeoutError):
        return ()


def _answer(answer: Future[tuple[Card, ...]]) -> None:
    try:
        nvml = Nvml()
        nvml.connect()
        answer.set_result(tuple(card for index in range(nvml.count()) if (card := _card(nvml, index))))
    except Exception as error:  # the thread ends here; who waits for the answer raises it
        answer.set_exception(error)


def _card(nvml: Nvml, index: int) -> Card | None:
    try:
        handle = nvml.by_index(index)
    except NvmlError:
        return None
    mig = bool(_or_none(nvml.mig_on, handle))
    return Card(
        index,
        persistence=_or_none(nvml.persistence_on, handle),
        compute_mode=_or_none(nvml.compute_mode, handle),
        mig=mig,
        instances=_instances(nvml, handle) if mig else 0,
    )


def _instances(nvml: Nvml, handle: Handle) -> int:
    places = range(_or_none(nvml.mig_slots, handle) or 0)
    return sum(_or_none(lambda card, at=place: nvml.mig_instance(card, at), handle) is not None for place in places)


def _or_none(call: Callable[[Handle], T], handle: Handle) -> T | None:
    try:
        return call(handle)
    except NvmlError:
        return None
