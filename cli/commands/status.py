"""`gpudeck status`: how the deck stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.headless.painted import Line, Tone, digest_lines
from ...engine.logs.files import AttemptPaths, LogFolder, telling_log
from ...engine.protocol.states import ACTIVE, FAILED, is_pending, shown_state
from ...engine.protocol.wire import DeckHead, GpuRow, TaskRow
from ...engine.protocol.words import counts_text, goes_on_text
from ...engine.text import columns_of, eta_text, field_text
from .look import Look, look
from .rows import cluster_lines, cluster_of, gpu_cells, hint_line, note_text, place_text, plain, time_text
from .screen import Screen, out, print_json

_SHOWN = 8
"""Tasks that a part of the status names."""
_DIGEST = 10
"""Lines of a failed task's log."""


def run(command: Command) -> int:
    """Print it."""
    place = Place.of(command)
    found = look(place)
    rows, head, gpus = found.rows(()), found.head(), found.gpus()
    failed = [row for row in rows if row.state in FAILED]
    running = [row for row in rows if row.state in ACTIVE and not is_pending(row)]
    pending = [row for row in rows if is_pending(row)]
    if command.flag("json"):
        _print_json(found, head, running, pending, found.with_metrics(failed))
        return 0
    screen = out(command, place.hints)
    if command.flag("failed"):
        screen.show(list(_failures(failed, found.hints(failed), found.logs())))
        return 0
    screen.show(
        [
            *_head(found, head),
            *_tasks("running", running, screen),
            *_tasks("pending", pending, screen),
            *_tasks("failed", failed, screen, tone="bad"),
            *_waits(head),
            *_gpus(gpus, screen),
            *cluster_lines(cluster_of(found, head), screen),
        ]
    )
    return 0


def _print_json(
    found: Look, head: DeckHead, running: Sequence[TaskRow], pending: Sequence[TaskRow], failed: Sequence[TaskRow]
) -> None:
    shown = {"gpus": found.gpus(), "cluster": cluster_of(found, head)}
    rows = {"running": running, "pending": pending, "failed": failed}
    print_json({"engine": found.engine, **plain(head), **{name: plain(part) for name, part in (shown | rows).items()}})


def _head(found: Look, head: DeckHead) -> Iterator[Line]:
    engine = found.engine
    never = "submitted to Slurm, no engine yet" if found.submitted else "never started"
    run = f"run {head.run}" + (" has ended" if head.ended else "") if head.run else never
    parts = [
        field_text(head.deck),
        run,
        f"engine {engine['pid']} ({engine['mode']})" if engine else "no engine",
        "SIM: simulated GPUs" if head.simulated else "",
        f"Slurm: {head.used_slots:,} of {head.slots:,} jobs submitted" if head.backend == "slurm" else "",
        field_text(head.file),
    ]
    yield Line("  ".join(filter(None, parts)), tone="bold")
    eta = "" if head.ended else eta_text(head.eta_s, head.unmeasured)
    left = f"  {eta}" if eta else ""
    yield Line(counts_text(head.counts) + left, tone="warn" if head.counts.failed or head.counts.unknown else "plain")
    paused, halted = goes_on_text(head, halted=False), goes_on_text(head, halted=True)
    kept, stale_kept = (f"`gpudeck accept state:{flag}` keeps their results" for flag in ("changed", "stale"))
    again, stale_again = (f"`gpudeck retry state:{flag}` runs them again" for flag in ("changed", "stale"))
    said = (
        ("paused", head.paused, f"`gpudeck unpause` {paused}"),
        ("halted by", head.halted, halted and f"`gpudeck unpause` {halted}"),
        ("nothing starts, the journal cannot be written:", head.unwritable, ""),
        ("the task file has changed:", head.file_plan, "`gpudeck apply` takes it up"),
        ("the task file cannot be used, the deck goes on as it was:", head.file_problem, "`gpudeck check` tells all"),
        ("", head.barred, "more of it in the file, and `gpudeck apply`, lets tasks start" if head.spent else ""),
        ("used of the budget:", head.budget, ""),
        ("held:", head.held, "`gpudeck release SEL`"),
        ("changed since they were done:", head.changed, f"{again}, {kept}"),
        (
            "stale, what they need ran again after them:",
            head.stale,
            f"{stale_again}, {stale_kept}",
        ),
    )
    for word, value, remedy in said:
        if value:
            text = field_text(str(value))
            text = text if text.startswith(word) else f"{word} {text}"
            yield Line(text + (f"; {remedy}" if remedy else ""), tone="warn")
    if head.on_cpu:
        yield Line("no GPU: GPU tasks run on the CPU", tone="warn")


def _tasks(word: str, rows: Sequence[TaskRow], screen: Screen, tone: Tone = "plain") -> Iterator[Line]:
    if not rows:
        return
    yield Line(f"{word}:", tone="bold")
    cells = [(f"  {row.name}", place_text(row), time_text(row), note_text(row)) for row in rows[:_SHOWN]]
    yield from (Line(text, tone=tone) for text in columns_of(cells, screen.columns))
    if len(rows) > _SHOWN:
        yield Line(f"  … and {len(rows) - _SHOWN:,} more: `gpudeck ls state:{shown_state(rows[0])}`", tone="dim")


def _waits(head: DeckHead) -> Iterator[Line]:
    if head.waits:
        yield Line("waits:", tone="bold")
        yield from (Line(f"  {field_text(text)}") for text in head.waits)


def _gpus(gpus: Sequence[GpuRow], screen: Screen) -> Iterator[Line]:
    if not gpus:
        return
    yield Line("gpus:", tone="bold")
    cells = [(f"  {name}", *rest) for name, *rest in map(gpu_cells, gpus)]
    yield from (Line(text) for text in columns_of(cells, screen.columns))


def _failures(rows: Sequence[TaskRow], hints: Mapping[str, str], logs: LogFolder) -> Iterator[Line]:
    if not rows:
        yield Line("nothing has failed", tone="good")
    for row in rows:
        parts = [row.state, row.name, f"attempt {row.attempt}" if row.attempt else "", row.reason]
        yield Line("  ".join(field_text(part) for part in parts if part), tone="bad")
        if row.name in hints:
            yield hint_line(hints[row.name])
        if row.attempt:
            yield from _log_lines(logs.paths(row.name, row.attempt, False))
    if rows:
        yield Line(f"`gpudeck retry state:{rows[0].state}` runs them again", tone="dim")


def _log_lines(paths: AttemptPaths) -> Iterator[Line]:
    """Where the log is, of standard error if there is any, and the lines that tell why."""
    from ...engine.logs.digest import digest  # with all the words by which failures are known

    lines = digest(paths.err, paths.out, _DIGEST)
    if lines:
        yield Line(f"  {field_text(telling_log(paths))}")
    yield from digest_lines(lines)
