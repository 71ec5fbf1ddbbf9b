"""What must hold of a simulated world, told from its processes and disks; of an engine only what its deck wants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any

from gpudeck.engine.core.deck import Deck
from gpudeck.engine.core.events import (
    AttemptEnded,
    AttemptStarting,
    BoxRestarted,
    DeckPaused,
    Fact,
    GpuMarked,
    GpuQuarantined,
    Halted,
    OptionsChanged,
    Outcome,
    PointReached,
    PriorityChanged,
    RunEnded,
    RunStarted,
    StopRequested,
    TakenBack,
    TaskAccepted,
    TaskCached,
    TaskCancelled,
    TaskHeld,
    TaskRetried,
)
from gpudeck.engine.core.fit import starts_barred
from gpudeck.engine.core.phases import Queued
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.spec import Budget, DeckFile, DeckSettings, Resources, TaskSpec
from tests.inside.sim import Loaded, RunOptions, decode
from tests.sim.box import Process, Simulated

SHORTEST_S = 2.0
"""Between two queries of one kind."""
_UNABLE = 125
"""The code of a job that could execute nothing."""
LEARNED_S = 25.0
"""So long after a card was lost or somebody took it an engine knows."""


_BEGINS_S = 1.0
"""From the decision that an attempt starts to its beginning."""
_ASKED_S = 1.0
"""So long after a task that is next has asked for a GPU others know."""
RENUMBERED_S = 60.0
"""So long after a cluster has given a number out again whoever had it before knows."""

Acknowledged = Mapping[tuple[str, str, int], int | None]
"""Exit codes that observers were told of, by deck, task and attempt."""


class Broken(AssertionError):  # noqa: N818
    """A promise was not kept."""


def at_spawn(
    box: Simulated,
    files: Sequence[tuple[float, DeckFile]],
    specs: Mapping[str, Mapping[str, TaskSpec]],
    facts: list[Fact],
    new: Process,
) -> None:
    """Of an attempt that has just begun; *facts*: what is on disk then, *files*: what its deck has had, and since
    when; *specs*: every task that each deck ever had."""
    _once(box, new)
    start = _start_of(new, facts)
    decided, new.fingerprint = start.at, start.fingerprint
    taken = [file for since, file in files if since < decided][-1:] + [
        file for since, file in files if since == decided
    ]
    having = [file for file in taken if any(spec.name == new.task for spec in file.tasks)]
    meant = [file for file in having if file.selected is None or new.task in file.selected]
    if not meant:
        raise Broken(f"{_name(new)} began and its file does not have it, or it is left out")
    works = {spec.fingerprint for file in meant for spec in file.tasks if spec.name == new.task}
    if new.fingerprint not in works:
        raise Broken(f"{_name(new)} does {new.fingerprint}, and its file says {', '.join(works)}")
    if all(missing := [_missing(box, file, facts, new) for file in meant]):
        raise Broken(f"{_name(new)} began before {', '.join(sorted(missing[-1]))} had succeeded")
    if all(crowded := [_crowded(box, file.settings, specs, new) for file in meant]):
        raise Broken(f"{_name(new)} began on GPUs with {crowded[-1]}")
    hours = [spec.resources.between for file in meant for spec in file.tasks if spec.name == new.task]
    wall = box.instant().wall_s + 1.0  # clocks are read to the minute
    if all(each is not None and each.opens(wall) > wall for each in hours):
        raise Broken(f"{_name(new)} began outside of its hours, {hours[-1]}")
    if all(spent := [_spent(box, file.settings.budget, decided, new) for file in meant]):
        raise Broken(f"{_name(new)} began, and the budget of {spent[-1]:g} GPU hours was used up")
    no_room_s = 0.0 if box.no_room is None else decided - box.no_room
    if all(file.settings.disk_mib is not None for file in meant) and no_room_s > LEARNED_S:
        raise Broken(f"{_name(new)} was started, and its disk had no room for {no_room_s:.0f} s")
    marks = _marks_before(new.token, facts)
    for uuid in new.gpus:
        if marks.get(uuid) == "drain":
            raise Broken(f"{_name(new)} began on {uuid}, which is drained")
        away = box.lost.get(uuid, box.now)
        if marks.get(uuid) != "take":
            away = min(away, box.foreign.get(uuid, box.now))
        since = max(box.hung_until, away)
        if box.now - since > LEARNED_S:
            raise Broken(f"{_name(new)} began on {uuid}, which is lost or another's since {box.now - since:.0f} s")


def _crowded(box: Simulated, settings: DeckSettings, specs: Mapping[str, Mapping[str, TaskSpec]], new: Process) -> str:
    """What is wrong with its GPUs, of all that lives and under these settings."""
    given = box.gpus if settings.gpus == "all" else [f"GPU-{index}" for index in settings.gpus or ()]
    for uuid in new.gpus:
        there = [each for each in box.alive() if uuid in each.gpus]
        alone = any(specs[each.deck][each.task].resources.exclusive for each in there)
        if uuid not in given:
            return f"{uuid}, which its deck was not given"
        if len(there) > (1 if alone else settings.slots_per_gpu) or any(each.deck != new.deck for each in there):
            return f"too many holders: {', '.join(map(_name, there))}"
    return ""


def asked_for(deck: Deck, now: float) -> set[str]:
    """GPUs of which a task of this deck that is next needs one, and could have any."""
    waiting = [deck.tasks[index] for index in deck.next_tasks if isinstance(deck.tasks[index].phase, Queued)]
    if not waiting or starts_barred(deck, now) is not None or deck.settings.keep_free:
        return set()
    if not any(
        task.decided and not (task.held or task.avoid) and task.spec.resources == Resources(1) for task in waiting
    ):
        return set()
    barred = (gpu.mark or gpu.lost or gpu.unread or gpu.avoided or gpu.quarantine for gpu in deck.gpus.values())
    return {uuid for uuid, shut in zip(deck.gpus, barred, strict=True) if not shut}


def of_next(
    box: Simulated,
    deck: Deck,
    asked: Mapping[tuple[str, str], float],
    gathered: Mapping[tuple[str, str], float],
    new: Process,
) -> None:
    """Of an attempt that has just begun: no task of another deck that is next had asked for its GPU before. *deck*: its
    own; *asked*: since when each deck asks for which; *gathered*: when each last kept which for itself."""
    if deck.next_tasks or len(new.gpus) != 1:
        return
    if box.now - gathered.get((new.deck, new.gpus[0]), -1e9) < _BEGINS_S:
        return
    if any(each is not new and each.deck == new.deck and new.gpus[0] in each.gpus for each in box.alive()):
        return
    for (other, uuid), since in asked.items():
        if other != new.deck and uuid in new.gpus and box.now - since > _ASKED_S:
            raise Broken(f"{_name(new)} began on {uuid}, for which {other} had asked for {box.now - since:.1f} s")


def at_begin(box: Simulated, facts: list[Fact], new: Process) -> None:
    """Of one that was given to a cluster before, and begins now."""
    _once(box, new)
    new.fingerprint = _start_of(new, facts).fingerprint
    told = recorded(facts)
    if told.is_over((new.task, new.attempt)) or told.starts[new.task, new.attempt].token != new.token:
        raise Broken(f"{_name(new)} begins after its end was told")


def _start_of(new: Process, facts: list[Fact]) -> AttemptStarting:
    for fact in reversed(facts):
        if isinstance(fact, AttemptStarting) and fact.token == new.token:
            return fact
    raise Broken(f"{_name(new)} begins, and the journal has nothing of it")


def _tokens_before(new: Process, facts: list[Fact]) -> set[str]:
    """Of attempts that were decided before this one: on a cluster it may begin much later."""
    tokens = [fact.token for fact in facts if isinstance(fact, AttemptStarting)]
    return set(tokens[: tokens.index(new.token)])


def of_queries(who: str, program: str, since_s: float) -> None:
    """Of a cluster, which others use as well."""
    if since_s < SHORTEST_S - 1e-6:
        raise Broken(f"the engine of {who} calls {program} again after {since_s:.2f} s")


def of_cancels(who: str, job: Any, now: float) -> None:
    """*job*: what is cancelled by an engine, as the cluster has it. Of a number that was given out again engines know
    once they have seen the queue."""
    if job is not None and not job.over and job.deck != who and now - job.since > RENUMBERED_S:
        raise Broken(f"the engine of {who} cancels job {job.id} of {job.deck}")


def _once(box: Simulated, new: Process) -> None:
    if any(
        old is not new and (old.deck, old.task, old.attempt) == (new.deck, new.task, new.attempt) for old in box.started
    ):
        raise Broken(f"{_name(new)} was started twice")


def _marks_before(token: str, facts: list[Fact]) -> dict[str, str]:
    """What users had said of GPUs when this was decided."""
    marks: dict[str, str] = {}
    for fact in facts:
        if isinstance(fact, GpuMarked):
            marks[fact.gpu] = fact.mark
        elif isinstance(fact, AttemptStarting) and fact.token == token:
            break
    return marks


def _missing(box: Simulated, file: DeckFile, facts: list[Fact], new: Process) -> set[str]:
    """What has to succeed first and has not."""
    spec = next(spec for spec in file.tasks if spec.name == new.task)
    works = {other.name: other.fingerprint for other in file.tasks}
    ended = [old for old in box.started if old.deck == new.deck and not old.leader]
    good = [old for old in ended if old.code in spec.policy.success_codes]
    done = {old.task for old in good} | {old.fingerprint for old in good}
    accepted = {(fact.task, fact.fingerprint) for fact in facts if isinstance(fact, TaskAccepted)}
    done |= {work for _, work in accepted}
    done |= {fact.task for fact in facts if isinstance(fact, TaskCached)}
    earlier = {other.name for other in file.tasks if other.round < spec.round} & (file.selected or {*works})
    cancelled = {fact.task for fact in facts if isinstance(fact, TaskCancelled)}
    cancelled |= {
        fact.task for fact in facts if isinstance(fact, AttemptEnded) and fact.next in ("cancelled", "pruned")
    }
    if spec.barrier == "ended":
        then = _tokens_before(new, facts)
        alive = [old for old in box.alive() if old.deck == new.deck and old.token in then]
        live, under_way = {old.task for old in alive}, {old.fingerprint for old in alive}
        over = cancelled | {name for name, work in accepted if works.get(name) == work}
        waited_for = {name for name in earlier - over if works[name] in under_way}
        return (earlier & live) | waited_for | {name for name in spec.needs if not done & {name, works[name]}}
    return {name for name in {*spec.needs} | (earlier - cancelled) if not done & {name, works[name]}}


def _spent(box: Simulated, budget: Budget, at: float, new: Process) -> float:
    """Its GPU hours, where the deck's processes have lived for more than that by then; else 0."""

    def lived_s(old: Process) -> float:
        since_s = max(0.0, at - old.began)
        return old.lived_s if old.boot != box.boot else since_s if old.leader else min(old.lived_s, since_s)

    before = [old for old in box.started if old.deck == new.deck and old is not new]
    most = budget.gpu_hours
    over = most is not None and sum(len(old.gpus) * lived_s(old) for old in before) > most * 3600
    return most if over else 0.0


