"""What must hold of a reply at the moment at which the engine lets it go: what it says was done is on disk, and of what
it left it says why, truly."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.events import (
    AttemptEnded,
    CancelRequested,
    DeckPaused,
    Fact,
    GpuMarked,
    OptionsChanged,
    PriorityChanged,
    RunEnded,
    RunStarted,
    StopRequested,
    TakenBack,
    TaskAccepted,
    TaskCancelled,
    TaskHeld,
    TaskRetried,
)
from gpudeck.engine.core.phases import FINAL, NAMES, Backoff, Closing, Queued, Stopping, Waiting
from gpudeck.engine.protocol.wire import Reply
from gpudeck.engine.protocol.words import stands
from tests.inside.sim import RunOptions, decode, handover
from tests.sim.promises import Broken
from tests.sim.taskfiles import OF_THE_FILE

_SHOWS: Mapping[str, tuple[type[Fact], ...]] = {
    "hold": (TaskHeld,),
    "release": (TaskHeld,),
    "priority": (PriorityChanged,),
    "accept": (TaskAccepted,),
    "cancel": (TaskCancelled, StopRequested, CancelRequested, AttemptEnded),
    "kill": (TaskCancelled, StopRequested, CancelRequested, AttemptEnded),
    "retry": (TaskRetried, AttemptEnded),
    "undo": (TakenBack, TaskHeld, PriorityChanged),
}
"""By verb, the facts that say that it was done to a task."""


_LOOKING = frozenset({"status", "options", "select", "rows", "explain", "show", "timeline", "graph", "errors"})


_SINCE = ("nothing to accept", "left out", "has started meanwhile")
"""Of a task that is left, what its state now does not tell."""


def changes(asked: Any) -> bool:
    """Whether a wish or request may change a task."""
    return asked.op not in _LOOKING and not (asked.op == "stop" and not asked.args.get("tasks"))


class Asked:
    """A request that is on its way."""

    def __init__(self, wish: Any, engine: Any) -> None:
        """*engine*: the one that is asked."""
        self.wish, self.engine = wish, engine
        self.place = engine.journal.count
        """What it leads to comes behind this in the journal."""
        self._full = self._disk_is_full
        self._acts, self._busy = engine.acts + changes(wish), engine.acting
        self._at = engine.box.now
        self.ending = _ending(engine.deck)
        """Tasks that were on their end already."""
        self.behind = False
        """Whoever asked had not read what it was told when the reply was sent."""
        self.given = {spec.name: spec.given for spec in engine.file.tasks}
        """Values that tasks had in the place of the file's."""

    @property
    def alone(self) -> bool:
        """Nothing else was asked of the engine, or edited, meanwhile."""
        return not self._busy and self.engine.acts <= self._acts

    @property
    def _disk_is_full(self) -> bool:
        return self.engine.journal.behind

    @property
    def facts(self) -> list[Fact]:
        """What is on disk since."""
        return self.engine.box.disks[self.engine.name].facts[self.place :]

    @property
    def on_disk(self) -> bool:
        """The disk took everything."""
        return not (self._full or self._disk_is_full)

    def waited(self, engine: Any, patience_s: float) -> None:
        """Raises Broken where an engine that lives does not answer."""
        if engine is self.engine and engine.box.now - self._at > patience_s:
            raise Broken(f"{engine.name} does not answer {self.wish}")


