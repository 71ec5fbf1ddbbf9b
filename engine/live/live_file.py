"""The task file of a deck that runs: watched, its edits shown as a plan, applied on request or by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Literal

import msgspec

from ..core.deck import Deck
from ..core.phases import FINAL
from ..core.spec import DeckFile, TaskSpec
from ..decks import handover
from ..decks.opening import OpenDeck
from ..decks.options import changed, decode, taking_in
from ..errors import DeckError, EngineEndingError, EngineUnavailableError, UsageError
from ..loop import Loop
from ..taskfile.options import RunOptions
from . import words
from .apply import Applier, HasStartedError
from .change import ChangeArgs, text_of
from .looking import Looking
from .plan import Applied, Choices, FilePlan, Finished, Running, as_they_stand, make_plan
from .reading import Given, Reader, Reading
from .worker import Worker

_RULES = (
    "priority",
    "next",
    "round",
    "group",
    "barrier",
    "needs",
    "after",
    "tags",
    "entry",
    "params",
    "position",
    "line",
)


def without_changes_of_running(reading: Reading, plan: FilePlan, deck: Deck) -> Reading:
    """The same file, with the tasks that run as they are, but for their order among others."""
    running = {change.name for change in plan.changed_running}

    def as_it_is(spec: TaskSpec) -> TaskSpec:
        rules: dict[str, Any] = {name: getattr(spec, name) for name in _RULES}
        return replace(deck.by_name[spec.name].spec, **rules)

    tasks = tuple(as_it_is(spec) if spec.name in running else spec for spec in reading.file.tasks)
    return replace(reading, file=replace(reading.file, tasks=tasks, text=""))


def with_only(reading: Reading, opened: OpenDeck, names: frozenset[str]) -> Reading:
    """The file as the deck has it, and those new tasks of the reading that *names* has, whatever is selected. Raises
    UsageError for half of a rename that nobody has applied: the other half would run beside it."""
    old = opened.file
    have = {spec.name for spec in old.tasks}
    added = [spec for spec in reading.file.tasks if spec.name in names and spec.name not in have]
    works = {spec.name: spec.fingerprint for spec in reading.file.tasks}
    yet_to_end = (spec for spec in old.tasks if not isinstance(opened.deck.by_name[spec.name].phase, FINAL))
    moved = {spec.fingerprint: spec.name for spec in yet_to_end if works.get(spec.name) != spec.fingerprint}
    if (half := next((spec for spec in added if spec.fingerprint in moved), None)) is not None:
        other = moved[half.fingerprint]
        raise UsageError(
            f"{half.name} is the work of {other}, which the file has no more as such: `gpudeck apply` first"
        )
    placed = (replace(spec, position=len(old.tasks) + place) for place, spec in enumerate(added))
    shards = {entry: count for entry, count in reading.file.fixed_shards.items() if entry not in old.fixed_shards}
    file = replace(
        old,
        tasks=(*old.tasks, *placed),
        selected=None if old.selected is None else old.selected | {spec.name for spec in added},
        fixed_shards={**old.fixed_shards, **shards},
    )
    before = decode(opened.options)
    options = taking_in(before, [spec.name for spec in added])
    return replace(reading, file=file, options=options if options != before else None)


Mode = Literal["ask", "auto", "off"]

LOOK_S = 1.0
"""How often it is seen how the tasks of a plan stand; of a large plan less often."""
PROBLEMS = 10
"""Lines of a broken file that are shown."""


def mode_of(file: DeckFile, *, headless: bool) -> Mode:
    """What edits do. Without a screen nothing, unless the file says otherwise: nobody is there to be asked."""
    return file.settings.reload if not headless or "reload" in file.places else "off"


class LiveFile:
    """Of one open deck. On the loop's thread; what touches the file runs in a thread of its own."""

    def __init__(
        self,
        opened: OpenDeck,
        loop: Loop,
        *,
        note: Callable[[str, str], None],
        changed: Callable[[], None],
        applied: Callable[[], None],
        headless: bool,
    ) -> None:
        """*note* (text, level) tells the user; *changed*: `pending` differs; *applied*: the deck has become another,
        with other indexes, called before anything else happens to it."""
        self._opened = opened
        self._note = note
        self._changed = changed
        self._applied = applied
        self._headless = headless
        self.mode: Mode = mode_of(opened.file, headless=headless)
        """What edits do, as the file said when it was read last."""
        self._worker = Worker(opened.file.shown)
        self._reader = Reader(opened, opened.chosen_by)
        self._applier = Applier(opened, loop, self._worker)
        self._one_at_a_time = asyncio.Lock()
        self.pending: FilePlan | None = None
        """What an edit waits to be applied for."""
        self._looking = Looking(
            opened.file.path, self._worker, edited=self._edited, unreadable=self._unreadable, failed=self._failed
        )
        self.problem = ""
        """Why the file as it is now cannot be used, one line; "" while it can."""
        self._now = asyncio.get_running_loop().time
        self._summary = ""
        self._next_look = 0.0

    @property
    def summary(self) -> str:
        """The pending plan in one line, with tasks as they stood a moment ago; "" when nothing waits."""
        now = self._now()
        if self.pending is not None and now >= self._next_look:
            self._summary = words.summary(as_they_stand(self._opened.deck, self.pending))
            self._next_look = now + max(LOOK_S, LOOK_S * 100 * (self._now() - now))
        return "" if self.pending is None else self._summary

    def start(self) -> None:
        """Begin to watch; what was edited since the deck was opened is found, too. Where edits are to do nothing only
        the kernel is asked to tell of them: one of them may say that they are to do something from now on."""
        self._looking.start(self._opened.file.digest, only_if_told=self.mode == "off")

    def close(self) -> None:
        self._looking.close()
        self._worker.close()

    # -- on request ---------------------------------------------------------------------------------------------------

    async def plan(self) -> FilePlan | None:
        """What applying the file as it is now would do; None: nothing. Raises DeckError where the file is broken."""
        async with self._one_at_a_time:
            plan = await self._planned(await self._read())
            self._wait_for(plan or None)
        return plan or None

    async def apply(self, choices: Choices | None = None) -> Applied:
        """Apply the file as it is now. Raises DeckError: broken, other than agreed to, not now."""
        choices = choices or Choices()
        async with self._one_at_a_time:
            reading = await self._read()
            if choices.digest not in ("", reading.digest, reading.file.digest):
                raise UsageError(f"{reading.file.shown} was changed again since that plan: look at it anew")
            applied = await self._perform(reading, choices)
            self._looking.seen = reading.file.digest
            self._wait_for(None)
        self._tell(applied)
        return applied

    async def take_in(self, names: Collection[str]) -> Applied:
        """Apply nothing of the file but these tasks, which have just been added to it. Raises DeckError."""
        async with self._one_at_a_time:
            reading = await self._read()
            wanted = with_only(reading, self._opened, frozenset(names))
            kept = await self._worker(lambda: self._kept_with(reading, wanted, names))
            wanted = replace(wanted, file=replace(wanted.file, text=kept))
            applied = await self._perform(wanted, Choices(asked=tuple(names)))
            self._looking.seen = reading.file.digest
            self._wait_for(await self._planned(reading) or None)
        self._tell(applied)
        return applied

    def _kept_with(self, reading: Reading, wanted: Reading, names: Collection[str]) -> str:
        """A task file that says what is *wanted*, while edits wait beside what was added to the end of the file: the
        one that the deck took before, and those lines. Where that comes to something else, all of the file counts as
        taken: what was asked for must not be lost with the engine."""
        file = reading.file
        lines = file.text.split("\n")
        before = handover.kept_file(self._opened.state.path) or b""
        added = [spec.line for spec in file.tasks if spec.name in names]
        if not added:  # somebody else has saved the file meanwhile
            return before.decode()
        first = min(added)
        text = handover.with_added(before, "\n".join(lines[first - 1 :])).decode()
        with contextlib.suppress(DeckError):
            if self._reader.work_of(text) == {spec.name: spec.fingerprint for spec in wanted.file.tasks}:
                return text
        return file.text

    async def change(self, args: ChangeArgs) -> str:
        """Let the deck go on under other options; returns a line that tells what has become other, "" for nothing.
        Raises DeckError."""
        async with self._one_at_a_time:
            before = decode(self._opened.options)
            now = changed(before, args.options)
            if now == before:
                return ""
            if now.only != before.only:
                self._reader = Reader(self._opened, self._opened.journal.count)
            applied = await self._go_on_under(now)
        text = text_of(before, now, applied.plan)
        self._note(text, "info")
        return text

    async def select(self, names: Collection[str]) -> None:
        """Take these tasks in, which the selection leaves out, with what they need. Raises DeckError."""
        async with self._one_at_a_time:
            await self._go_on_under(taking_in(decode(self._opened.options), names), begins=False)

    async def give(self, values: Mapping[str, Mapping[str, str]], *, dry_run: bool) -> dict[str, Given]:
        """Let tasks that have ended have these values of variables in the place of the file's, until they are given
        others. *dry_run*: only look. Returns what becomes of them, by name; one that has started by itself meanwhile is
        not among them. Raises DeckError."""
        before = self._active()  # those of which nothing can be proven
        async with self._one_at_a_time:
            while values:
                with contextlib.suppress(HasStartedError):
                    return await self._give(values, before, dry_run=dry_run)
                values = {name: values[name] for name in values if name in before or name not in self._active()}
        return {}

    def _active(self) -> Collection[str]:
        return {task.name for task in self._opened.deck.active.values()}

    async def _give(
        self, values: Mapping[str, Mapping[str, str]], active: Collection[str], *, dry_run: bool
    ) -> dict[str, Given]:
        """Raises HasStartedError where one is active now that was not."""
        await self._applier.written()
        before = self._opened.file.tasks
        reading = await self._worker(lambda: self._reader.retried_with(values))
        pairs = zip(before, reading.file.tasks, strict=True)
        found = {now.name: (was, now) for was, now in pairs if now.name in values}
        if not dry_run and any(was != now for was, now in found.values()):
            waiting = tuple(name for name in values if name not in active)
            await self._perform(reading, Choices(finished="flag", begins=False, waiting=waiting))
            if self.pending is not None:
                await self._plan_anew()
        return found

    async def _go_on_under(self, options: RunOptions, *, begins: bool = True) -> Applied:
        await self._applier.written()
        reading = await self._worker(lambda: self._reader.under(options))
        applied = await self._perform(reading, Choices(begins=begins))
        if self.pending is not None:
            await self._plan_anew()
        return applied

    async def _plan_anew(self) -> None:
        """What waits to be applied may be another thing under other options."""
        with contextlib.suppress(DeckError):
            self._wait_for(await self._planned(await self._read()) or None)

    # -- by itself ----------------------------------------------------------------------------------------------------

    async def _edited(self, settled: str) -> bool:
        """The file has another content. False: it was changed again before it was read; nothing was done."""
        if self._opened.deck.stopping:
            return True
        try:
            return await self._take_up(settled)
        except EngineEndingError:
            raise
        except EngineUnavailableError as error:
            self._looking.seen = None
            if self.mode != "off":
                self._note(f"{self._opened.file.shown} was changed: {error}", "warning")
        except DeckError as error:
            if not await self._looking.is_still(settled):
                return False
            if self.mode == "off":
                return True
            problems = str(error).splitlines()
            self._tell_problems(problems)
            self._wait_for(None, problem=words.problem(problems, self._opened.file.path))
        return True

    def _unreadable(self, why: str, known: bool) -> None:
        if not known and self.mode != "off":
            self._note(f"{self._opened.file.shown} {why}; the deck goes on as it is", "warning")
        self._wait_for(None, problem=why if self.mode != "off" else "")

    def _failed(self, error: Exception) -> None:
        """A bug of ours must not end the engine: the deck is as it was."""
        traceback.print_exception(error)
        self._note(f"{self._opened.file.shown} was changed and could not be taken up: {error!r}", "error")

    async def _take_up(self, settled: str) -> bool:
        async with self._one_at_a_time:
            reading = await self._worker(self._reader.read)
            if reading.file.digest != settled:
                return False
            self._heed(reading)
            plan = await self._planned(reading) if self.mode != "off" else None
            if plan and self.mode == "auto":
                plan = await self._apply_what_may_be(reading, plan)
        self._wait_for(plan or None)
        if plan:
            unasked = "; this is not done unasked" if self.mode == "auto" else ""
            self._note(
                f"{plan.file} was changed: {words.summary(plan)}{unasked}. "
                "`gpudeck apply` applies it, `gpudeck apply --dry-run` shows it",
                "info",
            )
        return True

    async def _apply_what_may_be(self, reading: Reading, plan: FilePlan) -> FilePlan:
        """Apply additions and changes of what does not run. Returns what is left to be asked for.

        Where something is gone nothing is applied: it may be half of a rename, and the other half would run beside it.
        Nor is it where a new name has the work that another still runs, or is to do next, for as long as its own change
        waits.
        """
        running = {change.name for change in plan.changed_running}
        left = {self._opened.deck.by_name[name].spec.fingerprint for name in running}
        works = {spec.fingerprint for spec in reading.file.tasks if spec.name not in running}
        moved = any(other in running for _, other in plan.renamed) or bool(left & works)
        if moved or plan.gone_waiting or plan.gone_finished or plan.gone_running:
            return plan
        allowed = without_changes_of_running(reading, plan, self._opened.deck) if plan.changed_running else reading
        finished = "rerun" if "changed" in self._opened.deck.run.takes else "flag"
        waiting = tuple(change.name for change in (*plan.changed_waiting, *plan.changed_finished))  # may run by now
        try:
            applied = await self._perform(allowed, Choices(finished=finished, waiting=waiting))
        except HasStartedError:
            return await self._apply_what_may_be(reading, await self._planned(reading))
        self._tell(applied)
        return await self._planned(reading)

    # -- both ---------------------------------------------------------------------------------------------------------

    async def _read(self) -> Reading:
        """The file as it is now, and what it says of edits holds from now on. Raises DeckError."""
        reading = await self._worker(self._reader.read)
        self._heed(reading)
        return reading

    def _heed(self, reading: Reading) -> None:
        self.mode = mode_of(reading.file, headless=self._headless)
        self.start()

    async def _planned(self, reading: Reading) -> FilePlan:
        opened = self._opened
        return await self._worker(
            lambda: make_plan(opened.deck, opened.file, reading.file, reading.digest, reading.later)
        )

    async def _perform(self, reading: Reading, choices: Choices) -> Applied:
        return await self._applier.apply(reading, choices, self._applied)

    def _wait_for(self, plan: FilePlan | None, *, problem: str = "") -> None:
        if (plan, problem) != (self.pending, self.problem):
            self.pending, self.problem, self._next_look = plan, problem, 0.0
            self._changed()

    def _tell(self, applied: Applied) -> None:
        if applied.plan:
            self._note(f"{applied.plan.file} applied: {words.summary(applied.plan)}", "info")

    def _tell_problems(self, problems: list[str]) -> None:
        self._note(f"{self._opened.file.shown} was changed and cannot be used; the deck goes on as it was", "warning")
        for line in problems[:PROBLEMS]:
            self._note(line, "warning")
        if len(problems) > PROBLEMS:
            self._note(f"and {len(problems) - PROBLEMS} more problems", "warning")


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
