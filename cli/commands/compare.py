"""`gpudeck compare`: two settings side by side, and whether their difference is real."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ...engine.client.place import say
from ...engine.command import Command
from ...engine.errors import UsageError
from ...engine.headless.painted import Line, Tone
from ...engine.results.compare import Compared, Comparison, Verdict, compare
from ...engine.results.difference import MOST_MORE
from ...engine.results.results import Records, Result, metrics_of, results_of
from ...engine.results.table import decimals_for, finite
from ...engine.serve.offline import tasks_meant
from ...engine.text import columns_of, field_text, measured, names_text
from .screen import out, print_json
from .table import asked_metrics, opened, succeeded, tell_what_they_are, ways, words

_TONES: dict[Verdict, Tone] = {"first": "bold", "second": "bold", "open": "plain", "few": "dim"}


def run(command: Command) -> int:
    """Print a line for each metric and setting that both sides have. Raises DeckError."""
    given, over = command.given, words(command.given.get("over") or ())
    offline = opened(command)
    if len(command.words) != 2:
        raise UsageError("compare: name two settings: `gpudeck compare method=adam method=sgd --over seed`")
    sides = [tasks_meant(offline, word.split()) for word in command.words]
    for word, tasks in zip(command.words, sides, strict=True):
        if not tasks:
            raise UsageError(f"no task is {word} now")
    records, everything = Records(offline.logs, offline.deck, offline.file.vars), [*sides[0], *sides[1]]
    asked = asked_metrics(given.get("metric") or (), metrics_of(records, everything))
    results = results_of(records, everything, asked)  # together: a value that one has by a retry the others have, too
    done = {result.task for result in succeeded(results, others=False)}
    parts = results[: len(sides[0])], results[len(sides[0]) :]
    first, second = ([result for result in side if result.task in done] for side in parts)
    found = compare(first, second, ways(everything, asked), over, paired=command.flag("paired"))
    if not found.rows:
        raise UsageError(_why_nothing(found, command.words, first, second))
    tell_what_they_are(command, [*first, *second], offline.deck)
    if command.flag("json"):
        print_json([_plain(row, found.params) for row in found.rows])
        return 0
    screen = out(command)
    screen.show(list(_lines(found, command.words, screen.columns)))
    if found.params and all(row.verdict == "few" for row in found.rows):
        say(
            f"each row has one run of each: `--over KEY` takes runs together, such as seeds ({', '.join(found.params)})"
        )
    if found.lonely:
        say(f"left out, without a counterpart: {field_text(names_text(sorted(found.lonely)))}")
    return 0


def _why_nothing(found: Comparison, words: Sequence[str], first: Sequence[Result], second: Sequence[Result]) -> str:
    if missing := [word for word, side in zip(words, (first, second), strict=True) if not side]:
        return f"{' and '.join(missing)}: no task of it has succeeded"
    both = f"{words[0]} and {words[1]}: nothing to compare"
    if found.params:
        return f"{both}: no values of {', '.join(found.params)} are of both; --over averages over a key"
    return f"{both}: no metric has values on both sides"


def _lines(found: Comparison, sides: Sequence[str], width: int | None) -> Iterator[Line]:
    heads = (*found.params, "metric", *map(field_text, sides), "difference", "95 %", "")
    cells = [(*map(field_text, row.setting), *_cells(row, sides)) for row in found.rows]
    head, *lines = columns_of([heads, *cells], width)
    yield Line(head, tone="bold")
    for text, row in zip(lines, found.rows, strict=True):
        yield Line(text, tone=_TONES[row.verdict])


def _cells(row: Compared, sides: Sequence[str]) -> tuple[str, ...]:
    """With as many decimals as show half of the interval in two digits."""
    found = row.difference
    means, ends = [sum(side) / len(side) for side in (found.first, found.second)], found.interval
    decimals = decimals_for(means, [] if ends is None else [(ends[1] - ends[0]) / 2])
    return (
        field_text(row.metric),
        _mean(found.first, decimals),
        _mean(found.second, decimals),
        _signed(found.mean, decimals),
        "-" if ends is None else f"{_signed(ends[0], decimals)} to {_signed(ends[1], decimals)}",
        _in_words(row, sides),
    )


def _mean(values: Sequence[float], decimals: int | None) -> str:
    return f"{measured(sum(values) / len(values), decimals)} (n={len(values)})"


def _signed(value: float, decimals: int | None) -> str:
    text = measured(value, decimals)
    return f"+{text}" if value > 0 else text


def _in_words(row: Compared, sides: Sequence[str]) -> str:
    if row.verdict in ("first", "second"):
        side, higher = (
            (sides[0], row.difference.mean < 0) if row.verdict == "first" else (sides[1], row.difference.mean > 0)
        )
        better = "better" if row.best != "last" else "higher" if higher else "lower"
        return f"{field_text(side)} is {better}"
    if row.verdict == "few":
        values = [*row.difference.first, *row.difference.second]
        return (
            "not told: one is not a number" if not all(map(math.isfinite, values)) else "not told: one value is too few"
        )
    more = row.difference.more
    return "not told apart" + (
        f"; about {more} more of each would"
        if more
        else ""
        if not row.difference.mean
        else f"; {MOST_MORE}+ more of each would"
    )


def _plain(row: Compared, params: Sequence[str]) -> dict[str, Any]:
    difference, ends = row.difference, row.difference.interval
    return {
        "setting": dict(zip(params, row.setting, strict=True)),
        "metric": row.metric,
        "best": row.best,
        "first": _side(difference.first),
        "second": _side(difference.second),
        "paired": difference.paired,
        "difference": finite(difference.mean),
        "interval": None if ends is None else list(ends),
        "verdict": row.verdict,
        "more": difference.more,
    }


def _side(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": finite(sum(values) / len(values)), "n": len(values), "values": list(map(finite, values))}