def check(asked: Asked, reply: Reply) -> None:
    """Raises Broken."""
    if "internal error" in reply.error:
        raise Broken(f"{asked.wish}: {reply.error}")
    if not reply.ok:
        if not reply.error or reply.code not in (2, 3, 75):
            raise Broken(f"{asked.wish} was refused without a word: {reply}")
        return
    args, result, deck = asked.wish.args, reply.result, asked.engine.deck
    match asked.wish.op:
        case "retry" if args.get("dry_run"):
            pass
        case "hold" | "release" | "priority" | "accept" | "cancel" | "kill" | "retry" as verb:
            if {*result["tasks"], *result["left"]} != {*args["tasks"]} or {*result["tasks"]} & {*result["left"]}:
                raise Broken(f"{asked.wish}: the reply does not tell of each task once: {result}")
            _done(asked, verb, result["tasks"])
            _left(asked, verb, result["left"], deck)
            if "given" in result:
                _given(asked, args["set"], result["given"])
                asked.engine.box.given_before[result["undo"]] = {name: asked.given[name] for name in result["given"]}
        case "undo":
            _done(asked, "undo", result["tasks"])
            _given_back(asked, result["tasks"])
        case "preempt":
            stops = {fact.task for fact in asked.facts if isinstance(fact, StopRequested) and fact.why == "preempted"}
            if asked.on_disk and (missing := {*result["tasks"]} - stops):
                raise Broken(f"{', '.join(sorted(missing))} is said to make way, and that is not on disk")
        case "pause" | "unpause" as verb:
            ended = deck.run.ended or any(isinstance(fact, RunEnded) for fact in asked.facts)
            if asked.alone and not ended and bool(deck.paused) is not (verb == "pause"):
                raise Broken(f"{asked.wish} was answered and the deck is {deck.paused or 'not paused'}")
            if result["undo"] and asked.on_disk and not any(isinstance(fact, DeckPaused) for fact in asked.facts):
                raise Broken(f"{asked.wish} was answered and is not on disk")
        case "gpu":
            marks = [fact for fact in asked.facts if isinstance(fact, GpuMarked)]
            if result["undo"] and asked.on_disk and not marks:
                raise Broken(f"{asked.wish} was answered and is not on disk")
        case "options":
            _kept(asked, decode(result["options"]))
        case "change":
            _changed(asked, result)
        case "apply":
            if args.get("add"):
                _added(asked, args["add"])
            elif not args.get("dry_run"):
                _applied(asked)
        case "status":
            there = sum(task.selected and not task.gone for task in deck.tasks)
            if (total := result["head"]["counts"]["total"]) != there:
                raise Broken(f"the status counts {total} tasks of {there}")
        case "explain":
            _explained(asked, result, deck)
        case "rows":
            if [row["name"] for row in result] != list(args["tasks"]):
                raise Broken(f"{asked.wish}: rows of others: {result}")
        case _:
            pass


def _done(asked: Asked, verb: str, names: list[str]) -> None:
    """Each is on disk, unless that is full: then the journal says so to everybody."""
    told = {getattr(fact, "task", "") for fact in asked.facts if isinstance(fact, _SHOWS[verb])}
    if verb in ("cancel", "kill"):  # what was on its end already may have been sent a signal, and no more
        told |= asked.ending | _ending(asked.engine.deck)
    if asked.on_disk and (missing := {*names} - told):
        raise Broken(f"{asked.wish} is said to be done to {', '.join(sorted(missing))} and is not on disk")


def _ending(deck: Deck) -> set[str]:
    return {task.name for task in deck.tasks if isinstance(task.phase, (Stopping, Closing))}


def _left(asked: Asked, verb: str, left: Mapping[str, str], deck: Deck) -> None:
    for name, why in left.items():
        task = deck.by_name.get(name)
        if task is None:
            continue
        true = {
            "is held already": task.held,
            "is not held": not task.held,
            "has left the task file": task.gone,
            f"has priority {task.priority} already": True,
        }.get(why, stands(NAMES[type(task.phase)]) == why or any(words in why for words in _SINCE))
        if not true and asked.alone:
            raise Broken(f"{verb} left {name}, which {why}: it is {NAMES[type(task.phase)]}")
        could = {
            "hold": not (task.held or deck.run.ended or isinstance(task.phase, FINAL)),
            "release": task.held,
            "priority": task.priority != asked.wish.args.get("value"),
            "cancel": isinstance(task.phase, (Waiting, Queued, Backoff)),
            "kill": isinstance(task.phase, (Waiting, Queued, Backoff)),
        }.get(verb, False)
        if could and asked.alone and task.selected and not task.gone:
            raise Broken(f"{verb} left {name}, which {why}, and could have been done")


