"""`gpudeck table`: what the tasks of a deck came to, for a paper or a spreadsheet."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...engine.client.files import task_file
from ...engine.client.place import say
from ...engine.command import Command
from ...engine.core.deck import Deck, Task
from ...engine.core.flags import is_stale
from ...engine.core.marks import is_of_other_work
from ...engine.decks.offline import OfflineDeck, open_offline
from ...engine.errors import UsageError
from ...engine.hints import Hints
from ...engine.logs.curves import line_that_keeps
from ...engine.results.results import (
    HOW_TO_NAME,
    MEASURED,
    Asked,
    How,
    Records,
    Result,
    check_asked,
    metrics_of,
    results_of,
)  # fmt: skip
from ...engine.results.table import FORMATS, Layout, states_text, tabulate
from ...engine.serve.offline import tasks_meant
from ...engine.text import names_text


def run(command: Command) -> int:
    """Print a table; means count tasks that did not succeed with --all alone. Raises DeckError."""
    given, everything = command.given, command.flag("all")
    form, best = given.get("format") or "md", given.get("best") or "column"
    metrics, over = given.get("metric") or (), given.get("over") or ()
    rows, columns = given.get("rows") or (), given.get("columns") or ()
    offline = opened(command)
    tasks = tasks_meant(offline, command.words)
    records = Records(offline.logs, offline.deck, offline.file.vars)
    known = metrics_of(records, tasks)
    more = "" if metrics or form != "md" else _not_kept(records, tasks, known)
    if more and not known:
        raise UsageError(f"no task has reported a metric; {more}")
    asked = asked_metrics(metrics, known)
    plain = not (metrics or over or rows or columns)
    told = plain and "energy_wh" not in known and not offline.deck.settings.simulated
    if told and any(records.measured(task, "energy_wh") for task in tasks):
        asked = [*asked, Asked("energy_wh", None)]
    results = results_of(records, tasks, asked)
    chosen = _chosen(results, tasks, asked if metrics else asked[: len(known)], named=bool(command.words))
    layout = Layout(ways(tasks, asked), words(over), words(rows), words(columns), given.get("sort") or "", best)
    if not everything and (layout.over or layout.rows or layout.columns):
        done = succeeded(chosen)
        table = tabulate([result if result.done else replace(result, counts=False) for result in chosen], layout)
        chosen = done
    else:
        table = tabulate(chosen, layout)
    text = FORMATS[form](table)
    if table.empty:
        say(f"no value: {names_text(table.empty)}")
    if form in ("md", "latex") and table.as_good():
        say("≈: cannot be told apart from the best one by these values (95 %)")
    tell_what_they_are(command, chosen, offline.deck)
    if made_up := _made_up(chosen, asked, offline.deck, records):
        say(f"{made_up}: of simulated GPUs (SIM), made up")
    if more:
        say(more)
    print(text)
    return 0


def opened(command: Command) -> OfflineDeck:
    """The deck as its files tell it; no engine is needed."""
    offline = open_offline(task_file(command), command.options(), os.environ)
    for warning in offline.warnings if offline.broken else ():
        say(f"warning: {warning}")
    return offline


def asked_metrics(given: Sequence[str], known: Sequence[str]) -> list[Asked]:
    """Those that --metric names, else all. Raises UsageError where there are none, or not one that is named."""
    asked = [Asked.of(word) for word in words(given)] or [Asked(name, None) for name in known]
    if not asked:
        raise UsageError(f"no task has reported a metric: {HOW_TO_NAME}")
    check_asked(asked, known)
    return asked


_WORD = re.compile(r"[a-z_][a-z0-9_]*")
"""In a regular expression: what may be the name of a number, `val_acc` of `val_acc=(.*)`."""
_LOOKED_INTO = 5
"""Tasks whose logs are searched for what is not kept."""


def _not_kept(records: Records, tasks: Sequence[Task], known: Sequence[str]) -> str:
    """What the logs have beside the metrics that are known, and how to keep it; "" for nothing."""
    ran = [task for task in tasks if records.attempt(task)][:_LOOKED_INTO]
    seen = ((task, name) for task in ran for name in records.seen(task))
    found = dict.fromkeys(name for task, name in seen if not {name} & {*task.spec.params, *records.variables})
    read = {word for task in ran for one in task.spec.extras.metrics for word in _WORD.findall(one.regex.lower())}
    names = [name for name in found if name not in read and not any(one.lower().endswith(name) for one in known)]
    if not names:
        return ""
    which = "it" if len(names) == 1 else names[0]
    return f"not kept, but in the logs: {names_text(names)}; a line keeps {which}: {line_that_keeps(names[0])}"


def tell_what_they_are(command: Command, results: Sequence[Result], deck: Deck) -> None:
    """Lines on stderr: which results are of other work than the file says now or of an attempt before the last, and
    which ran with other values."""
    accepted = [deck.by_name[one.task] for one in results if one.values and one.done and not one.as_file]
    if names := [task.name for task in accepted if task.result == task.spec.fingerprint]:
        say(f"ran another command than the file has, and accepted: {names_text(names)}")
    if outdated := _outdated(results, deck):
        say(Hints.of(command).completed(outdated))
    if earlier := [one.task for one in results if one.values and not one.done and deck.by_name[one.task].made_by[1]]:
        say(f"of an earlier success, not of the last attempt: {names_text(earlier)}")
    if given := [f"{one.task} ({one.otherwise})" for one in results if one.otherwise]:
        say(f"with other values than the file's, by `gpudeck retry`: {names_text(given)}")


def words(texts: Sequence[str]) -> tuple[str, ...]:
    """What options name that may be given several times, and several with commas."""
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())


def _chosen(results: Sequence[Result], tasks: Sequence[Task], asked: Sequence[Asked], *, named: bool) -> list[Result]:
    """Without what has nothing to do with these metrics: a task that gathers the results of others. Raises UsageError
    where nothing has."""
    names = {one.name for one in asked}
    entries = {result.entry for result in results if names & result.values.keys()}
    entries |= {task.spec.entry for task in tasks if names & {metric.name for metric in task.spec.extras.metrics}}
    if not entries:
        raise UsageError(f"no task has {', '.join(sorted(names))} yet")
    return [result for result in results if named or result.entry in entries]


def ways(tasks: Sequence[Task], asked: Sequence[Asked]) -> Mapping[str, How]:
    """By metric, which of its values is meant, and so what is best."""
    declared = {metric.name: metric for task in tasks for metric in task.spec.extras.metrics}
    return {one.name: one.way(declared.get(one.name)) for one in asked}


def _outdated(results: Sequence[Result], deck: Deck) -> str:
    """Which of these are of other work than the file says now, or older than what they build on; "" for none."""
    told = [result.task for result in results if result.values]
    changed = [name for name in told if is_of_other_work(deck.by_name[name])]
    stale = [name for name in told if is_stale(deck, deck.by_name[name])]
    kinds = (
        (changed, "is", "are", "not of what the file says now", "changed"),
        (stale, "builds", "build", "on results that are newer", "stale"),
    )
    said = [
        f"{len(names):,} {one if len(names) == 1 else several} {what} ({flag}: {names_text(names)})"
        for names, one, several, what, flag in kinds
        if names
    ]
    flagged = {*changed, *stale}
    them, kept = ("it", "its result") if len(flagged) == 1 else ("them", "their results")
    select = " ".join(f"state:{flag}" for names, *_, flag in kinds if names)
    again = f"`gpudeck retry {select}` runs {them} again, `gpudeck accept {select}` keeps {kept}"
    if any(not deck.by_name[name].selected for name in flagged):
        again += f", once a run takes {them} in: the last one left some out"
    return f"of {len(told):,} results {'; '.join(said)}: {again}" if said else ""


def _made_up(results: Sequence[Result], asked: Sequence[Asked], deck: Deck, records: Records) -> str:
    """Which columns tell what was measured of simulated GPUs."""
    tasks = [deck.by_name[result.task] for result in results]
    columns = [one.name for one in asked if one.name in MEASURED and one.name != "duration_s"]
    found = [name for name in columns for task in tasks if records.is_simulated(task) and records.measured(task, name)]
    return ", ".join(dict.fromkeys(found))


def succeeded(results: Sequence[Result], *, others: bool = True) -> list[Result]:
    """Says on stderr what it leaves out. *others*: --all counts those. Raises UsageError where nothing is left."""
    done = [result for result in results if result.done]
    if left_out := [result for result in results if not result.done]:
        tasks, them = ("1 task that has", "it") if len(left_out) == 1 else (f"{len(left_out)} tasks that have", "them")
        more = f"; --all counts {them}" if others else ""
        say(f"left out: {tasks} not succeeded ({states_text(left_out)}){more}")
    if not done:
        more = ": --all counts what the others have reported" if others else ""
        raise UsageError(f"no task has succeeded yet{more}")
    return done
