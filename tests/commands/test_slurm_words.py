"""What commands print of tasks on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from gpudeck.engine.protocol.wire import State, TaskRow
from tests.inside.commands import (
    _instead,
    _place,
    _state,
    is_text,
    note_text,
    place_text,
    state_text,
    time_text,
    tone,
    waits_text,
)


def row(state: State = "starting", **more: Any) -> TaskRow:
    values: dict[str, Any] = {"attempt": 1, "job": "1234", "started": 1_000.0, "pending": "Priority", **more}
    return TaskRow(index=0, name="a", entry="a", state=state, **values)


RUNNING = row("running", nodes=("node1", "node2"), pending="")


def test_a_job_that_has_not_begun_is_pending() -> None:
    assert (state_text(row(held=True)), is_text(row())) == ("pending held", "is pending")


def test_a_pending_task_says_why_and_takes_no_time() -> None:
    assert (note_text(row()), time_text(row())) == ("Priority", "-")


def test_in_the_place_of_a_log_that_is_not_there_yet_stands_why_its_job_waits() -> None:
    assert [waits_text(found) for found in (row(), row(pending=""), row(job="", pending=""))] == [
        "waits: Priority",
        "waits: job 1234 has not begun",
        "is starting: it has no log yet",
    ]


def test_a_pending_retry_says_what_went_before() -> None:
    assert note_text(row(reason="exit 1", kind="exit")) == "Priority; before: exit 1"


def test_a_task_that_is_being_submitted_is_starting() -> None:
    assert (state_text(row(job="", pending="")), tone(row(job="", pending=""))) == ("starting", "bold")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (row(), "job 1234"),
        (RUNNING, "job 1234 on node[1-2]"),
        (row("running", job="", pending="", gpus=(0, 1)), "gpu 0-1"),
        (row("running", job="", pending=""), "cpu"),
    ],
)
def test_a_place_is_nodes_and_job_or_gpus(found: TaskRow, text: str) -> None:
    assert place_text(found) == text


def test_show_tells_the_job_and_nodes_of_an_attempt() -> None:
    ran = {"job": "1234", "nodes": ("node1", "node2"), "gpus": ()}
    assert _place(ran, {}) == "job 1234 on node[1-2]"


def test_explain_tells_the_job_of_what_is_pending() -> None:
    assert _state(row()).startswith("is pending: attempt 1, job 1234, submitted ")


def test_explain_tells_where_a_job_runs() -> None:
    assert _instead(RUNNING).startswith("does not wait: attempt 1 has been running as job 1234 on node[1-2] for ")