def of_a_moment(box: Simulated, specs: Mapping[str, Mapping[str, TaskSpec]], served_since: Mapping[str, float]) -> None:
    """Of all that lives. *served_since*: when the engine of each deck began, of those that have one."""
    tasks: dict[tuple[str, str], Process] = {}
    works: dict[tuple[str, str], Process] = {}
    entries: Counter[tuple[str, str]] = Counter()
    for process in box.alive():
        if (other := tasks.setdefault((process.deck, process.task), process)) is not process:
            raise Broken(f"two attempts of one task live: {_name(other)} and {_name(process)}")
        spec = specs[process.deck][process.task]
        other = works.setdefault((process.deck, process.fingerprint), process)
        mean_it = all(specs[each.deck][each.task].fingerprint == each.fingerprint for each in (process, other))
        if other is not process and not mean_it:  # two tasks of the file with the same command are two tasks
            raise Broken(f"the same work is done side by side: {_name(other)} and {_name(process)}")
        entries[process.deck, spec.entry] += 1
        if (most := spec.resources.max_parallel) is not None and entries[process.deck, spec.entry] > most:
            raise Broken(f"{entries[process.deck, spec.entry]} of {spec.entry} live, max_parallel is {most}")
        if spec.policy.timeout_s is not None and process.leader:
            late_s = spec.policy.grace_s + box.late_s
            limit_s = max([spec.policy.timeout_s, *(asks.timeout_s or 0.0 for asks in spec.on_timeout)])
            since = served_since.get(process.deck, box.now)
            if box.now > max(process.began + limit_s, since) + late_s:
                lived_s = box.now - process.began
                raise Broken(f"{_name(process)} lives {lived_s:.0f} s, its timeout is {limit_s:g} s")