def _applied(asked: Asked) -> None:
    """The next engine knows what was taken."""
    engine = asked.engine
    if engine.file.text and handover.kept_file(engine.state) != engine.file.text.encode():
        raise Broken(f"{engine.name} has applied its file, and the next engine will not know")


def _added(asked: Asked, names: Sequence[str]) -> None:
    there = {spec.name for spec in asked.engine.file.tasks}
    if asked.alone and (missing := {*names} - there):
        raise Broken(f"{', '.join(sorted(missing))} of {asked.engine.name} is said to be added, and is not in the deck")


def _kept(asked: Asked, options: RunOptions) -> None:
    """A run goes by what the journal says of it. Once it has ended, an engine tells what the next one would go by."""
    kept = _options_on_disk(asked)
    written = asked.on_disk and asked.engine.journal.idle
    sure = asked.alone and written and not asked.engine.deck.run.ended
    if kept is not None and sure and options != kept:
        raise Broken(f"{asked.engine.name} goes by {options}, and the journal says {kept}")


def _options_on_disk(asked: Asked) -> RunOptions | None:
    facts = asked.engine.box.disks[asked.engine.name].facts
    told = [fact.options for fact in facts if isinstance(fact, (RunStarted, OptionsChanged))]
    return decode(told[-1]) if told else None


def _given(asked: Asked, values: Mapping[str, str], names: Collection[str]) -> None:
    """These tasks have the values, and the next engine will know."""
    engine = asked.engine
    meant = tuple((key, value) for key, value in values.items() if value != OF_THE_FILE)
    specs = {spec.name: spec for spec in engine.file.tasks}
    kept = _options_on_disk(asked)
    for name in names:
        if asked.alone and (has := specs[name].given) != meant:
            raise Broken(f"{asked.wish} was answered, and {name} has {has}")
        if asked.alone and asked.on_disk and kept is not None and kept.retried.get(name, {}) != dict(meant):
            raise Broken(f"{asked.wish} was answered, and {name} has {kept.retried.get(name)} on disk")


def _given_back(asked: Asked, names: Collection[str]) -> None:
    before = asked.engine.box.given_before.get(asked.wish.args["undo"], {})
    for spec in asked.engine.file.tasks:
        if asked.alone and spec.name in before and spec.name in names and spec.given != before[spec.name]:
            raise Broken(f"{asked.wish} was answered, and {spec.name} has {spec.given} and had {before[spec.name]}")


def _changed(asked: Asked, result: Mapping[str, str]) -> None:
    """What was asked for holds, and the journal says so."""
    options, file = decode(result["options"]), asked.engine.file
    given = {key: value for key, value in asked.wish.args.items() if key != "with_needs"}
    if asked.alone and (other := {key for key, value in given.items() if getattr(options, key) != value}):
        raise Broken(f"{asked.wish} was answered, and other are {', '.join(other)}: {options}")
    if asked.alone and file.settings.slots_per_gpu != int(given.get("slots_per_gpu", file.settings.slots_per_gpu)):
        raise Broken(f"{asked.wish} was answered, and a GPU has {file.settings.slots_per_gpu} slots")
    if result["text"] and asked.on_disk and not any(isinstance(fact, OptionsChanged) for fact in asked.facts):
        raise Broken(f"{asked.wish} was answered and is not on disk")


def _explained(asked: Asked, told: Mapping[str, list[Any]], deck: Deck) -> None:
    if not asked.alone:
        return
    for name, obstacles in told.items():
        task = deck.by_name.get(name)
        stands = task is not None and isinstance(task.phase, (Waiting, Queued, Backoff))
        if stands and not obstacles and (deck.paused or task.held):
            raise Broken(f"{name} waits and nothing says why")
