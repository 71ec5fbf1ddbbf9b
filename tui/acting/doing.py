"""From an action to what the engine is asked: whom it is for, what is confirmed first, what is said. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...engine.protocol.states import ACTIVE, FAILED
from ...engine.protocol.verbs import ACTS, debug_env
from ...engine.protocol.wire import GpuRow, TaskRow
from ...engine.protocol.words import stands
from ...engine.text import command_text, pairs_text, plural
from ..drawing.format import clean, cut
from .actions import BY_ID


@dataclass(frozen=True, slots=True)
class Option:
    """One of the answers that a question can get."""

    id: str
    label: str
    key: str = ""
    """Letters that choose it at once; the first one is shown. What ends something that runs is never chosen by the key
    that opens its question: a key that is pressed twice, or held down, ends nothing."""
    grave: bool = False
    """It ends something that runs."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the engine is asked."""

    op: str
    args: Mapping[str, Any]
    done: str
    """What is said when the engine has done it."""


@dataclass(frozen=True, slots=True)
class OtherValues:
    """Tasks are to run again with values that are typed first."""

    names: tuple[str, ...]
    typed: str = ""
    """What stands in the line; "": what they have."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before something is done."""

    title: str
    lines: tuple[str, ...]
    answers: tuple[Option, ...]
    """The first one is harmless."""
    then: Callable[[str], Request | Question | OtherValues | None]
    """By an answer's id."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing can be done, and why."""

    text: str


Doing = Request | Question | Refusal | OtherValues


_NAMED = 8
"""So many tasks a dialog names; of more it tells the number."""
_NAME_CELLS = 24
"""A longer name is cut in an answer: it has one line in a terminal of 80 columns."""


def many(names: Sequence[str]) -> str:
    """ "train-3", or "5 tasks"."""
    return names[0] if len(names) == 1 else f"{len(names)} tasks"