def of_a_journal(
    box: Simulated,
    deck: str,
    specs: Mapping[str, TaskSpec],
    edited: Collection[str],
    facts: list[Fact],
    acknowledged: Acknowledged,
) -> None:
    """Of what is on disk when somebody opens it. *edited*: tasks that have left the file or
    were changed in it: what ends after that is not tried again."""
    told = recorded(facts)
    for (whose, task, attempt), code in acknowledged.items():
        end = told.ends.get((task, attempt)) if whose == deck else None
        if whose == deck and (end is None or end.outcome.exit_code != code):
            raise Broken(f"the end of {task} attempt {attempt} of {deck} was told ({code}) and is lost")
    for fact in facts:
        if isinstance(fact, AttemptEnded):
            _code(box, deck, fact, told.starts.get((fact.task, fact.attempt)), specs[fact.task].policy.success_codes)
    _retries(deck, specs, edited, facts)
    _judged(deck, facts)
    _made_way(deck, specs, edited, facts)
    unknown = {p.token for p in box.started if p.deck == deck} - told.tokens
    if unknown:
        raise Broken(f"{_name(box.processes[unknown.pop()])} began and the journal does not know it")


def _code(
    box: Simulated, deck: str, fact: AttemptEnded, start: AttemptStarting | None, good: Collection[int | None]
) -> None:
    process = None if start is None else box.processes.get(start.token)
    name, code = f"{fact.task} attempt {fact.attempt} of {deck}", fact.outcome.exit_code
    if process is None:
        if not fact.never_ran and not (start is not None and start.where and code in (None, _UNABLE)):
            raise Broken(f"{name} ended and never began")
        return
    if fact.never_ran and start is not None and start.where:
        raise Broken(f"{name} is said never to have run ({fact.outcome}), and ended with {process.code}")
    if code is not None and code != process.code:
        raise Broken(f"{name} ended with {process.code}, told is {code}")
    if fact.outcome.ok and process.code not in good:
        raise Broken(f"{name} ended with {process.code} and is told as done")
    if box.lives(process):
        raise Broken(f"{name} is told as ended and lives")


