"""Entries become boxes in columns, what waits for what becomes lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.protocol.pages import Graph, GraphBarrier
from tests.inside.tui import BOX_HEIGHT, line_of, same_shape, width_of
from tests.inside.tui import graph_layout_lay_out as lay_out
from tests.tui.graph_samples import box, drawn, edge, graph


def columns(given: Graph) -> list[list[str]]:
    return [[given.boxes[place].entry for place in column] for column in lay_out(given).columns]


def test_rounds_are_columns() -> None:
    assert columns(graph([box("a"), box("b"), box("c", 1), box("d", 7)])) == [["a", "b"], ["c"], ["d"]]


def test_what_needs_something_of_its_own_round_stands_behind_it() -> None:
    assert columns(graph([box("a"), box("b"), box("c", 1)], [edge(0, 1)])) == [["a"], ["b"], ["c"]]


def test_rounds_of_different_groups_do_not_wait_for_each_other() -> None:
    assert columns(graph([box("a"), box("b", 1), box("c", 5, "side")])) == [["a", "c"], ["b"]]


def test_a_line_leads_from_a_box_to_the_one_that_needs_it() -> None:
    assert drawn(graph([box("a", succeeded=1), box("b", queued=2)], [edge(0, 1)])) == [
        "╭─a────────────────╮       ╭─b────────────────╮",
        "│ ━━━━━━━━━━━━ 1/1 │──────▶│ ──────────── 0/2 │",
        "│ ✓ done           │       │ ○ 2              │",
        "╰──────────────────╯       ╰──────────────────╯",
    ]


def test_a_line_to_two_boxes_parts() -> None:
    text = drawn(graph([box("a"), box("b"), box("c")], [edge(0, 1), edge(0, 2)]))
    assert text[1][20:27] == "─┬────▶"
    assert text[5][20:27] == " └────▶"


def test_a_long_line_passes_the_columns_between() -> None:
    text = drawn(graph([box("a"), box("b"), box("c")], [edge(0, 1), edge(1, 2), edge(0, 2)]))
    assert text[4][21] == "└"
    assert set(text[4][22:48]) == {"─"}


def test_a_shut_round_has_a_wall_before_it() -> None:
    shut = GraphBarrier(round=1, state="shut", why="round 0 closed by 1 failed: a-3", tasks=("a-3",))
    found = graph([box("a", failed=1), box("b", 1)], barriers=[shut])
    assert [line[25] for line in drawn(found)] == ["╳"] * BOX_HEIGHT


def test_counts_alone_do_not_change_the_shape() -> None:
    one = graph([box("a", queued=2), box("b")], [edge(0, 1)])
    assert same_shape(one, graph([box("a", running=2), box("b")], [edge(0, 1)]))
    assert not same_shape(one, graph([box("a"), box("b")]))


def test_a_cycle_that_no_file_can_have_ends_all_the_same() -> None:
    assert len(columns(graph([box("a"), box("b")], [edge(0, 1), edge(1, 0), edge(0, 0)]))) <= 3


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(0, 9))
    boxes = [box(f"entry {at}", draw(st.integers(0, 3)), draw(st.sampled_from(["", "g"]))) for at in range(count)]
    pairs = st.tuples(st.integers(0, max(0, count - 1)), st.integers(0, max(0, count - 1)))
    kinds = st.sampled_from(["needs", "after"])
    edges = [edge(min(pair), max(pair), draw(kinds)) for pair in draw(st.lists(pairs, max_size=8)) if count]
    barriers = [GraphBarrier(round=number, state="waits", why="w") for number in draw(st.sets(st.integers(1, 3)))]
    return graph(boxes, edges, barriers)


@given(graphs(), st.integers(-1, 8))
def test_whatever_hangs_together_how_every_box_is_whole_and_lines_are_as_wide_as_the_canvas(
    given: Graph, chosen: int
) -> None:
    layout = lay_out(given)
    lines = ["".join(text for text, _ in line_of(layout, given, y, chosen)) for y in range(layout.height)]
    assert all(width_of(line) == layout.width for line in lines)
    assert sorted(place for column in layout.columns for place in column) == list(range(len(given.boxes)))
    for placed in layout.boxes:
        assert lines[placed.y][placed.x] in "╭┏"
        assert lines[placed.y + 3][placed.x + layout.box_width - 1] in "╯┛"
