"""Other run options for a deck that runs: --gpus, --slots-per-gpu, --only, --with-needs."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ..core.deck import Deck
from ..core.phases import ACTIVE, FINAL
from ..core.spec import DeckFile
from ..decks.options import difference
from ..errors import UsageError
from ..taskfile.options import RunOptions
from ..taskfile.select import Look, select
from ..taskfile.settings import on_gpus
from ..text import plural
from .plan import FilePlan


class ChangeArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As on the command line; what is not given stays as it is."""

    gpus: str | None = None
    slots_per_gpu: str | None = None
    only: tuple[str, ...] = ()
    with_needs: bool = False

    @property
    def options(self) -> RunOptions:
        return RunOptions(gpus=self.gpus, slots_per_gpu=self.slots_per_gpu, only=self.only, with_needs=self.with_needs)


def under(file: DeckFile, options: RunOptions, look: Look) -> DeckFile:
    """What a deck has of its file, under other options. Raises UsageError for what they cannot mean."""
    given = {key: f"--{key.replace('_', '-')}" for key in ("gpus", "slots_per_gpu") if getattr(options, key)}
    return replace(
        file,
        settings=on_gpus(file.settings, options),
        selected=select(file.settings, file.tasks, options, look),
        places={**file.places, **given},
    )


def refuse_left_out_needs(deck: Deck, asked: RunOptions) -> None:
    """Raises UsageError where a task would wait for ever for one that is left out and is not done."""
    for task in deck.tasks:
        if not task.selected or isinstance(task.phase, (*ACTIVE, *FINAL)):
            continue
        members = (index for gate in task.gates if gate.kind == "needs" for index in gate.members)
        for need in map(deck.tasks.__getitem__, members):
            if not need.selected and not need.left_out_done:
                only = " ".join(asked.only)
                raise UsageError(
                    f"--only {only}: {task.name} needs {need.name}, which is left out and not done: "
                    f"--with-needs takes it along; nothing was changed"
                )


def text_of(before: RunOptions, now: RunOptions, plan: FilePlan) -> str:
    """What a change does, in one line."""
    counts = {"left out": len(plan.gone_waiting) + len(plan.gone_finished), "more": len(plan.added)}
    parts = [f"{plural(count, 'task')} {what}" for what, count in counts.items() if count]
    return "; ".join([f"the deck goes on with {difference(before, now)}", *parts])
