"""`gpudeck retry`, `cancel`, `kill`, `hold`, `release`, `priority`, `accept`: what is done to tasks."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...engine.attempts.record import ran_otherwise
from ...engine.attempts.secrets import masked_env
from ...engine.client.connection import Connection, Gone
from ...engine.client.files import queue_file
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.errors import UsageError
from ...engine.protocol.states import ACTIVE
from ...engine.protocol.verbs import ACTS, debug_env
from ...engine.protocol.wire import TaskRow
from ...engine.taskfile.kinds import LARGEST
from ...engine.text import command_text, field_text, names_text, plural
from ...engine.typed import pairs_of, variables_of
from .look import LiveLook, Look, nobody
from .rows import is_text
from .screen import agreed, print_json
from .stop import end_again

if TYPE_CHECKING:
    from ...engine.serve.offline import OfflineLook

_ENDS_S = 3.0
"""The end of an attempt of before, and its logs, are read within this time."""


def run(command: Command) -> int:
    """Do it, started engine or not, wait until the engine has taken it, and tell what came of it."""
    try:
        return _run(command)
    except UsageError as error:
        text = str(error)
        how = _how_to_set(command, [word for word in command.words if text.startswith(f"{word}: ")])
        raise UsageError(text + how) from None


def _how_to_set(command: Command, unmatched: Sequence[str]) -> str:
    """Where words that mean no task look like values for `--set`, the form that sets them; "" where none does."""
    values = [word for word in unmatched if word.partition("=")[0].isidentifier() and "=" in word]
    if not values or command.verb != "retry":
        return ""
    if command.flag("queue"):
        return f"; `{' '.join(f'--env {pair}' for pair in values)}` puts variables into its environment"
    given = command.given.get("values_given") or ()
    form = f"`{' '.join(f'--set {pair}' for pair in (*given, *values))}`"
    return f"; each value takes a --set of its own: {form}" if given else f"; {form} gives another value"


def _run(command: Command) -> int:
    verb, words, told = command.verb, list(command.words), Telling(command)
    more = _arguments(command, words)
    place = Place.of(command)
    connection, answered, started = place.attach(), False, False
    if connection is not None:
        place.tell_environment()
    else:
        from ...engine.serve.offline import offline_look

        found = offline_look(place, quiet=True)
        code, answered = _wanted(command, words, found, told)
        if code is not None:
            return code
        if gpus := more.get("not_on", ()):
            from .gpus import refuse_other_gpus  # with all that shows GPUs

            refuse_other_gpus(found, gpus)
        goes_on = verb == "retry" or found.under_way
        if verb == "retry":
            found.refuse_retry(words)
            if not found.under_way and (rest := _rest(found, words)):
                place.say(f"the run goes on with it: {plural(len(rest), 'task')} that waited can start, too")
        connection = place.start("act" if goes_on else "note")
        started = True
        _await_ends(connection, found.ended_unseen)
        if verb == "retry" and (new := len(found.never_ran)):
            place.say(f"{plural(new, 'new task')} of the file: `gpudeck start` takes up what no retried task needs")
    with connection, contextlib.ExitStack() as undo:
        if started:
            undo.callback(end_again, place, connection)
        names: list[str] = connection.request("select", select=words)
        if not names:
            return told.nobody(words)
        before = connection.rows(names)
        chosen = _chosen(verb, before)
        if not chosen:
            told.nothing_to_do(before)
            _hint(verb, connection, place)
            return 0
        behind = [] if answered else _behind(command, LiveLook(connection), chosen)
        asks = (behind or _asks(words, before, chosen)) and not answered
        if asks and not agreed(_question(command, chosen, behind), yes=command.flag("yes")):
            return told.declined()
        if command.flag("debug"):
            more["env"] = {**debug_env(chosen, simulated=connection.head().simulated), **more["env"]}
        names = [row.name for row in chosen]
        told.env = masked_env(more.get("env", {}).items())
        if verb == "retry" and not more["set"]:
            told.edited(_edited(LiveLook(connection), chosen, env=bool(more["env"]), fresh=more["fresh"]))
        if more.get("set"):
            told.will_be(connection.request(verb, tasks=names, **more, dry_run=True)["given"])
        undo.pop_all()
        reply = connection.request(verb, tasks=names, **more)
        told.given(reply.get("given", {}))
        note = reply.get("note", "")
        now = connection.rows(names)
        told.done(before, now, more.get("value"), field_text(note), named=words)
        if note:
            place.say(field_text(note))
        if verb == "retry" and place.path == queue_file():
            _tell_terminals(place, LiveLook(connection), names)
        _hint(verb, connection, place)
    return 0


def _await_ends(connection: Connection, names: set[str]) -> None:
    """Until the engine, which has just been started, has taken in how these have ended."""
    deadline = time.monotonic() + _ENDS_S
    rows = connection.wait_for_picture().by_name() if names else {}
    while any(rows[name].state in ACTIVE for name in names & rows.keys()):
        if (left_s := deadline - time.monotonic()) <= 0:
            return
        next(connection.messages(left_s), None)
        rows = connection.wait_for_picture().by_name()


def _rest(found: OfflineLook, words: Sequence[str]) -> list[str]:
    """Tasks that wait and are not meant."""
    meant = {row.name for row in found.rows(words)}
    return [name for name in found.waiting if name not in meant]


def _tell_terminals(place: Place, look: Look, names: Sequence[str]) -> None:
    """Which of those that start again wait for somebody to sit down."""
    for name in names[:_LISTED]:
        if look.details(name)["on_terminal"]:
            place.say(f"`gpudeck attach {name}` sits down at {name}")


def _hint(verb: str, connection: Connection, place: Place) -> None:
    """An edit that nobody has applied has changed no task yet, so that there is nothing of it to accept or to run."""
    if verb != "accept":
        if verb == "retry":
            place.tell_edits(connection)
        return
    with contextlib.suppress(Gone):  # all is done and told
        if connection.head().file_plan:
            kept = "`gpudeck apply --keep` applies that and keeps the results of changed tasks"
            place.say(f"the task file has changed: {kept}")


def _wanted(command: Command, selectors: Sequence[str], found: OfflineLook, told: Telling) -> tuple[int | None, bool]:
    """Whether an engine is to be started, which begins to run the deck: where there is something to do to what is
    meant, and the user, who is asked before, agrees. Returns the exit code where none is, and whether the question is
    answered."""
    rows = found.rows(selectors)
    if not rows and not found.ended_unseen:  # these may be meant once it is known how they ended: state:failed
        return told.nobody(selectors), False
    if not rows or any(row.state in ACTIVE or row.state == "unknown" for row in rows):
        return None, False  # what became of them shows then
    chosen = _chosen(command.verb, rows)
    if not chosen:
        told.nothing_to_do(rows)
        return 0, False
    behind = _behind(command, found, chosen)
    asks = bool(behind) or _asks(selectors, rows, chosen)
    if asks and not agreed(_question(command, chosen, behind), yes=command.flag("yes")):
        return told.declined(), True
    return None, asks


def _arguments(command: Command, words: list[str]) -> dict[str, Any]:
    """What goes with the request; takes from *words* what is no selector."""
    match command.verb:
        case "priority":
            if len(words) < 2:
                raise UsageError("priority wants SEL and a number: `gpudeck priority train-1 10`")
            return {"value": _number(words.pop())}
        case "retry":
            from .gpus import named_gpus

            given = command.given
            return {
                "fresh": command.flag("fresh"),
                "downstream": command.flag("downstream"),
                "env": variables_of(given.get("env") or ()),
                "set": pairs_of(given.get("values_given") or (), "--set"),
                "not_on": [gpu for text in given.get("not_on") or () for gpu in named_gpus(text)],
            }
        case _:
            return {}


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"priority wants a whole number at the end, got {text!r}") from None
    if abs(number) > LARGEST:
        raise UsageError(f"priority wants a number from -{LARGEST} to {LARGEST}, got {number}")
    return number


def _chosen(verb: str, rows: Sequence[TaskRow]) -> list[TaskRow]:
    """Those that the verb does something to; [] where all are so already. Raises UsageError where it means none."""
    act = ACTS[verb]
    chosen = [row for row in rows if act.may(row)]
    if not chosen and not any(act.done(row) for row in rows):
        first = rows[0]
        more = f" (and {len(rows) - 1} more like it)" if len(rows) > 1 else ""
        raise UsageError(f"{field_text(first.name)} {is_text(first)}{more}: {act.refusal}")
    return chosen


def _asks(words: Sequence[str], rows: Sequence[TaskRow], chosen: Sequence[TaskRow]) -> bool:
    """More tasks than one, and not all of what is meant was typed out by name."""
    return len(chosen) > 1 and not {row.name for row in rows} <= set(words)


def _behind(command: Command, look: Look, chosen: Sequence[TaskRow]) -> list[str]:
    """What needs them and runs again with them, as far as it was not named itself."""
    if not command.flag("downstream"):
        return []
    named = {row.name for row in chosen}
    needed_by = [name for row in chosen for name in look.details(row.name)["needed_by"]]
    return [name for name in dict.fromkeys(needed_by) if name not in named]


def _edited(look: Look, chosen: Sequence[TaskRow], *, env: bool, fresh: bool) -> dict[str, tuple[str, str]]:
    """By task, what its newest attempt has run and what the next one runs, where the file says another command now, or
    it gets another environment (*env*)."""
    found: dict[str, tuple[str, str]] = {}
    for task in [look.details(row.name) for row in [row for row in chosen if row.changed or env][:_LISTED]]:
        command = command_text(task["command"])
        before = ran_otherwise(task) or (command if env else "")
        if before:
            resume = None if fresh else task["resume"]
            found[task["name"]] = (before, command_text(resume or task["anew"]))
    return found


def _question(command: Command, rows: Sequence[TaskRow], behind: Sequence[str]) -> str:
    states = ", ".join(f"{count} {state}" for state, count in Counter(row.state for row in rows).items())
    names = field_text(names_text([row.name for row in rows]))
    more = f", and all that builds on {'it' if len(rows) == 1 else 'them'} ({field_text(names_text(behind))})"
    return f"{command.verb} {plural(len(rows), 'task')} ({states}): {names}{more if behind else ''}?"


_LISTED = 20
"""Outcomes told one by one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one task."""

    row: TaskRow
    """As it is now."""
    text: str
    done: bool
    """Something was done to it."""


class Telling:
    """What came of a command, in lines or as JSON."""

    def __init__(self, command: Command) -> None:
        self._command, self._verb = command, command.verb
        self._act = ACTS[command.verb]
        self._json = command.flag("json")
        self._given: Mapping[str, Mapping[str, Any]] = {}
        """Commands by task, as it was told that they will be, and then as they have become."""
        self._edited: Mapping[str, tuple[str, str]] = {}
        self.env: Mapping[str, str | None] = {}
        """What is put over their environment, secrets masked."""
        self._missed = frozenset[str]()

    def nobody(self, selectors: Sequence[str]) -> int:
        """No task is meant."""
        why = nobody(selectors) + _how_to_set(self._command, selectors)
        if self._json:
            self._tell([], why)
        else:
            print(f"{self._verb}: {why}")
        return 0

    def declined(self) -> int:
        if self._json:
            self._tell([], "nothing was done")
        else:
            print("nothing was done")
        return 1

    def nothing_to_do(self, rows: Sequence[TaskRow]) -> None:
        """All are so already."""
        self._tell([_unchanged(self._verb, row) for row in rows])

    def done(
        self, before: Sequence[TaskRow], after: Sequence[TaskRow], value: object, note: str, *, named: Sequence[str]
    ) -> None:
        """*before*: of all that were meant; *after*: of those to whom it was done. *named*: what was typed; of others
        that were meant nobody wants to read that nothing was done to them."""
        now = {row.name: row for row in after}
        outcomes = [self._outcome(row, now[row.name], value) for row in before if row.name in now]
        outcomes += [self._refused(row) for row in before if row.name not in now and (self._json or row.name in named)]
        self._tell(outcomes, note)

    def edited(self, commands: Mapping[str, tuple[str, str]]) -> None:
        """Commands before and now of tasks that an edit of the file has changed."""
        self._edited = commands
        if not self._json:
            for name, (before, after) in commands.items():
                self._tell_both(name, before, after)

    def will_be(self, given: Mapping[str, Mapping[str, Any]]) -> None:
        """What tasks are with the values that they are to be given."""
        self._given = given
        if self._json:
            return
        for name, change in list(given.items())[:_LISTED]:
            before, after = (command_text(change[when]) for when in ("before", "after"))
            if not (change["changes"] or self.env):
                print(f"{field_text(name)} has these values already")
                continue
            env = [text for text in change["changes"] if before == after]
            self._tell_both(name, before, " ".join([*env, after]))
        if len(given) > _LISTED:
            print(f"and {plural(len(given) - _LISTED, 'other task')} likewise")

    def _tell_both(self, name: str, before: str, after: str) -> None:
        """A command as it was, and as it is now."""
        name, env = field_text(name), [f"{key}={shlex.quote(value or '')}" for key, value in self.env.items()]
        print(f"{name}: {field_text(before)}")
        print(f"{'now':>{len(name)}}: {field_text(' '.join([*env, after]))}")

    def given(self, given: Mapping[str, Mapping[str, Any]]) -> None:
        """What they have become; a task that has started by itself meanwhile has no new values."""
        self._missed = frozenset(self._given.keys() - given.keys())
        self._given = given

    def _refused(self, row: TaskRow) -> Outcome:
        if self._act.done(row):
            return _unchanged(self._verb, row)
        if self._verb == "retry" and row.state == "blocked":
            why = f"starts by itself once that is mended: `gpudeck explain {row.name}` tells how"
            return Outcome(row, f"{is_text(row)}: it {why}", done=False)
        return Outcome(row, f"{is_text(row)}: {self._act.refusal}", done=False)

    def _tell(self, outcomes: Sequence[Outcome], note: str = "") -> None:
        """A line for each outcome, or where they are many one for each kind. *note*: what else there is to know; "" for
        nothing."""
        if self._json:
            done = [self._plain(one) for one in outcomes if one.done]
            refused = [self._plain(one) for one in outcomes if not one.done]
            print_json({"verb": self._verb, "done": done, "refused": refused, "note": note})
        elif len(outcomes) <= _LISTED:
            for one in outcomes:
                print(f"{self._verb}: {field_text(one.row.name)} ({one.text})")
        else:
            groups: dict[str, list[str]] = {}
            for one in outcomes:
                groups.setdefault(one.text, []).append(one.row.name)
            for text, names in groups.items():
                print(f"{self._verb}: {plural(len(names), 'task')} ({text}): {field_text(names_text(names))}")

    def _plain(self, one: Outcome) -> dict[str, Any]:
        row, given = one.row, self._given.get(one.row.name)
        both = (given["before"], given["after"]) if given else self._edited.get(row.name)
        commands = {"command_before": both[0], "command": both[1]} if both else {}
        env = {"env": self.env} if self.env else {}
        return {"name": row.name, "state": row.state, "attempt": row.attempt, "text": one.text, **commands, **env}

    def _outcome(self, before: TaskRow, after: TaskRow, value: object) -> Outcome:
        """*value*: the priority that was given."""
        if after.left_out and before.state not in ACTIVE:
            text = f"stays {after.state}: the run leaves it out (--only, --exclude or --limit)"
            return Outcome(after, text, done=False)
        if after.name in self._missed:
            return Outcome(after, "has started meanwhile, as it was", done=False)
        return Outcome(after, _text(self._verb, before, after, value), done=True)


def _unchanged(verb: str, row: TaskRow) -> Outcome:
    """It was as it should be before."""
    if verb == "release":
        return Outcome(row, f"{is_text(row)}, and not held", done=False)
    if verb == "accept":
        return Outcome(row, f"{is_text(row)}: it is neither changed nor stale", done=False)
    if row.state == "backoff":
        return Outcome(row, is_text(row) + (", held already" if row.held else ""), done=False)
    flags = " and held" if row.held else ""
    return Outcome(row, f"{row.state}{flags} already", done=False)


def _text(verb: str, before: TaskRow, after: TaskRow, value: object) -> str:
    match verb:
        case "retry":
            return _retried(before, after)
        case "cancel" | "kill":
            stopping = after.state in ("stopping", "closing")
            return f"attempt {after.attempt} is being stopped" if stopping else after.state
        case "hold":
            return "held" + (f"; attempt {after.attempt} goes on" if after.state in ACTIVE else "")
        case "release":
            return f"released, {after.state}"
        case "priority":
            return f"priority {value}"
        case _:
            return "its result counts as it is"


def _retried(before: TaskRow, after: TaskRow) -> str:
    if after.attempt > before.attempt:
        return f"attempt {after.attempt} {'is ' if after.state in ACTIVE else 'has '}{after.state}"
    held = ", held" if after.held else ""
    return f"attempt {after.attempt + 1} is {after.state}{held}"
