"""Rows of tasks on a cluster: their cells, columns, order and filter."""

from __future__ import annotations

from typing import Any

import pytest

from gpudeck.engine.protocol.wire import TaskRow
from tests.inside.tui import (
    COLUMNS,
    Frame,
    Moment,
    cell,
    chosen,
    gpu_words,
    measured,
    nothing_words,
    plain_text,
    sort_key,
    source_of,
    title_of,
)
from tests.inside.tui import columns_lay_out as lay_out
from tests.inside.tui import filtering_parse as parse
from tests.tui.table_rig import NOW_S, row, running


def pending(index: int = 0, **more: Any) -> TaskRow:
    values: dict[str, Any] = {"attempt": 1, "job": "1234", "started": NOW_S - 60, "pending": "Priority", **more}
    return row(index, "starting", **values)


def on_nodes(index: int, *nodes: str, **more: Any) -> TaskRow:
    return running(index, gpus=(), job=str(1000 + index), nodes=nodes, **more)


def said(column: str, found: TaskRow, width: int = 40) -> str:
    return "".join(text for text, _ in cell(column, found, width, Moment(NOW_S)))


LEAST = COLUMNS["reason"].least


@pytest.mark.parametrize(
    ("column", "found", "width", "text"),
    [
        ("state", pending(), 40, "◔ pending"),
        ("reason", pending(), 40, "Priority"),
        ("reason", pending(pending="begins ~14:05, Priority"), LEAST, "begins ~14:05…"),
        ("reason", pending(pending="begins ~26 Nov 14:05, Priority"), LEAST, "~26 Nov 14:05…"),
        ("reason", pending(pending="QOSMaxGRESPerUser"), LEAST, "QOSMaxGRESPer…"),
        ("reason", pending(reason="exit 1", kind="exit"), 40, "Priority; before: exit 1"),
        ("state", row(0, "starting", attempt=1), 40, "◔ starting"),
        ("time", pending(), 40, ""),
        ("eta", pending(expected_s=600.0), 40, ""),
        ("node", on_nodes(3, "gpu1", "gpu2"), 40, "gpu[1-2]"),
        ("job", on_nodes(3, "gpu1", "gpu2"), 40, "1003"),
    ],
)
def test_a_cell_says(column: str, found: TaskRow, width: int, text: str) -> None:
    assert said(column, found, width) == text


def test_elsewhere_a_task_names_its_job_and_its_nodes() -> None:
    assert [gpu_words(found) for found in (pending(), on_nodes(3, "gpu1"))] == ["job 1234", "job 1003 on gpu1"]


def test_copied_cells_say_pending_too() -> None:
    assert plain_text("state", pending(held=True), NOW_S) == "pending held"


def test_a_slurm_deck_has_nodes_and_jobs_in_the_place_of_gpus() -> None:
    columns = chosen((), 160, slurm=True)
    at = list(columns).index("node")
    assert (list(columns[at : at + 2]), "gpu" in columns) == (["node", "job"], False)


def test_columns_that_the_user_chose_stay() -> None:
    assert chosen(("state", "name", "gpu"), 160, slurm=True) == ("state", "name", "gpu")


def test_a_job_is_never_cut() -> None:
    rows = [on_nodes(0, "gpu[1-200]", name="x" * 60, reason="y" * 60), pending(1, job="1234567")]
    places = lay_out(chosen((), 120, slurm=True), 120, measured(rows, ()))
    assert next(place.width for place in places if place.column.id == "job") >= len("1234567")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("state:pending", ["task-0", "task-3"]),
        ("state:starting", ["task-0", "task-3"]),
        ("-state:pending", ["task-1", "task-2"]),
        ("node:gpu1", ["task-1", "task-2"]),
        ("node:gpu*", ["task-1", "task-2"]),
        ("job:1234", ["task-0"]),
        ("job:77", ["task-3"]),
        ("gpu2", ["task-2"]),
        ("1002", ["task-2"]),
    ],
)
def test_nodes_jobs_and_pending_are_filtered_for(text: str, names: list[str]) -> None:
    rows = [pending(0), on_nodes(1, "gpu1"), on_nodes(2, "gpu1", "gpu2"), pending(3, job="77_4")]
    assert [found.name for found in rows if parse(text).matches(found, {})] == names


def test_nodes_and_jobs_sort_by_their_numbers() -> None:
    nodes = [on_nodes(0, "gpu10"), on_nodes(1, "gpu9")]
    jobs = [pending(0, job="1000"), pending(1, job="999")]
    assert sort_key("node", nodes[1]) < sort_key("node", nodes[0])
    assert sort_key("job", jobs[1]) < sort_key("job", jobs[0])


def test_what_is_pending_sorts_behind_what_runs_by_state() -> None:
    assert sort_key("state", on_nodes(1, "gpu1")) < sort_key("state", pending())


# -- logs -------------------------------------------------------------------------------------------------------------


def test_over_the_log_of_a_pending_task_stands_why_it_waits() -> None:
    assert title_of(pending(pending="begins ~14:05, Priority"), None, NOW_S) == (
        "◔ task-0 · pending · job 1234 · has not run · begins ~14:05, Priority"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"job": "1234", "pending": True}, "waits in the cluster's queue: nothing written yet"),
        ({"job": "1234", "pending": False}, "nothing written yet"),
        ({"job": "", "pending": True}, "nothing written yet"),
    ],
)
def test_in_the_place_of_a_log_stands_that_its_job_waits(more: dict[str, Any], words: str) -> None:
    running = {"number": 1, "log": "/logs/a/attempt-1.log", "err": "/logs/a/attempt-1.log", **more}
    source = source_of({"name": "a", "attempts": (), "running": running})
    assert source is not None
    assert nothing_words(Frame(missing=True), running=source.running, pending=source.pending) == words
