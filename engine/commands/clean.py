"""`gpudeck clean`: removes logs of attempts that are over, and what the state folder keeps and needs no more."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence

from ..client.task_file import task_file
from ..command import Command
from ..errors import TaskFileError, UsageError
from ..offline.deck import open_offline
from ..snapshot.removable import Removable
from ..taskfile.options import RunOptions
from ..taskfile.problems import BadValueError, printable
from ..taskfile.units import duration_s
from ..text import columns_of, plural, ranges, size_text
from .asking import says_yes
from .cleaning import Left, Plan, Wanted, carry_out, plan_clean

_SHOWN = 20
_NAMED = 3


def run(command: Command) -> int:
    """Remove what was asked for, or with --dry-run tell what that would be."""
    return clean(
        task_file(command),
        command.options(),
        selectors=command.words,
        older_than=command.given.get("older_than"),
        keep_last=command.given.get("keep_last"),
        records=command.flag("records"),
        dry_run=command.flag("dry_run"),
        yes=command.flag("yes"),
        as_json=command.flag("json"),
    )


def clean(
    path: str,
    options: RunOptions,
    *,
    selectors: Sequence[str] = (),
    older_than: str | None = None,
    keep_last: int | None = None,
    records: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    """Show what would be freed, ask, and remove it; an engine may run meanwhile. Returns the exit code: 1 when the user
    says no or something could not be removed. Raises DeckError."""
    wanted = Wanted(selectors, _age(older_than), _count(keep_last), records)
    offline = open_offline(path, options, os.environ)
    if offline.broken:
        raise TaskFileError(offline.broken.splitlines())
    try:
        plan = plan_clean(offline, wanted, now=time.time())
    except OSError as error:
        raise UsageError(f"{error.filename or offline.file.settings.log_dir}: {error.strerror}") from error
    nothing = not plan.go and not plan.unneeded and not plan.copies.snapshots
    if not as_json:
        print("\n".join(_table(plan)))
    if dry_run or nothing:
        return _say(plan, 0, 0, [], as_json=as_json, dry_run=dry_run)
    if as_json and not yes:
        raise UsageError("nothing was removed: --json asks nobody; -y says yes, --dry-run only looks")
    if not yes and not _agreed():
        print("nothing was removed")
        return 1
    problems: list[str] = []
    files, freed = carry_out(plan, offline.state.path if offline.state is not None else "", problems)
    return _say(plan, files, freed, problems, as_json=as_json, dry_run=False)


def _age(text: str | None) -> float | None:
    try:
        return None if text is None else duration_s(text)
    except BadValueError as error:
        raise UsageError(f"--older-than {error.words}") from error


def _count(number: int | None) -> int:
    if number is not None and number < 0:
        raise UsageError(f"--keep-last must be at least 0, got {number}")
    return 1 if number is None else number


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nothing was removed: nobody can be asked here; -y says yes, --dry-run only looks")
    return says_yes("remove them?")


# -- what is said ------------------------------------------------------------------------------------------------------


def _table(plan: Plan) -> list[str]:
    by_task: dict[str, list[Left]] = {}
    for _, left in plan.go:
        by_task.setdefault(left.task, []).append(left)
    rows = [
        (sum(left.disk_bytes for left in group), name, _numbers([left.attempt for left in group]))
        for name, group in by_task.items()
    ]
    rows += [(item.disk_bytes, item.path, item.what) for item in plan.unneeded]
    rows += [(copy.disk_bytes, copy.path, _copy(copy)) for copy in plan.copies.snapshots]
    rows.sort(key=lambda row: (-row[0], row[1]))
    cells = [(size_text(size), name, what) for size, name, what in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        cells.append((size_text(sum(size for size, _, _ in rows[_SHOWN:])), f"and {len(rows) - _SHOWN:,} more", ""))
    lines = columns_of(cells, right=(0,))
    kept = {
        "not over yet": plan.running,
        "whose end nobody knows": plan.unknown,
        "of other decks, or of before this one's state was removed": plan.strange,
    }
    lines += [f"left alone: {plural(count, 'attempt')} {why}" for why, count in kept.items() if count]
    lines += [f"left alone: {plural(plan.others, 'file')} of other users"] if plan.others else []
    attempts = f" in the logs of {plural(len(plan.go), 'attempt')}" if plan.go else ""
    total = f"{size_text(plan.disk_bytes)}{attempts} ({plural(plan.files, 'file')})"
    return [*lines, f"to remove: {total}" if rows else "nothing to remove"]


def _say(plan: Plan, files: int, freed: int, problems: Sequence[str], *, as_json: bool, dry_run: bool) -> int:
    for line in problems:
        print(f"not removed: {printable(line)}", file=sys.stderr)
    if as_json:
        attempts = [
            {"task": left.task, "attempt": left.attempt, "files": len(left.files), "bytes": left.disk_bytes}
            for _, left in plan.go
        ]
        state = [{"path": item.path, "bytes": item.disk_bytes} for item in (*plan.unneeded, *plan.copies.snapshots)]
        kept = {
            "running": plan.running,
            "unknown": plan.unknown,
            "other_decks": plan.strange,
            "other_users_files": plan.others,
        }
        removed = {"files": files, "bytes": freed}
        print(json.dumps({"dry_run": dry_run, "attempts": attempts, "state": state, "kept": kept, "removed": removed}))
    elif files or problems:
        print(f"removed {plural(files, 'file')}, {size_text(freed)}")
    return 1 if problems else 0


def _copy(copy: Removable) -> str:
    if not copy.written:
        return "a copy of the code, which no task needs"
    named = ", ".join(copy.written[:_NAMED]) + (", …" if len(copy.written) > _NAMED else "")
    return f"a copy of the code, where tasks wrote {printable(named)}"


def _numbers(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 7] as "attempts 1-3,7"."""
    return f"attempt{'s' * (len(numbers) > 1)} {ranges(numbers)}"
