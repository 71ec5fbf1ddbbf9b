"""Defects that are planted one at a time, each of which simulated worlds must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

from gpudeck.engine.core.deck import Deck, Past, Task
from gpudeck.engine.core.events import Fact, Fate, GpuMarked, OptionsChanged, Outcome, TaskHeld
from gpudeck.engine.core.inputs import TreeGone
from gpudeck.engine.core.readings import GpuReading
from gpudeck.engine.core.retry import Decision
from gpudeck.engine.core.spec import DeckFile, Policy, TaskSpec
from gpudeck.engine.errors import EngineEndingError
from gpudeck.engine.ports import Known
from tests.inside.sim import (
    Choices,
    Client,
    DeckView,
    Ending,
    Ends,
    LiveFile,
    Loop,
    Pictures,
    Requests,
    Serving,
    Turn,
    Undoing,
    apply_acts,
    apply_module,
    core_attempts,
    dispatch,
    end,
    fit,
    handover,
    loading,
    loop,
    preempt,
    reading,
    step,
)
from tests.sim.claims import SimClaims
from tests.sim.journal import SimJournal
from tests.sim.launcher import SimLauncher

_Patch = AbstractContextManager[Any]


def _instead(where: object, name: str, make: Callable[[Any], Any]) -> Callable[[], _Patch]:
    """A context in which something is what *make* makes of it."""
    return lambda: mock.patch.object(where, name, make(getattr(where, name)))


def _reads(**other: object) -> Callable[[Any], Any]:
    """Readings of GPUs that say something else."""
    return lambda observe: lambda gpu, reading, *rest, **more: observe(gpu, _other(reading, other), *rest, **more)


def _other(reading: GpuReading, other: Mapping[str, Any]) -> GpuReading:
    return replace(reading, **other)


def _forgets(**keys: object) -> Callable[[Any], Any]:
    """A task file of which some keys are lost on the way."""

    def made(deck_of: Callable[[DeckFile, object], Deck]) -> Callable[[DeckFile, object], Deck]:
        def without(file: DeckFile, gpus: object) -> Deck:
            return deck_of(replace(file, tasks=tuple(_without(spec, keys) for spec in file.tasks)), gpus)

        return without

    return made


def _without(spec: TaskSpec, keys: Mapping[str, Any]) -> TaskSpec:
    of_resources = {key: value for key, value in keys.items() if key == "max_parallel"}
    rest = {key: value for key, value in keys.items() if key not in of_resources}
    return replace(spec, resources=replace(spec.resources, **of_resources), **rest)


def _no_kill(stop: Callable[..., None]) -> Callable[..., None]:
    return lambda launcher, token, **how: stop(launcher, token, **{**how, "grace_s": 1e9})


def _never_ran(recover: Callable[..., Fate]) -> Callable[..., Fate]:
    def forgetful(launcher: SimLauncher, known: Known) -> Fate:
        launcher._soon(lambda: launcher._sink(TreeGone(known.token, launcher._box.now, never_ran=True)))
        return "never ran"

    return forgetful


def _slot_with_leader(tell: Callable[..., None]) -> Callable[..., None]:
    def early(launcher: SimLauncher, token: str) -> None:
        tell(launcher, token)
        told = launcher._followed.get(token)
        if told is not None and "leader" in told and "tree" not in told:
            told.append("tree")
            launcher._release()
            launcher._sink(TreeGone(token, launcher._box.now))

    return early


def _at_once(submit: Callable[..., None]) -> Callable[..., None]:
    def unsynced(
        journal: SimJournal, facts: Sequence[Fact], *, durable: bool, done: Any = None, keep: bool = False
    ) -> None:
        submit(journal, facts, durable=durable, keep=keep)
        if done is not None:
            done(None)

    return unsynced


def _next_failed(decide: Callable[..., Decision]) -> Callable[..., Decision]:
    def final(*given: Any, **more: Any) -> Decision:
        decision = decide(*given, **more)
        return replace(decision, next="failed") if decision.next == "backoff" else decision

    return final


def _one_too_high(examine: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def high(*given: Any, **more: Any) -> Outcome:
        outcome = examine(*given, **more)
        return outcome if outcome.ok else replace(outcome, exit_code=(outcome.exit_code or 0) + 1)

    return high


def _no_holds(apply: Callable[..., None]) -> Callable[..., None]:
    return lambda deck, fact: None if isinstance(fact, TaskHeld) else apply(deck, fact)


def _forgets_at_once(written: object) -> Callable[..., None]:
    def early(ends: Ends, paths: Sequence[str]) -> None:
        for path in paths:
            if path in ends._unwritten:
                ends._launcher.forget(ends._unwritten.pop(path))

    return early


def _answered_at_once(_: object) -> Callable[[Loop], Any]:
    async def taken(self: Loop) -> None:
        await asyncio.sleep(0)

    return taken


def _taken_for_done(taken: Callable[[Loop], Any]) -> Callable[[Loop], Any]:
    async def even_at_the_end(self: Loop) -> None:
        with suppress(EngineEndingError):
            await taken(self)

    return even_at_the_end


def _told_of_all(verb: Callable[..., Any]) -> Callable[..., Any]:
    async def of_all(self: Requests, asked: Any) -> dict[str, Any]:
        return {**await verb(self, asked), "tasks": list(asked.tasks), "left": {}}

    return of_all


def _next_ones(tasks: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def others(self: Requests, names: Sequence[str]) -> list[Any]:
        of_all = self._deck.tasks
        return [of_all[(task.index + 1) % len(of_all)] for task in tasks(self, names)]

    return others


def _without_marks(gpu_fact: Callable[..., None]) -> Callable[..., None]:
    return lambda deck, fact: None if isinstance(fact, GpuMarked) else gpu_fact(deck, fact)


def _without_options(apply: Callable[..., None]) -> Callable[..., None]:
    return lambda deck, fact: None if isinstance(fact, OptionsChanged) else apply(deck, fact)


def _without_values(moved: Callable[..., Any]) -> Callable[..., Any]:
    return lambda task, *_: moved(task)


def _no_values(holding: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a: replace(holding(*a), retried={})


def _said_to_be_back(undo: Callable[..., Any]) -> Callable[..., Any]:
    async def said(self: Any, name: str, by: str) -> Any:
        done = await undo(self, name, by)
        return replace(done, tasks=(*done.tasks, *done.left), left={})

    return said


def _without_buffer(received: Callable[..., None]) -> Callable[..., None]:
    def forgetful(client: Client, data: bytes) -> None:
        client._buffer.clear()
        received(client, data)

    return forgetful


def _forgets_since(flush: Callable[..., None]) -> Callable[..., None]:
    def forgetful(pictures: Pictures) -> None:
        flush(pictures)
        for client in pictures._clients:
            client.since = set()

    return forgetful


def _applies_removals(_: object) -> Callable[..., Any]:
    async def all_of_it(self: LiveFile, reading: Any, plan: Any) -> Any:
        self._tell(await self._perform(reading, Choices()))
        return await self._planned(reading)

    return all_of_it


def _nothing_moved(_: object) -> Callable[[DeckView], set[int]]:
    def changed(view: DeckView) -> set[int]:
        view._deck.moved.clear()
        return set()

    return changed


def _without_disk(deck_of: Callable[[DeckFile, object], Deck]) -> Callable[[DeckFile, object], Deck]:
    return lambda file, gpus: deck_of(replace(file, settings=replace(file.settings, disk_mib=None)), gpus)


def _charged_for_making_way(decide: Callable[..., Decision]) -> Callable[..., Decision]:
    def charged(task: Task, attempt: object, outcome: Outcome, **more: Any) -> Decision:
        decision = decide(task, attempt, outcome, **more)
        return replace(decision, charged=decision.charged or outcome.reason == "preempted")

    return charged


def _always(answer: bool) -> Callable[[Any], Callable[..., bool]]:
    return lambda _: lambda *_: answer


def _nothing(_: object) -> Callable[..., None]:
    return lambda *_: None


PLANTED: dict[str, Callable[[], _Patch]] = {
    "a start is done before its fact is written": lambda: mock.patch.object(loop, "_PASSING", (object,)),
    "the journal says that it has synced, and has not": _instead(SimJournal, "submit", _at_once),
    "a full disk is not minded": _instead(Loop, "_unwritten", lambda _: lambda self, step, _error: self._finish(step)),
    "GPUs of other decks are taken": _instead(SimLauncher, "_others", lambda _: lambda *_: {}),
    "a task that is next asks for no GPU": _instead(dispatch, "_wanted_next", lambda _: lambda *_: set()),
    "what is asked for by a task that is next is not left": _instead(SimClaims, "_left", lambda _: lambda *_: {}),
    "what runs is taken for what never began": _instead(SimLauncher, "_recover", _never_ran),
    "a slot is free when the leader has ended": _instead(SimLauncher, "_tell", _slot_with_leader),
    "no KILL follows": _instead(SimLauncher, "stop", _no_kill),
    "failures cost no retry": _instead(
        core_attempts, "decide", lambda decide: lambda *a, **k: replace(decide(*a, **k), charged=False)
    ),
    "the first failure is final": _instead(core_attempts, "decide", _next_failed),
    "timeouts are not armed": _instead(core_attempts, "arm_timeout", lambda _: lambda *_, **__: None),
    "every end is a success": _instead(end, "examine", lambda _: lambda *_, **__: Outcome("ok", 0)),
    "exit codes are one too high": _instead(end, "examine", _one_too_high),
    "holds are forgotten by the next engine": _instead(apply_module, "apply", _no_holds),
    "lost GPUs are used": _instead(step, "observe", _reads(lost="")),
    "GPUs of other people are used": _instead(step, "observe", _reads(processes=(), used_mib=0)),
    "needs are not waited for": _instead(loading, "deck_of", _forgets(needs=())),
    "rounds are not waited for": _instead(loading, "deck_of", _forgets(round=0)),
    "max_parallel is not kept": _instead(loading, "deck_of", _forgets(max_parallel=None)),
    "retries are forgotten": _instead(loading, "deck_of", _forgets(policy=Policy(retries=0))),
    "clients are not told of what moves": _instead(
        DeckView, "changed", lambda _: lambda self: self._deck.moved.clear() or set()
    ),
    "a request is answered before it is on disk": _instead(Loop, "taken", _answered_at_once),
    "an engine that ends says that it was done": _instead(Loop, "taken", _taken_for_done),
    "a reply says that all was done": _instead(Requests, "_verb", _told_of_all),
    "a verb is done to other tasks": _instead(Requests, "_tasks", _next_ones),
    "holds are not written": _instead(
        Turn, "record", lambda record: lambda turn, fact: None if isinstance(fact, TaskHeld) else record(turn, fact)
    ),
    "what is left is said to be taken back": _instead(Undoing, "undo", _said_to_be_back),
    "half a request is forgotten": _instead(Client, "data_received", _without_buffer),
    "what changes during a picture is not told": _instead(Pictures, "flush", _forgets_since),
    "an edited deck is not shown anew": _instead(Pictures, "renew", _nothing),
    "a reply comes before what it led to is shown": _instead(
        Pictures, "flush", lambda flush: lambda self: self._loop.call_later(0.05, flush, self) and None
    ),
    "a socket that was removed stays so": _instead(Serving, "_look", lambda _: lambda self: self._look_later()),
    "other options are forgotten": _instead(apply_module, "apply", _without_options),
    "values of a retry are lost with their engine": _instead(loading, "holding", _no_values),
    "values of a retry stay when it is taken back": _instead(
        apply_acts, "moved", lambda moved: lambda task, *_: moved(task)
    ),
    "other options change nothing": _instead(reading, "under", lambda _: lambda file, _options, _look: file),
    "what a run leaves out runs": _instead(
        loading, "deck_of", lambda deck_of: lambda file, gpus: deck_of(replace(file, selected=None), gpus)
    ),
    "the taken file is not kept": _instead(handover, "keep_file", _nothing),
    "an edit is taken up by whatever brings an engine": _instead(loading, "as_taken", _nothing),
    "what is gone from the file goes unasked": _instead(LiveFile, "_apply_what_may_be", _applies_removals),
    "an engine stays for ever": _instead(Ending, "consider", _always(False)),
    "an engine ends with work left": _instead(Ending, "_stands_still", _always(True)),
    "a stop of the tasks ends nothing": _instead(Ending, "stop", _nothing),
    "drained GPUs are used": _instead(apply_module, "gpu_fact", _without_marks),
    "what runs is not waited for under its new name": _instead(dispatch, "doing", _nothing),
    "a task is judged anew by each engine": _instead(step, "is_known", _always(False)),
    "hours mean nothing": _instead(fit, "hours_obstacle", _nothing),
    "a budget means nothing": _instead(fit, "spent_budget", _nothing),
    "what has left the file costs nothing": _instead(Past, "over", lambda _: lambda *_: 0),
    "a disk without room is started on": _instead(loading, "deck_of", _without_disk),
    "what has nothing to go on from makes way": _instead(preempt, "_may_yield", _always(True)),
    "making way costs a try": _instead(core_attempts, "decide", _charged_for_making_way),
    "a record goes before the end is on disk": _instead(Ends, "written", _forgets_at_once),
}

KNOWN: Mapping[str, Sequence[int]] = {
    "a task that is next asks for no GPU": (187,),
    "what is asked for by a task that is next is not left": (187,),
    "an engine that ends says that it was done": (2660, 944, 946),
    "what has left the file costs nothing": (1101, 1333),
    "what changes during a picture is not told": (151,),
    "other options are forgotten": (3147,),
    "values of a retry stay when it is taken back": (700,),
    "other options change nothing": (60,),
    "what a run leaves out runs": (69,),
    "what runs is not waited for under its new name": (613, 740),
}
"""Worlds that notice what few do: to look at them first is quicker. `python -m tests.sim --planted` begins at 1."""
