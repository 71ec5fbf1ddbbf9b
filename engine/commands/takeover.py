"""`gpudeck takeover`: opens a deck whose host or container is gone."""

from __future__ import annotations

import time

from ..adapters.state.folder import StateDir
from ..adapters.state.lock import held_by, read_holder
from ..attach import find_state
from ..command import Command
from ..errors import EngineUnavailableError
from ..headless.text import field_text, plural
from .asking import agreed
from .place import Place


def run(command: Command) -> int:
    """Ask, then start an engine that takes all that ran there as gone."""
    place = Place.of(command)
    state, elsewhere = _state(place)
    if state is None and not elsewhere:
        print("there is nothing to take over: this deck has never been started")
        return 0
    if state is not None and (holder := held_by(state.path)) is not None:
        raise EngineUnavailableError(
            f"engine {holder.pid} on {field_text(holder.machine.host)} runs this deck: nothing is to be taken over"
        )
    if not agreed(
        f"{_before(state, elsewhere)} What still runs there would run twice. Take it over?", yes=command.flag("yes")
    ):
        print("nothing was done")
        return 1
    with place.start(takeover=True) as connection:
        counts = connection.request("status")["head"]["counts"]
    parts = [f"{counts[name]} {name}" for name in ("running", "queued", "waiting", "failed") if counts[name]]
    print(f"taken over: {', '.join(parts) or 'nothing is left to run'}")
    return 0


def _state(place: Place) -> tuple[StateDir | None, str]:
    """The deck's state, or why it cannot be reached from here."""
    try:
        return find_state(place.path, place.options), ""
    except EngineUnavailableError as error:
        return None, str(error)


def _before(state: StateDir | None, elsewhere: str) -> str:
    if state is None:
        return f"{elsewhere}; a new, empty state would be made here."
    last = read_holder(state.path)
    unfinished = state.unfinished()
    tasks = f"{plural(unfinished, 'task')} of it had not ended" if unfinished else "no task of it was under way"
    if last is None:
        return f"{tasks}."
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(last.since_wall))
    return f"engine {last.pid} on {field_text(last.machine.host)} had the deck since {since}; {tasks}."
