"""What selectors see of a task of a deck."""

from __future__ import annotations

from collections.abc import Mapping

from .deck import Deck, Task
from .flags import flags, is_pending
from .phases import NAMES, Failed
from .selector import Subject


def subject(deck: Deck, task: Task, index_of: Mapping[str, int]) -> Subject:
    """*index_of*: GPUs by UUID."""
    attempt = task.attempt()
    last = task.ended[-1] if task.ended else None
    uuids = attempt.gpus if attempt is not None else last.gpus if last is not None else ()
    outcome = last.outcome if last is not None else task.phase.outcome if isinstance(task.phase, Failed) else None
    return Subject(
        name=task.name,
        tags=task.spec.tags,
        params=task.spec.values,
        entry=task.spec.entry,
        group=task.spec.group,
        round=task.spec.round,
        states=[NAMES[type(task.phase)], *flags(deck, task), *_beside(task)],
        reason=outcome.reason if outcome is not None else "",
        gpus=[text for uuid in uuids for text in (str(index_of.get(uuid, uuid)), uuid)],
        nodes=attempt.nodes if attempt is not None else last.nodes if last is not None else (),
        job=attempt.job if attempt is not None else last.job if last is not None else "",
    )


def _beside(task: Task) -> list[str]:
    """What stands beside its phase and its flags."""
    left_out = not task.selected and not task.gone
    found = (("pending", is_pending(task)), ("gone", task.gone), ("left-out", left_out))
    return [word for word, stands in found if stands]