def _judged(deck: str, facts: Sequence[Fact]) -> None:
    """No work is judged twice at a point, nothing is stopped that none is better than, and what was stopped for that is
    neither done nor failed."""
    works: dict[tuple[str, int], str] = {}
    known: dict[tuple[str, str], float] = {}
    stopped: set[tuple[str, int]] = set()
    done: dict[str, bool] = {}
    for fact in facts:
        match fact:
            case AttemptStarting():
                works[fact.task, fact.attempt] = fact.fingerprint
                if done.pop(fact.task, False):  # it has succeeded, and is judged anew
                    known = {one: value for one, value in known.items() if one[0] != fact.task}
            case PointReached():
                one = fact.task, works[fact.task, fact.attempt]
                if one in known:
                    raise Broken(f"{fact.task} of {deck} is judged twice at {fact.point}")
                known[one] = inf if fact.value is None else fact.value
            case StopRequested(why="pruned"):
                stopped.add((fact.task, fact.attempt))
                own = known[fact.task, works[fact.task, fact.attempt]]
                if own <= min(known.values()):
                    raise Broken(f"{fact.task} of {deck} is pruned, and none is better")
            case AttemptEnded(next="pruned") if (fact.task, fact.attempt) not in stopped:
                raise Broken(f"{fact.task} of {deck} is told as pruned, and was not stopped for that")
            case AttemptEnded():
                done[fact.task] = fact.outcome.ok
            case _:
                pass


