"""What a box of the graph says, in it and below all."""

from __future__ import annotations

from gpudeck.engine.protocol.pages import GraphBarrier
from gpudeck.engine.protocol.wire import TaskRow
from tests.inside.tui import filtering_parse as parse
from tests.inside.tui import lines_filter_for as filter_for
from tests.inside.tui import told, width_of
from tests.tui.graph_samples import box, drawn, edge, graph


def test_the_box_under_the_cursor_is_told_by_its_border() -> None:
    assert drawn(graph([box("a"), box("b")]), 1)[4].startswith("┏━b━")


def test_a_box_with_many_states_shows_what_needs_eyes_first() -> None:
    line = drawn(graph([box("a", running=1000, failed=200, blocked=30, queued=5000, waiting=7)]))[2]
    assert line.startswith("│ ● 1,000  ✗ 200")


def test_names_that_are_too_long_are_cut_in_the_middle() -> None:
    head = drawn(graph([box("x" * 50 + "-{seed}")]))[0]
    assert width_of(head) == 34
    assert "…" in head
    assert "-{seed}" in head


def test_the_filter_of_a_box_means_its_tasks() -> None:
    row = TaskRow(index=0, name="t", entry='train[0], "a" *', state="queued", round=2, group="x y")
    found = parse(filter_for(box(row.entry, 2, row.group)))
    assert found.matches(row, {})
    assert not found.matches(TaskRow(index=1, name="t", entry="train0", state="queued", round=2, group="x y"), {})


def test_a_box_is_told_with_what_keeps_its_round_closed() -> None:
    shut = GraphBarrier(round=1, state="shut", why="round 0 closed by 1 failed: a-3", tasks=("a-3",))
    found = graph([box("a", failed=1), box("b", 1)], barriers=[shut])
    assert told(found, 1) == "b  ·  round 1  ·  round 0 closed by 1 failed: a-3"


def test_a_box_is_told_with_what_it_waits_for_by_name_and_by_order() -> None:
    found = graph([box("a"), box("b"), box("c"), box("d")], [edge(0, 3), edge(1, 3), edge(2, 3, "after")])
    assert told(found, 3) == "d  ·  round 0  ·  needs a, b  ·  after c"
