"""What can be told of the tasks of a deck whose task file is broken now."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ..core.events import AttemptStarting, Fact, TaskCached, TaskCancelled
from ..core.spec import DeckFile, DeckSettings, Resources, TaskSpec, Work
from ..taskfile.options import RunOptions
from ..taskfile.settings import stem_of


def file_despite(path: str, options: RunOptions, settings: DeckSettings, facts: Iterable[Fact]) -> DeckFile:
    """The tasks that the journal knows, as far as it knows them."""
    tasks = [
        TaskSpec(
            name=name,
            entry=name,
            position=position,
            work=Work(""),
            fingerprint=fact.fingerprint if fact is not None else "",
            resources=Resources(gpus=len(fact.gpus) if isinstance(fact, AttemptStarting) else 1),
        )
        for position, (name, fact) in enumerate(_newest(facts).items())
    ]
    return DeckFile(
        path=os.path.abspath(path), stem=stem_of(path, options), settings=settings, tasks=tuple(tasks), shown=path
    )


def _newest(facts: Iterable[Fact]) -> Mapping[str, AttemptStarting | TaskCached | None]:
    """Each task's newest fact that tells what it is, in the order in which they were first heard of."""
    found: dict[str, AttemptStarting | TaskCached | None] = {}
    for fact in facts:
        if isinstance(fact, (AttemptStarting, TaskCached)):
            found[fact.task] = fact
        elif isinstance(fact, TaskCancelled):
            found.setdefault(fact.task)
    return found
