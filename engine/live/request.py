"""What a client asks of the task file of a deck that runs: arguments from JSON, the answer ready for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import UsageError
from . import words
from .choices import Applied, Choices, Finished, Running
from .live_file import LiveFile
from .plan import FilePlan


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False
    digest: str = ""
    running: Running = "end"
    finished: Finished = "rerun"
    keep: bool = False
    """Finished tasks keep their results, whichever edit has changed them."""
    tasks: dict[str, Running | Finished] = {}
    add: tuple[str, ...] = ()


async def answer(live: LiveFile, args: Mapping[str, Any]) -> dict[str, Any]:
    """{"dry_run": true} shows the plan, {"add": [names]} takes in what `add` wrote, anything else applies, with the
    fields of `Choices`; "keep" goes before "finished". The answer is ready for JSON. Raises DeckError."""
    try:
        asked = msgspec.convert(args, _Asked)
    except msgspec.ValidationError as error:
        raise UsageError(f"apply: {error}") from error
    if asked.dry_run:
        return _told(await live.plan(), None, keep=asked.keep)
    if asked.add:
        return _told(None, await live.take_in(asked.add))
    finished = "keep" if asked.keep else asked.finished
    choices = Choices(asked.running, finished, asked.tasks, earlier=asked.keep, digest=asked.digest)
    return _told(None, await live.apply(choices))


def _told(plan: FilePlan | None, applied: Applied | None, *, keep: bool = False) -> dict[str, Any]:
    plan = plan if applied is None else applied.plan
    return {
        "changes": bool(plan),
        "digest": plan.digest if plan else "",
        "lines": words.lines(plan, keep=keep) if plan else [],
        "text": words.summary(plan) if plan else "",
        "plan": msgspec.to_builtins(plan),
        "applied": msgspec.to_builtins(applied),
    }
