"""What clients may ask of an engine: operations, and what they lead to; all are in docs/dev/protocol.md."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from ..attempts.attempts import Attempts
from ..core.acts import Moved
from ..core.deck import Deck, Task
from ..core.events import RetryOptions
from ..core.explain import explain
from ..core.gone import doing
from ..core.inputs import GpuVerb, Preempt, Verb
from ..core.phases import FINAL, NAMES, Backoff, Blocked, Unknown, Waiting
from ..core.preempt import candidates, offer, want, work_lost_s
from ..errors import UsageError
from ..live.change import ChangeArgs
from ..live.reading import Given
from ..ports import Clock, Sink
from ..protocol.wire import Request
from ..protocol.words import barred_text, stands
from ..taskfile.kinds import refuse_own
from ..taskfile.problems import BadValueError
from ..text import names_text
from .cluster_rows import hour
from .details import changes, details_of
from .pages import TOLD_AT_ONCE, FailuresArgs, Graphs, TimelineArgs, failures, in_turns, timeline
from .requested import (
    GpuArgs,
    NoArgs,
    OfferArgs,
    PauseArgs,
    PreemptArgs,
    PriorityArgs,
    RetryArgs,
    SelectArgs,
    StopArgs,
    TasksArgs,
    UndoArgs,
    is_left_out,
    refuse_left_out,
    select_in_turns,
)
from .undoing import Undoing, Undone, new_act
from .view import DeckView

_Args = TypeVar("_Args")
_Told = TypeVar("_Told")

_STARTED = "has started meanwhile"


@dataclass(frozen=True, slots=True)
class Hooks:
    """What only the engine as a whole can do."""

    held: str
    """What to say of run options that an earlier start has said."""
    stop: Callable[[bool, bool, str], None]
    """(tasks too, at once, who asks: "" for the command)."""
    start: Callable[[], Sequence[str]]
    """Take up what is new in the file; returns what was to be warned of when the deck was opened."""
    apply: Callable[[Mapping[str, Any]], Awaitable[Any]]
    change: Callable[[ChangeArgs], Awaitable[str]]
    """Other run options; returns what has become other, in words."""
    give: Callable[[Mapping[str, Mapping[str, str]], bool], Awaitable[Mapping[str, Given]]]
    """Values of variables for tasks, by name, in the place of the file's; whether only to look. Returns what
    becomes of them."""
    select: Callable[[Sequence[str]], Awaitable[None]]
    """Take tasks in that the selection leaves out."""
    variables: Callable[[], Mapping[str, str]]
    """[vars] of the file, as text."""
    taken: Callable[[], Awaitable[None]]
    """Returns when what was posted has been acted on and the facts of it are on disk, if the disk takes them."""
    written: Callable[[], Awaitable[None]]
    """The same, and attempt-N.json of all that has ended tells how."""
    clients: Callable[[], int]
    """How many are attached, whoever asks among them."""


class Requests:
    """Handles requests of one engine. On the loop's thread."""

    def __init__(
        self, deck: Deck, view: DeckView, attempts: Attempts, clock: Clock, post: Sink, index_of: Mapping[str, int],
        hooks: Hooks,
    ) -> None:  # fmt: skip
        self._deck = deck
        self._view = view
        self._attempts = attempts
        self._clock = clock
        self._post = post
        self._index_of = index_of
        self._hooks = hooks
        self._one_retry = asyncio.Lock()
        self._undoing = Undoing(deck, self._post_and_wait)
        self._graphs = Graphs(deck)

    async def handle(self, request: Request) -> Any:
        """Returns the result, ready for JSON. Raises UsageError for what the caller can mend."""
        args = request.args
        match request.op:
            case "status":
                return self._status()
            case "cluster":
                self._to(NoArgs, args)
                return msgspec.to_builtins(await self._view.fresh_cluster())
            case "written":
                self._to(NoArgs, args)
                await self._hooks.written()
                return {}
            case "options":
                return {"options": self._deck.run.options, "held": self._hooks.held}
            case "select":
                selectors = self._to(SelectArgs, args).select
                return [task.name for task in await select_in_turns(self._deck, selectors, self._index_of)]
            case "rows":
                return await self._in_turns(self._to(TasksArgs, args).tasks, self._row)
            case "explain":
                names = self._to(TasksArgs, args).tasks
                return dict(await self._in_turns(names, lambda task: (task.name, self._obstacles(task))))
            case "want":
                names = self._to(TasksArgs, args).tasks
                at = self._clock.now().boot_s
                return [msgspec.to_builtins(want(self._deck, task, at)) for task in self._tasks(names)]
            case "offer":
                return await self._offer(whole=self._to(OfferArgs, args).whole)
            case "preempt":
                asked = self._to(PreemptArgs, args)
                preempt = Preempt(asked.tokens, asked.by)
                self._post(preempt)
                await self._hooks.taken()
                return {"tasks": preempt.did}
            case "show":
                return await self._in_turns(self._to(TasksArgs, args).tasks, self._details)
            case "retry":
                halted = "" if self._deck.run.ended else self._deck.run.halted
                asked = self._to(RetryArgs, args)
                async with self._one_retry:  # values are for what has ended, and not what another one has just let go
                    reply = await self._retry(asked)
                note = "" if asked.dry_run else self._note() or self._of_halt(halted)
                return reply if asked.dry_run else {**reply, "note": note or reply["note"]}
            case "cancel" | "kill" | "hold" | "release" | "accept" as verb:
                given = self._to(TasksArgs, args)
                if verb in ("cancel", "hold"):
                    await self._take_in(given.tasks)
                same = self._same_work(given.tasks) if verb in ("cancel", "kill") else None
                reply = await self._verb(Verb(verb, self._names(given.tasks), by=given.by))
                note = self._note() if verb == "release" else same
                return reply if note is None else {**reply, "note": note}
            case "priority":
                chosen = self._to(PriorityArgs, args)
                return await self._verb(Verb("priority", self._names(chosen.tasks), chosen.value, by=chosen.by))
            case "pause" | "unpause" as verb:
                return await self._verb(Verb(verb, by=self._to(PauseArgs, args).by))
            case "undo":
                asked = self._to(UndoArgs, args)
                return msgspec.to_builtins(await self._undo(asked))
            case "timeline":
                span = self._to(TimelineArgs, args)
                return await timeline(self._deck, span, self._index_of, self._clock.now().wall_s)
            case "graph":
                self._to(NoArgs, args)
                return await self._graphs.graph(self._clock.now().boot_s)
            case "errors":
                most = self._to(FailuresArgs, args)
                return await failures(self._deck, most, self._attempts.running.paths, self._index_of)
            case "gpu":
                return await self._gpu(self._to(GpuArgs, args))
            case "change":
                return await self._change(self._to(ChangeArgs, args))
            case "apply":
                return await self._apply(args)
            case "start":
                self._to(NoArgs, args)
                warnings = self._hooks.start()
                await self._hooks.taken()
                return {"warnings": warnings}
            case "stop":
                ending = self._to(StopArgs, args)
                self._hooks.stop(ending.tasks, ending.now, ending.by)
                return {}
            case _:
                raise UsageError(f"this engine knows no request {request.op!r}: it may be older than the command")

    def _to(self, kind: type[_Args], args: Mapping[str, Any]) -> _Args:
        try:
            return msgspec.convert(args, kind)
        except msgspec.ValidationError as error:
            raise UsageError(f"bad arguments: {error}") from error

    def _names(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(task.name for task in self._tasks(names))

    def _tasks(self, names: Sequence[str]) -> list[Task]:
        unknown = [name for name in names if name not in self._deck.by_name]
        if unknown:
            raise UsageError(f"{unknown[0]}: no such task in this deck")
        return [self._deck.by_name[name] for name in names]

    # -- looking ------------------------------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        head, gpus = msgspec.to_builtins(self._view.head(anew=True)), msgspec.to_builtins(self._view.gpus())
        return {"head": head, "gpus": gpus, "clients": self._hooks.clients()}

    async def _in_turns(self, names: Sequence[str], tell: Callable[[Task], _Told]) -> list[_Told]:
        """What is to be told of each task, without holding up the loop; of tasks that go meanwhile nothing."""
        self._tasks(names)
        return [tell(task) async for name in in_turns(names, TOLD_AT_ONCE) if (task := self._deck.by_name.get(name))]

    def _row(self, task: Task) -> Any:
        return msgspec.to_builtins(self._view.rows([task.index])[0])

    def _obstacles(self, task: Task) -> Any:
        at = self._clock.now().boot_s
        return [msgspec.to_builtins(obstacle) for obstacle in explain(self._deck, task, at, hour)]

    async def _offer(self, *, whole: bool) -> Any:
        """What a more urgent task could have, and at which price."""
        able = candidates(self._deck)
        when = {attempt.token: task.spec.on_card(attempt.card_mib).resume for task, attempt in able}
        changed = await self._attempts.changed({token: each.when for token, each in when.items() if each is not None})
        lost_s = {
            attempt.token: lost
            for task, attempt in candidates(self._deck)
            if (lost := work_lost_s(task, attempt, changed.get(attempt.token), self._clock.now().wall_s)) is not None
        }
        return msgspec.to_builtins(offer(self._deck, lost_s, whole=whole))

    def _details(self, task: Task) -> Any:
        at, attempts, variables = self._clock.now().boot_s, self._attempts, self._hooks.variables()
        found = details_of(self._deck, task, attempts.running.paths, self._index_of, at, attempts.planner, variables)
        return msgspec.to_builtins(found)

    # -- acting -------------------------------------------------------------------------------------------------------

    async def _post_and_wait(self, verb: Verb) -> None:
        self._post(verb)
        await self._hooks.taken()

    async def _verb(self, verb: Verb) -> dict[str, Any]:
        act, tasks = new_act(), self._tasks(verb.tasks)
        await self._post_and_wait(replace(verb, act=act))
        done = set(verb.did)
        left = {task.name: _why_left(verb.verb, task) for task in tasks if task.name not in done}
        changed = [name for name in verb.tasks if name in done]
        return {"tasks": changed, "left": left, "undo": self._undoing.can(act)}

    def _note(self) -> str:
        """Why what was just let go does not start; "" where nothing is in the way."""
        paused = "the deck is paused: nothing starts until `gpudeck unpause`" if self._deck.paused else ""
        return paused or barred_text(self._view.head())

    def _same_work(self, names: Sequence[str]) -> str:
        """Of tasks that are to be ended, what else does their work or will, because the file has it by another name
        now; "" for nothing."""
        running = [(task, attempt) for task in self._deck.active.values() if (attempt := task.attempt()) is not None]
        works = {each.fingerprint for task, each in running if task.gone or task.spec.fingerprint != each.fingerprint}
        waiting = [task for task in self._deck.tasks if works and task.spec.fingerprint in works]
        pairs = [(task.name, other.name) for task in waiting if (other := doing(self._deck, task)) is not None]
        heirs = [heir for heir, other in pairs if other in names and heir not in names]
        doers = [other for heir, other in pairs if heir in names and other not in names]
        starts, runs = ("starts", "runs") if len(heirs or doers) == 1 else ("start", "run")
        told = f"{names_text(heirs)} {starts} next with the same work" if heirs else ""
        told = told or (f"{names_text(doers)} {runs} on with the same work" if doers else "")
        return f"{told}: cancel {'it' if len(heirs or doers) == 1 else 'them'}, too, to be rid of it" if told else ""

    def _of_halt(self, lifted: str) -> str:
        """What a retry means for what a halt has left. *lifted*: what halted the run until now."""
        if lifted:
            return f"the run goes on, which was halted by {lifted}: what that had left starts, too"
        before = self._deck.run.halted_before
        return f"the run before was halted by {before}: `gpudeck unpause` starts what that has left" if before else ""

    async def _retry(self, args: RetryArgs) -> dict[str, Any]:
        if not args.dry_run:
            await self._take_in(args.tasks)
        tasks = self._tasks(args.tasks)
        gone = [task for task in tasks if task.gone and task.attempt() is None]
        if gone and len(gone) == len(tasks):
            raise UsageError(f"{gone[0].name} has left the task file: nothing runs it again")
        if not args.dry_run:
            refuse_left_out(tasks)
        may = (*FINAL, Backoff, Unknown, *((Waiting, Blocked) if self._deck.run.ended else ()))
        stuck = [task for task in tasks if not isinstance(task.phase, may)]
        if stuck and len(stuck) == len(tasks):
            state = NAMES[type(stuck[0].phase)]
            raise UsageError(f"{stuck[0].name} {stands(state)}: only what has ended can be retried")
        _check_env(args.env)
        not_on = tuple(self._uuid(text) for text in args.not_on)
        ended = [task for task in tasks if isinstance(task.phase, may)] if args.set else ()
        before = {task.name: dict(task.spec.given) for task in ended}
        given = await self._give(before, args) if before else {}
        started = [name for name in before if name not in given]
        if started and len(started) == len(tasks):
            raise UsageError(f"{started[0]} {_STARTED}: only what has ended can be retried")
        if args.dry_run:
            return {"given": given}
        again = RetryOptions(
            fresh=args.fresh,
            env=tuple(args.env.items()),
            not_on=not_on,
            changed=args.changed,
        )
        had = {name: tuple(sorted(before[name].items())) for name in given}
        names = tuple(name for name in args.tasks if name not in started)
        verb = Verb("retry", names, by=args.by, again=again, downstream=args.downstream, given_before=had)
        lost = dict.fromkeys(name for task in tasks for name, _ in task.again.env if name not in args.env)
        reply = await self._verb(verb)
        reply["left"] |= dict.fromkeys(started, _STARTED)
        reply["note"] = f"without {names_text(list(lost))}, which an earlier retry had set" if lost else ""
        return {**reply, "given": given} if given else reply

    async def _undo(self, asked: UndoArgs) -> Undone:
        async with self._one_retry:
            act = self._deck.acts.get(asked.undo)
            undone = await self._undoing.undo(asked.undo, asked.by)
            before = act.tasks if act is not None else {}
            moved = {name: one for name in undone.tasks if isinstance(one := before.get(name), Moved)}
            if back := {name: dict(one.given) for name, one in moved.items() if one.given is not None}:
                started = back.keys() - await self._hooks.give(back, False)
                kept = [f"{name} {_STARTED} with the values" for name in sorted(started)]
                undone = replace(undone, text="; ".join([undone.text, *kept]))
            return undone

    async def _give(self, before: Mapping[str, Mapping[str, str]], args: RetryArgs) -> dict[str, Any]:
        """What `set` makes of these tasks: their commands before and then, and what differs."""
        told = {name: self._attempts.planner.command(self._deck.by_name[name]) for name in before}
        values = {name: {**given, **args.set} for name, given in before.items()}
        changed = await self._hooks.give(values, args.dry_run)
        await self._hooks.taken()
        found: dict[str, Any] = {}
        for name, (was, now) in changed.items():
            after = self._attempts.planner.command(self._deck.by_name[name], now)
            differs = changes(was.work, now.work)
            found[name] = {"before": told[name], "after": after, "changes": differs}
        return found

    async def _take_in(self, names: Sequence[str]) -> None:
        """A selection ends with its run: those that it left out are taken in."""
        out = [task.name for task in self._tasks(names) if is_left_out(task)]
        if out and self._deck.run.ended:
            await self._hooks.select(out)
            await self._hooks.taken()

    async def _change(self, args: ChangeArgs) -> dict[str, Any]:
        text = await self._hooks.change(args)
        await self._hooks.taken()
        return {"options": self._deck.run.options, "text": text}

    async def _apply(self, args: Mapping[str, Any]) -> Any:
        told = await self._hooks.apply(args)
        if not args.get("dry_run"):
            await self._hooks.taken()
        return told

    async def _gpu(self, args: GpuArgs) -> Any:
        if args.verb not in ("drain", "enable", "take"):
            raise UsageError(f"{args.verb}: a GPU can be drained, enabled or taken")
        uuids = [self._uuid(text) for text in args.gpus]
        act = new_act()
        for uuid in uuids:
            self._post(GpuVerb(args.verb, uuid, act))
        await self._hooks.taken()
        return {"gpus": [self._index_of.get(uuid, -1) for uuid in uuids], "undo": self._undoing.can(act)}

    def _uuid(self, text: str) -> str:
        for uuid in self._deck.gpus:
            if text == uuid or text == str(self._index_of.get(uuid)):
                return uuid
        if self._deck.cluster:
            raise UsageError(f"GPU {text}: this deck runs on Slurm, which gives out its GPUs; `scontrol` drains nodes")
        known = ", ".join(sorted(str(self._index_of[uuid]) for uuid in self._deck.gpus if uuid in self._index_of))
        raise UsageError(f"GPU {text}: this deck uses " + (known or "no GPU"))


def _why_left(verb: str, task: Task) -> str:
    """Why a verb did nothing to a task."""
    if not (task.selected or task.attempt()):
        return "has left the task file" if task.gone else "is left out of this run (--only, --exclude or --limit)"
    match verb:
        case "hold" if task.held:
            return "is held already"
        case "release":
            return "is not held"
        case "priority":
            return f"has priority {task.priority} already"
        case "accept":
            return "has nothing to accept"
        case _:
            return stands(NAMES[type(task.phase)])


def _check_env(env: Mapping[str, str | None]) -> None:
    """What no process can have in its environment, or only gpudeck gives. Raises UsageError."""
    for name, value in env.items():
        try:
            refuse_own(name)
        except BadValueError as error:
            raise UsageError(f"env: {error.words}") from None
        if not name or "=" in name or "\0" in name:
            raise UsageError(f"env: {name!r} is no name of a variable")
        if value is not None and "\0" in value:
            raise UsageError(f"env: the value of {name} has a NUL character")
