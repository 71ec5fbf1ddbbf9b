"""`gpudeck plan --prune`: which tasks the file's `prune` would have stopped, had it stood there when they ran."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ...engine.core.deck import Task
from ...engine.decks.offline import OfflineDeck
from ...engine.errors import UsageError
from ...engine.logs.curves import likely_best, line_that_keeps, telling_most
from ...engine.results.prune_replay import Replay, replay
from ...engine.results.results import Records, metrics_of
from ...engine.text import columns_of, names_text, plural


def show(found: OfflineDeck, *, as_json: bool) -> int:
    """Print it. Nothing is started or changed. Raises UsageError."""
    tasks = [task for task in found.deck.tasks if task.selected and not task.gone]
    records = Records(found.logs, found.deck, found.file.vars)
    replays = replay(tasks, records)
    if not replays:
        raise UsageError(f"--prune: no task has a rule: {_rule_for(tasks, records)}")
    if as_json:
        print(json.dumps([_plain(each) for each in replays], indent=2))
        return 0
    told = ["\n".join(_lines(each)) for each in replays if each.judged]
    unread = [name for each in replays for name in each.unread]
    if unread:
        told.append(f"not judged: {names_text(unread, 4)} ({_UNREAD})")
    print("\n\n".join(told))
    return 0


_UNREAD = "not succeeded, changed, or no progress and metric in their logs"


_LOOKED_INTO = 5
"""Tasks whose logs are searched for metrics that are not kept."""


def _rule_for(tasks: Sequence[Task], records: Records) -> str:
    """What to write into the task file, for a metric that the tasks have."""
    declared = {metric.name: metric.best for task in tasks for metric in task.spec.extras.metrics}
    known = sorted(metrics_of(records, tasks), key=lambda name: declared.get(name, "last") == "last")
    seen = dict.fromkeys(name for task in tasks[:_LOOKED_INTO] if records.attempt(task) for name in records.seen(task))
    name = telling_most(known) or telling_most(seen)
    if not name:
        return "and no task has a metric that one could go by: print ::gpudeck val_loss=0.12 in each epoch"
    way = declared.get(name, "last")
    rule = f'prune = {{ metric = "{name}:{likely_best(name) if way == "last" else way}" }}'
    return f"write {rule} into the task file" + ("" if name in known else f", and {line_that_keeps(name)}")


def _lines(made: Replay) -> Iterator[str]:
    if made.stopped:
        rows = [(each.task, f"{100 * each.point:.3g} %", _hours(each.saved_s), each.why) for each in made.stopped]
        yield from columns_of([("task", "pruned at", "saves", "why"), *rows], right=(1, 2))
        yield ""
    count = f"{len(made.stopped)} of {plural(made.judged, 'task')} of {made.entry} would have been pruned"
    share = f"{100 * made.saved_s / made.spent_s:.0f} %" if made.spent_s else "0 %"
    yield f"{count}: {_hours(made.saved_s)} of {_hours(made.spent_s)} saved ({share})"
    fate = "would have been LOST" if made.loses_best else "would have been kept"
    yield f"the best in the end, {made.best} ({made.prune.name} {made.best_value:.4g}), {fate}"
    if made.no_peers:
        yield f"what runs from now on is not judged by {made.no_peers} of them: the rule was not there when they ran"


def _hours(gpu_s: float) -> str:
    return f"{gpu_s / 3600:.3g} GPU h"


def _plain(made: Replay) -> dict[str, object]:
    return {
        "entry": made.entry,
        "judged": made.judged,
        "spent_gpu_s": round(made.spent_s, 3),
        "saved_gpu_s": round(made.saved_s, 3),
        "best": made.best,
        "loses_best": made.loses_best,
        "pruned": [
            {"task": each.task, "point": each.point, "why": each.why, "saved_gpu_s": round(each.saved_s, 3)}
            for each in made.stopped
        ],
        "not_judged": list[str](made.unread),
        "no_peers": made.no_peers,
    }