def _listed(names: Sequence[str]) -> tuple[str, ...]:
    """Of several the first few by name."""
    if len(names) == 1:
        return ()
    shown = tuple(f"  {name}" for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else (*shown, f"  and {len(names) - _NAMED} more")


def _verb(op: str, names: Sequence[str], done: str, **more: Any) -> Request:
    return Request(op, {"tasks": list(names), **more}, done)


def _of(rows: Sequence[TaskRow], states: frozenset[str]) -> list[str]:
    return [row.name for row in rows if row.state in states]


def _stands(row: TaskRow) -> str:
    return f"{row.name} {stands(row.state)}"


def _again(names: Sequence[str]) -> str:
    return f"{many(names)} {'runs' if len(names) == 1 else 'run'} again"


def _may(verb: str, rows: Sequence[TaskRow]) -> list[TaskRow]:
    """Those that the verb does something to."""
    return [row for row in rows if ACTS[verb].may(row)]


def _refused(verb: str, rows: Sequence[TaskRow]) -> Refusal:
    """It means none of them."""
    if not rows:
        return Refusal("no task here")
    more = f" (and {len(rows) - 1} more like it)" if len(rows) > 1 else ""
    return Refusal(f"{_stands(rows[0])}{more}: {ACTS[verb].refusal}")


def _asked(title: str, lines: Sequence[str], no: str, yes: Option, request: Request) -> Question:
    """Whether something is to be done or let be."""
    return Question(title, tuple(lines), (Option("no", no), yes), {yes.id: request}.get)


def retry(rows: Sequence[TaskRow]) -> Doing:
    """What failed, was cancelled, pruned or unknown, once more; never what succeeded."""
    names = _of(rows, FAILED | {"cancelled", "pruned"})
    if names:
        return _verb("retry", names, _again(names))
    if not rows:
        return Refusal("no task here")
    more = f"{BY_ID['retry_menu'].shown_key} has more"
    if len(rows) == 1:
        again = BY_ID["retry"].shown_key
        return Refusal(f"{_stands(rows[0])}: {again} retries what failed, was cancelled, pruned or unknown; {more}")
    return Refusal(f"none of {len(rows)} tasks failed, was cancelled, pruned or unknown; {more}")


def cancel(rows: Sequence[TaskRow]) -> Doing:
    """Asks where something runs; what only waits is cancelled at once."""
    chosen = _may("cancel", rows)
    running = _of(chosen, ACTIVE)
    waiting = [row.name for row in chosen if row.name not in running]
    names = [*running, *waiting]
    if not names:
        return _refused("cancel", rows)
    if not running:
        return _verb("cancel", names, f"{many(names)} cancelled")
    title = f"Cancel {many(names)}?"
    lines = (*_listed(names), f"{len(running)} running, {len(waiting)} not") if len(names) > 1 else ()

    requests = {
        "cancel": _verb("cancel", names, f"{many(names)}: asked to end"),
        "kill": _verb("kill", names, f"{many(names)}: killed"),
    }
    answers = (
        Option("no", "keep running"),
        Option("cancel", "gracefully: stop signal, then time for a checkpoint", "y", grave=True),
        Option("kill", "kill at once", "K", grave=True),
    )
    return Question(title, lines, answers, requests.get)


def kill(rows: Sequence[TaskRow]) -> Doing:
    """Asks where something runs."""
    chosen = _may("kill", rows)
    names = _of(chosen, ACTIVE)
    if not chosen:
        return _refused("kill", rows)
    if not names:
        return cancel(chosen)
    yes = Option("kill", "kill, with everything it started", "y", grave=True)
    request = _verb("kill", names, f"{many(names)}: killed")
    return _asked(f"Kill {many(names)} at once?", _listed(names), "keep running", yes, request)


def hold(rows: Sequence[TaskRow]) -> Doing:
    """Releases if all that can be held are, holds otherwise. What has ended while it was held can be released alone.
    An attempt that runs is let alone: the next one is what does not start."""
    if free := _may("hold", rows):
        return _verb("hold", [row.name for row in free], _held(free))
    if held := [row.name for row in _may("release", rows)]:
        return _verb("release", held, f"{many(held)} released")
    return _refused("hold", rows)


def _held(rows: Sequence[TaskRow]) -> str:
    """What holding them comes to."""
    names, running = [row.name for row in rows], len(_of(rows, ACTIVE))
    key, several = BY_ID["hold"].shown_key, len(names) > 1
    if not running:
        return f"{many(names)} held: {'none starts' if several else 'it does not start'} until {key} releases it"
    runs = "what runs goes on" if several else "it runs on"
    return f"{many(names)} held: {runs}, no other attempt starts until {key} releases it"


def priority(rows: Sequence[TaskRow], step: int, asked: Mapping[str, tuple[int, int]]) -> Doing:
    """Of tasks with different priorities the first one's counts. *asked*: by task, what its row had when its priority
    was asked for last, and what was asked for: a row that still has the former is behind."""
    if not rows:
        return Refusal("no task here")
    before, wanted = asked.get(rows[0].name, (None, 0))
    value = (wanted if rows[0].priority == before else rows[0].priority) + step
    names = [row.name for row in rows]
    return _verb("priority", names, f"{many(names)}: priority {value:+d}", value=value)


def cancel_started(rows: Sequence[TaskRow]) -> Question | None:
    """For a retry that cannot be taken back because it runs already. None: nothing of it runs."""
    names = _of(rows, ACTIVE)
    if not names:
        return None
    title = f"{many(names)} {'has' if len(names) == 1 else 'have'} started again. Cancel?"
    yes = Option("cancel", "cancel, gracefully", "y", grave=True)
    request = _verb("cancel", names, f"{many(names)}: asked to end")
    return _asked(title, _listed(names), "keep running", yes, request)


_FAILED_HOW = {
    "exit": "exited with an error",
    "signal": "a signal ended",
    "oom": "ran out of memory",
    "timeout": "ran into the timeout",
    "missing output": "left an output out",
    "stale output": "left an output as it was",
    "watch": "a watch rule ended",
    "spawn error": "could not be started",
    "lost": "got lost",
    "port taken": "found the port taken",
    "preempted": "Slurm preempted",
    "node_fail": "a node failed under",
}
"""Of one task or several, by the kind of failure."""
_OWN_KEYS = {"debug": "d", "values": "v"}
"""Of the retry menu: the same whatever else it offers."""


def retry_menu(rows: Sequence[TaskRow], chosen: Sequence[TaskRow], *, gpus: int = 2, simulated: bool = False) -> Doing:
    """*rows*: the whole deck. *chosen*: the marked ones, or the one under the cursor. *gpus*: how many it has.
    *simulated*: these are."""
    failed = [row for row in rows if row.state in FAILED]
    changed, stale = [row.name for row in rows if row.changed], [row.name for row in rows if row.stale]
    again = _may("retry", chosen)
    groups: dict[str, tuple[str, list[str], dict[str, Any]]] = {}
    if failed:
        groups["all"] = (f"{len(failed)} that failed, for whatever reason", [row.name for row in failed], {})
    for kind, count in Counter(row.kind for row in failed if row.kind).most_common(6):
        if count < len(failed):
            how = _FAILED_HOW.get(kind, f"failed: {kind}")
            groups[f"kind {kind}"] = (f"{count} that {how}", [row.name for row in failed if row.kind == kind], {})
    on = Counter(gpu for row in failed for gpu in row.gpus if gpus > 1)
    for gpu, count in sorted(on.items(), key=lambda each: (-each[1], each[0]))[:4]:
        names = [row.name for row in failed if gpu in row.gpus]
        groups[f"gpu {gpu}"] = (f"{count} that failed on GPU {gpu}, on another GPU", names, {"not_on": [str(gpu)]})
    if changed:
        groups["changed"] = (f"{len(changed)} that an edit changed", changed, {})
    if stale:
        groups["stale"] = (f"{len(stale)} that newer results made stale", stale, {})
    if again:
        names = [row.name for row in again]
        what = cut(clean(many(names)), _NAME_CELLS)
        groups["these"] = (what, names, {})
        groups["values"] = (f"{what}, with other values …", names, {})
        groups["fresh"] = (f"{what}, from the beginning", names, {"fresh": True})
        groups["downstream"] = (f"{what}, and what needs it", names, {"downstream": True})
        groups["debug"] = (
            f"{what}, with debug output of NCCL and torch",
            names,
            {"env": debug_env(again, simulated=simulated)},
        )
    if not groups:
        return Refusal("nothing has ended that could be retried")

    def then(answer: str) -> Request | OtherValues | None:
        if answer not in groups:
            return None
        _, names, more = groups[answer]
        if answer == "values":
            return OtherValues(tuple(names))
        return _verb("retry", names, _again(names), **more)

    keys = iter("123456789acefgim")
    answers = [
        Option("no", "retry nothing"),
        *(Option(id_, text, _OWN_KEYS.get(id_) or next(keys, "")) for id_, (text, _, _) in groups.items()),
    ]
    return Question("Retry", (), tuple(answers), then)


VALUES_HINT = (
    "NAME=VALUE that you leave out stays as it is; --env NAME=VALUE of an earlier retry goes.",
    "enter shows the new command, escape leaves",
)
SHOWN = 20
"""So many tasks are asked for what they are before others are typed."""


def values_hint(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is told above the line: how it is typed, and which variables of the file can be given other values, too."""
    variables: Mapping[str, str] = {name: value for task in tasks for name, value in task.get("vars", {}).items()}
    return [*VALUES_HINT, *([f"other [vars] of the file: {pairs_text(variables)}"] if variables else [])]


def values_now(tasks: Sequence[Mapping[str, Any]]) -> str:
    """What these tasks (answers to `show`) have in common, as it would be typed."""
    first, *others = ({**task["params"], **task.get("given", {})} for task in tasks)
    shared = {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}
    env = dict(tasks[0]["retried_env"]) if len(tasks) == 1 else {}
    words = [f"{name}={value}" for name, value in shared.items() if name not in ("shard", "shards")]
    for name, value in env.items():
        words += ["--env", f"{name}={value or ''}"]
    return shlex.join(words)


def values_typed(text: str) -> dict[str, Any] | Refusal:
    """What goes with a retry: `set` and `env`."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return Refusal(f"{text}: {error}")
    values: dict[str, str] = {}
    env: dict[str, str] = {}
    into = values
    for word in words:
        if word == "--env" and into is values:
            into = env
            continue
        name, equals, value = word.partition("=")
        if not name or not equals:
            return Refusal(f"{word}: write NAME=VALUE without blanks, or --env NAME=VALUE")
        into[name] = value
        into = values
    return {"set": values, "env": env}


def with_values(
    names: Sequence[str], text: str, typed: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]]
) -> Question:
    """*typed*: *text* as `values_typed` reads it; *given*: what the engine says that becomes of the tasks by it."""
    lines: list[str] = []
    env = pairs_text(typed["env"])
    for name, change in given.items():
        before, after = command_text(change["before"]), command_text(change["after"])
        lines += [f"{name}  {before}", f"{'now':>{len(name)}}  {after}"] if before != after else []
        if before == after and (change["changes"] or not env):
            lines.append(f"{name}  {', '.join(change['changes']) or 'has these values already'}")
    lines += [f"environment  {env}"] if env else []
    yes = Option("retry", "run it so" if len(names) == 1 else "run them so", "y")
    request, back = _verb("retry", names, _again(names), **typed), OtherValues(tuple(names), text)
    answers = (Option("no", "back to the values"), yes)
    return Question(
        f"Retry {many(names)}?", tuple(lines), answers, lambda answer: request if answer == yes.id else back
    )


