"""What selectors see of a task of a deck."""

from __future__ import annotations

from collections.abc import Mapping

from .deck import Deck, Task
from .flags import flags, is_pending
from .phases import NAMES, Failed
from .selector import Facts


def subject(deck: Deck, task: Task, index_of: Mapping[str, int]) -> Facts:
    """*index_of*: GPUs by UUID."""
    attempt = task.attempt()
    last = task.ended[-1] if task.ended else None
    uuids = attempt.gpus if attempt is not None else last.gpus if last is not None else ()
    outcome = last.outcome if last is not None else task.phase.outcome if isinstance(task.phase, Failed) else None
    return Facts(
        name=task.name,
        tags=task.spec.tags,
        params=task.spec.params,
        states=[NAMES[type(task.phase)], *(["pending"] if is_pending(task) else ()), *flags(deck, task)],
        reason=outcome.reason if outcome is not None else "",
        gpus=[text for uuid in uuids for text in (str(index_of.get(uuid, uuid)), uuid)],
    )
