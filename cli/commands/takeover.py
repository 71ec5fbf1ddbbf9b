"""`gpudeck takeover`: opens a deck whose host or container is gone."""

from __future__ import annotations

import os
import time

from ...engine.adapters.journal.db import look_at
from ...engine.adapters.slurm.jobfiles import control_folder
from ...engine.adapters.state.folder import StateDir
from ...engine.adapters.state.lock import held_by, read_holder
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.core.recorded import recorded
from ...engine.decks.states import find_state, settings_said
from ...engine.errors import EngineUnavailableError
from ...engine.serve.offline import offline_look
from ...engine.text import field_text, plural
from .screen import agreed


def run(command: Command) -> int:
    """Ask, then start an engine that takes all that ran there as gone; jobs of a cluster go on."""
    place = Place.of(command)
    state, elsewhere = _state(place)
    if state is None and not elsewhere:
        print("there is nothing to take over: this deck has never been started")
        return 0
    if state is not None and (holder := held_by(state.path)) is not None:
        raise EngineUnavailableError(
            f"engine {holder.pid} on {field_text(holder.machine.host)} runs this deck: nothing is to be taken over"
        )
    if state is not None and not _left(place):
        place.say("there is nothing to take over: what this deck ran, it ran here; `gpudeck start` goes on with it")
        return 0
    told = _before(state, elsewhere, jobs=_jobs(place, state))
    if not agreed(f"{told} Take it over?", yes=command.flag("yes")):
        print("nothing was done")
        return 1
    with place.start(takeover=True) as connection:
        counts = connection.head().counts
    parts = [
        f"{count} {name}" for name in ("running", "queued", "waiting", "failed") if (count := getattr(counts, name))
    ]
    print(f"taken over: {', '.join(parts) or 'nothing is left to run'}")
    return 0


def _left(place: Place) -> bool:
    """Its tasks were left on another machine or in another container, or nobody knows what became of them."""
    found = offline_look(place, quiet=True).deck
    return bool(found.elsewhere) or any(found.standing(token) == "unknown" for token in found.deck.active)


def _state(place: Place) -> tuple[StateDir | None, str]:
    """The deck's state, or why it cannot be reached from here."""
    try:
        return find_state(place.path, place.options), ""
    except EngineUnavailableError as error:
        return None, str(error)


def _jobs(place: Place, state: StateDir | None) -> int | None:
    """How many jobs of the deck a cluster has, as far as is known; None: its tasks run on this box."""
    if state is None:
        log_dir = settings_said(place.path, place.options)[0].log_dir
        return 0 if os.path.isdir(control_folder(log_dir)) else None
    lasting = recorded(look_at(state.db)[0]).lasting.values()
    return sum(bool(start.where) for start in lasting) or None


def _before(state: StateDir | None, elsewhere: str, *, jobs: int | None) -> str:
    """What is known, and what becomes of it. *jobs*: see `_jobs`."""
    if jobs is not None:
        return f"{_of_jobs(state, elsewhere, jobs)} An engine that still runs there would submit tasks a second time."
    twice = "What still runs there would run twice."
    if state is None:
        return f"{elsewhere}; a new, empty state would be made here. {twice}"
    unfinished = state.unfinished()
    tasks = f"{plural(unfinished, 'task')} of it had not ended" if unfinished else "no task of it was under way"
    return f"{_holder(state)}{tasks}. {twice}"


def _of_jobs(state: StateDir | None, elsewhere: str, jobs: int) -> str:
    if state is None:
        return (
            f"{elsewhere}; a new state would be made here: jobs that wait or run go on and are taken over, what has "
            "ended is known from the logs; holds, priorities and used retries are forgotten."
        )
    go = "goes on and is" if jobs == 1 else "go on and are"
    return f"{_holder(state)}{plural(jobs, 'job')} of it had not ended, which {go} taken over."


def _holder(state: StateDir) -> str:
    last = read_holder(state.path)
    if last is None:
        return ""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(last.since_wall))
    return f"engine {last.pid} on {field_text(last.machine.host)} had the deck since {since}; "