_KEEP = "e"
_KEEP_FLAG = "--keep"
"""Of `gpudeck apply`, which its lines name."""


def pause(paused: str, halted: str) -> Doing:
    """Unpausing needs no question; what a halt has left may be many tasks. *halted*: the task that failed."""
    go_on = Request("unpause", {}, "the deck goes on")
    if paused:
        return go_on
    if halted:
        lines = (f"{halted} failed; what it has kept from starting starts.",)
        return _asked("Go on with the halted run?", lines, "start nothing", Option("on", "go on", "pP"), go_on)
    lines = ("Nothing more starts; what runs goes on.",)
    request = Request("pause", {}, "paused: nothing more starts")
    return _asked("Pause the deck?", lines, "go on as now", Option("pause", "pause", "pP"), request)


_BY = {"by": "Q on the screen"}


def stop(active: int) -> Doing:
    """Enter stops neither."""
    hint = f"{BY_ID['leave'].shown_key} leaves this screen and stops nothing."
    if not active:
        request = Request("stop", _BY, "the engine ends")
        return _asked("Stop?", (hint,), "stop nothing", Option("engine", "the engine; no task runs", "e"), request)
    requests = {
        "engine": Request("stop", _BY, "the engine ends; its tasks go on"),
        "tasks": Request("stop", {"tasks": True, **_BY}, "the tasks are asked to end"),
    }
    running = plural(active, "running task")
    answers = (
        Option("no", "stop nothing"),
        Option("engine", f"the engine only: {running} {'goes' if active == 1 else 'go'} on", "e"),
        Option("tasks", f"the engine and {running}, gracefully", "t", grave=True),
    )
    return Question("Stop?", (hint,), answers, requests.get)