def _made_way(deck: str, specs: Mapping[str, TaskSpec], edited: Collection[str], facts: Sequence[Fact]) -> None:
    """Only what can be gone on from is stopped for a more urgent task, and that costs it no try."""
    lost = {spec.fingerprint for spec in specs.values() if spec.resume is None}
    works: dict[str, str] = {}
    for fact in facts:
        match fact:
            case AttemptStarting():
                works[fact.task] = fact.fingerprint
            case StopRequested(why="preempted") if works[fact.task] in lost and fact.task not in edited:
                raise Broken(f"{fact.task} of {deck} makes way, and has nothing to go on from")
            case AttemptEnded(outcome=Outcome(reason="preempted", detail="urgent took its place")):
                if fact.next != "cancelled" and (fact.charged or fact.next != "queued"):
                    raise Broken(f"{fact.task} of {deck} made way, and is {fact.next}")
            case _:
                pass


def _retries(deck: str, specs: Mapping[str, TaskSpec], edited: Collection[str], facts: list[Fact]) -> None:
    """No task is tried more often than it may be, none given up while it has tries left."""
    allowed = {name: spec.policy.retries for name, spec in specs.items()}
    charged: Counter[str] = Counter()
    signals: Counter[str] = Counter()
    more: Counter[str] = Counter()
    halted = False
    rungs: Counter[str] = Counter()
    """Of on_timeout."""
    began: dict[str, float] = {}
    before: dict[tuple[str, str], tuple[int, int, int]] = {}
    for fact in facts:
        if isinstance(fact, (TaskCancelled, TaskRetried)):
            before.setdefault((fact.act, fact.task), (charged[fact.task], signals[fact.task], rungs[fact.task]))
        match fact:
            case TakenBack():  # as if it had not been asked for
                charged[fact.task], signals[fact.task], rungs[fact.task] = before[fact.act, fact.task]
            case Halted():  # what failed before is not tried again
                halted = True
            case RunStarted():
                halted = False
                charged.clear()
                signals.clear()
                rungs.clear()
                began.clear()
            case GpuQuarantined():  # what failed there may be tried once more elsewhere
                more.update(fact.tasks)
            case TaskRetried():
                charged[fact.task] = signals[fact.task] = rungs[fact.task] = 0
            case AttemptStarting() if fact.timeout_rung != rungs[fact.task] and fact.task not in edited:
                raise Broken(f"{fact.task} of {deck} starts on rung {fact.timeout_rung}, of {rungs[fact.task]}")
            case AttemptStarting():
                began[fact.task] = fact.at
            case BoxRestarted():  # its clock begins anew
                began.clear()
            case StopRequested(why="timeout") if fact.task in began and fact.task not in edited:
                lasted_s, least_s = (
                    fact.at - began[fact.task],
                    specs[fact.task].asking(0, rungs[fact.task]).policy.timeout_s,
                )
                if least_s is not None and lasted_s < least_s - 1e-6:
                    raise Broken(f"{fact.task} of {deck} is stopped after {lasted_s:g} s of {least_s:g}")
            case AttemptEnded(outcome=Outcome(reason="timeout"), next="queued"):
                rungs[fact.task] += 1
                if rungs[fact.task] > len(specs[fact.task].on_timeout) and fact.task not in edited:
                    raise Broken(f"{fact.task} of {deck} takes a rung that on_timeout does not have")
            case AttemptEnded(outcome=Outcome(reason="signal")):  # a timeout too, where the engine died with the stop
                signals[fact.task] += 1
            case AttemptEnded(outcome=Outcome(reason="lost" | "oom" | "node_fail" | "preempted")) if fact.charged:
                signals[fact.task] += 1
            case AttemptEnded() if fact.outcome.reason in ("exit", "timeout") and not fact.never_ran:
                charged[fact.task] += 1
                tries, most = charged[fact.task], allowed[fact.task] + 1
                if tries > most + more[fact.task]:
                    raise Broken(f"{fact.task} of {deck} was tried {tries} times, of {most}")
                given_up = (
                    fact.next == "failed"
                    and tries + signals[fact.task] < most
                    and not halted
                    and fact.task not in edited
                )
                if given_up:
                    raise Broken(f"{fact.task} of {deck} was given up after {tries} of {most} tries")
            case _:
                pass


