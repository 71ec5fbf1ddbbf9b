"""`gpudeck plan --prune`: which tasks the file's `prune` would have stopped, had it stood there when they ran."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...engine.decks.offline import OfflineDeck
from ...engine.errors import UsageError
from ...engine.results.prune_replay import Replay, replay
from ...engine.text import columns_of, names_text, plural


def show(found: OfflineDeck, *, as_json: bool) -> int:
    """Print it. Nothing is started or changed. Raises UsageError."""
    tasks = [task for task in found.deck.tasks if task.selected and not task.gone]
    replays = replay(tasks, found.logs)
    if not replays:
        raise UsageError('--prune: no task has a rule: write prune = { metric = "val_loss:min" } into the task file')
    if as_json:
        print(json.dumps([_plain(each) for each in replays], indent=2))
        return 0
    print("\n\n".join("\n".join(_lines(each)) for each in replays))
    return 0


def _lines(made: Replay) -> Iterator[str]:
    if made.stopped:
        rows = [(each.task, f"{100 * each.point:.3g} %", _hours(each.saved_s), each.why) for each in made.stopped]
        yield from columns_of([("task", "pruned at", "saves", "why"), *rows], right=(1, 2))
        yield ""
    count = f"{len(made.stopped)} of {plural(made.judged, 'task')} of {made.entry} would have been pruned"
    share = f"{100 * made.saved_s / made.spent_s:.0f} %" if made.spent_s else "0 %"
    yield f"{count}: {_hours(made.saved_s)} of {_hours(made.spent_s)} saved ({share})"
    if made.best:
        fate = "would have been LOST" if made.loses_best else "would have been kept"
        yield f"the best in the end, {made.best} ({made.prune.name} {made.best_value:.4g}), {fate}"
    if made.unread:
        why = "not succeeded, changed, or no progress and metric in their logs"
        yield f"not judged: {names_text(made.unread, 4)} ({why})"


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
    }