def apply(lines: Sequence[str], digest: str, *, finished: bool, running: bool) -> Question:
    """What has changed in the task file, as `gpudeck apply --dry-run` prints it. *digest*: of that plan, which alone is
    applied. *finished*, *running*: there are changed tasks of that kind."""

    requests = {
        "apply": Request("apply", {"digest": digest}, "applied"),
        "keep": Request("apply", {"digest": digest, "finished": "keep"}, "applied, results kept"),
        "restart": Request("apply", {"digest": digest, "running": "restart"}, "applied, what runs starts anew"),
    }
    shown = tuple(line.replace(_KEEP_FLAG, f"[{_KEEP}]") for line in lines)
    answers = [Option("no", "not now"), Option("apply", "apply", "y")]
    if finished:
        answers.append(Option("keep", "apply, keep the results of what has finished", _KEEP))
    if running:
        answers.append(Option("restart", "apply, stop what runs and start it anew", "r", grave=True))
    return Question("Apply the changed task file?", shown, tuple(answers), requests.get)


def drain(gpu: GpuRow) -> Doing:
    """Or enable again."""
    verb = "enable" if gpu.mark == "drain" else "drain"
    done = f"GPU {gpu.index}: " + ("tasks start on it again" if verb == "enable" else "nothing more starts on it")
    return Request("gpu", {"verb": verb, "gpus": [gpu.uuid]}, done)


def take(gpu: GpuRow) -> Doing:
    """Asks: somebody else may be on it. What is taken is given back without a question."""
    if gpu.mark == "take":
        return Request(
            "gpu", {"verb": "enable", "gpus": [gpu.uuid]}, f"GPU {gpu.index}: others on it are respected again"
        )
    yes = Option("take", "use it although others are on it", "t", grave=True)
    request = Request("gpu", {"verb": "take", "gpus": [gpu.uuid]}, f"GPU {gpu.index} taken")
    lines = (gpu.note or "nobody else is on it now",)
    return _asked(f"Take GPU {gpu.index}?", lines, "leave it to them", yes, request)