def of_options(name: str, loaded: Loaded, purpose: str, given: RunOptions) -> None:
    """What a run was told to go on with holds for whoever goes on with it, but for what is *given* now; which tasks, a
    headless one says anew."""
    told = ""
    for fact in loaded.past.facts:
        told = fact.options if isinstance(fact, (RunStarted, OptionsChanged)) else told
    was, now = decode(told), loaded.options
    differ = (given.gpus or was.gpus, was.slots_per_gpu) != (now.gpus, now.slots_per_gpu)
    if was.retried != now.retried:
        raise Broken(f"tasks of {name} were retried with {was.retried}, and its engine knows {now.retried}")
    if loaded.past.told.unfinished and (differ or (purpose != "headless" and was.only != now.only)):
        raise Broken(f"the run of {name} was to go on with {was}, and goes on with {now}")


def of_edits(name: str, loaded: Loaded, purpose: str, took: str) -> None:
    """Where nobody asks for the file as it is now, a run goes on with that which its last engine *took*."""
    goes_on = purpose == "resume" or (purpose in ("act", "note") and loaded.past.told.unfinished)
    if goes_on and took and loaded.file.text != took:
        raise Broken(f"an edit of {name} is taken up by an engine that came to {purpose}, and nobody asked for that")


def of_wishes(name: str, deck: Deck, facts: list[Fact]) -> None:
    """What users have set is as they set it last, as an engine knows it."""
    held: dict[str, bool] = {}
    ranked: dict[str, int] = {}
    paused = False
    for fact in facts:
        match fact:
            case TaskHeld():
                held[fact.task] = fact.held
            case PriorityChanged():
                ranked[fact.task] = fact.priority
            case DeckPaused():
                paused = fact.paused
            case RunEnded():
                held, paused = {}, False
            case _:
                pass
    if bool(deck.paused) != paused:
        raise Broken(f"{name} was {'paused' if paused else 'let go on'}, and its engine has it otherwise")
    for task in deck.tasks:
        if task.gone:
            continue
        if task.held != held.get(task.name, False):
            raise Broken(
                f"{task.name} of {name} was {'let go' if task.held else 'held'}, and its engine has it otherwise"
            )
        if task.priority != ranked.get(task.name, task.priority):
            raise Broken(
                f"{task.name} of {name} was given priority {ranked[task.name]}, its engine says {task.priority}"
            )


def _name(process: Process) -> str:
    return f"{process.task} attempt {process.attempt} of {process.deck}"
