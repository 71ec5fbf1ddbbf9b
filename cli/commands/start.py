"""`gpudeck start`: the deck's engine without a screen."""

from __future__ import annotations

from ...engine.client.attach import has_engine
from ...engine.client.connection import Connection
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.core.phases import Cached, Succeeded
from ...engine.decks.options import decode, describe, which
from ...engine.protocol.wire import DeckHead
from ...engine.taskfile.options import RunOptions
from ...engine.text import field_text, names_text, plural
from .screen import tell
from .stop import make_way


def run(command: Command) -> int:
    """Start an engine where none runs, and tell how the deck stands; the engine goes on."""
    place = Place.of(command)
    place.refuse_missing(command.file)
    make_way(place)
    began = not has_engine(place.path, place.options)
    with place.start("start", quiet=True, change=True) as connection:
        pid = connection.hello.pid
        for line in connection.request("start")["warnings"] if began else ():
            place.say(f"warning: {line}")
        head = connection.head()
        left_out = _left_out(connection, head.counts.total)
        if not command.flag("json"):
            place.tell_what_bars(connection)
            if not began:
                place.tell_edits(connection)
    counts = head.counts
    fields = {"engine": pid, "running": counts.running, "queued": counts.queued}
    fields |= {"paused": head.paused, "barred": head.barred}
    tasks = f"{plural(counts.running, 'task')} running, {counts.queued} queued"
    tell(command, f"engine {pid} runs {field_text(head.deck)}: {tasks}", verb="start", **fields)
    if command.flag("json"):
        return 0
    if left_out:
        place.say(left_out)
    busy = counts.running > 0 or counts.queued > 0
    if over := _over(head, busy=busy):
        place.say(over)
    if not busy and (lost := _without_outputs(place)):
        them = "it" if len(lost) == 1 else "them"
        place.say(
            f"{names_text(lost)} succeeded, and the outputs are gone or another attempt's by now: `gpudeck retry` with "
            f"the name{'s' * (len(lost) > 1)} makes {them} again, so does the next `gpudeck --headless`"
        )
    if place.options.skip_existing is False:
        place.say(
            "--no-skip-existing: what never ran runs although its outputs exist; what has ended stays so until "
            "`gpudeck retry '*'` or `gpudeck --headless --no-skip-existing`"
        )
    place.say("`gpudeck` opens its screen, `gpudeck status` looks, `gpudeck stop` ends the engine")
    return 0


def _over(head: DeckHead, *, busy: bool) -> str:
    """What has ended and waits for its user; "" for nothing. *busy*: others run, so that only an edit is to be told."""
    counts = head.counts
    told = {"failed": counts.failed, "changed": head.changed, "cancelled": counts.cancelled, "pruned": counts.pruned}
    told = {"changed": head.changed} if busy else told
    told = {name: count for name, count in told.items() if count}
    if not told:
        return ""
    counted = ", ".join(f"{count} {name}" for name, count in told.items())
    return f"{counted}: `gpudeck retry state:{','.join(told)}` runs them again"


def _without_outputs(place: Place) -> list[str]:
    """Finished tasks whose outputs no longer show that they are done. Looks at the outputs of each."""
    from ...engine.attempts.outputs import is_done
    from ...engine.core.marks import is_of_other_work
    from ...engine.decks.offline import open_offline
    from ...engine.decks.other_decks import OtherDecks

    found = open_offline(place.path, place.options, place.environ)
    deck, others = found.deck, OtherDecks(found.file)
    done = (task for task in deck.tasks if task.selected and isinstance(task.phase, (Succeeded, Cached)))
    own = (task for task in done if task.spec.outputs and not is_of_other_work(task))
    return [task.name for task in own if not is_done(deck, task, found.logs, others.at)]


def _left_out(connection: Connection, selected: int) -> str:
    """What to say where the deck goes on with a part of its tasks, as it was started before; "" where it has all."""
    chosen = which(decode(connection.request("options")["options"]))
    count = len(connection.request("select", select=["*"])) - selected if chosen != RunOptions() else 0
    if count <= 0:
        return ""
    hint = ": `gpudeck start --only '*'` takes up all" if chosen.only and not (chosen.exclude or chosen.limit) else ""
    return f"{plural(count, 'task')} left out by {describe(chosen)}{hint}"
