"""Which GPUs a task on several gets: of one model, near each other, in the deck's order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from .devices import Gpu

COMBINE_UP_TO = 12
"""GPUs among which the best set is looked for in full."""


def together(ranked: Sequence[Gpu], count: int, avoid: frozenset[str]) -> list[Gpu]:
    """*count* of these, which come in the order of preference; those in *avoid* only where there is no other way."""
    mixed = len({gpu.model for gpu in ranked}) > 1
    if len(ranked) <= count or not (mixed or any(gpu.links for gpu in ranked)):
        return list(ranked[:count])
    if len(ranked) > COMBINE_UP_TO:
        return _of_one_model(ranked, count)
    places = {gpu.uuid: place for place, gpu in enumerate(ranked)}

    def cost(group: tuple[Gpu, ...]) -> tuple[int, int, int, int]:
        failed_on = sum(gpu.uuid in avoid for gpu in group)
        models = len({gpu.model for gpu in group}) if mixed else 1
        nearness = sum(one.links.get(other.uuid, 0) for one, other in combinations(group, 2))
        return failed_on, models, -nearness, sum(places[gpu.uuid] for gpu in group)

    return list(min(combinations(ranked, count), key=cost))


def by_node(gpus: Sequence[Gpu]) -> list[list[Gpu]]:
    """Those of each node together; nodes and what is on them in the order in which they come."""
    nodes: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu)
    return list(nodes.values())


def of_one_node(gpus: Sequence[Gpu], count: int) -> list[Gpu]:
    """Those of the first node that has enough; empty where none has."""
    for found in by_node(gpus):
        if len(found) >= count:
            return found
    return []


def mixed_in_words(models: Sequence[str]) -> str:
    """A warning for a task on GPUs of several models; empty where they are alike."""
    return f"mixed models: {' and '.join(models)}" if len(models) > 1 else ""


def _of_one_model(ranked: Sequence[Gpu], count: int) -> list[Gpu]:
    """The first that are alike, where there are enough of any kind."""
    for first in ranked:
        alike = [gpu for gpu in ranked if gpu.model == first.model]
        if len(alike) >= count:
            return alike[:count]
    return list(ranked[:count])
