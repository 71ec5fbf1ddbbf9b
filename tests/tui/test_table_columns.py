"""Which columns fit into which width."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.inside.tui import COLUMNS, DEFAULT, SPARK_CELLS, WIDE, Contents, chosen, known, measured
from tests.inside.tui import columns_lay_out as lay_out
from tests.tui.table_rig import row, running

FULL = {"name": 40, "flags": 1, "progress": 1, "eta": 7, "gpu": 3, "attempt": 1, "metric": 26, "reason": 60, "round": 1}


def ids(width: int, contents: dict[str, int] = FULL) -> list[str]:
    return [place.column.id for place in lay_out(chosen((), width), width, contents)]


def test_80_columns_show_state_name_bar_times_gpu_and_reason() -> None:
    assert ids(80) == ["state", "name", "flags", "progress", "time", "eta", "gpu", "reason"]


def test_a_wide_table_shows_all_that_there_is() -> None:
    assert ids(200) == list(WIDE)


def test_30_columns_still_tell_state_and_name() -> None:
    assert ids(30)[:2] == ["state", "name"]


def test_columns_that_have_nothing_to_say_are_left_out() -> None:
    assert ids(200, {**FULL, "metric": 0, "progress": 0, "round": 0, "flags": 0}) == [
        each for each in WIDE if each not in ("metric", "progress", "round", "flags")
    ]


def test_the_state_is_a_word_where_there_is_room() -> None:
    widths = [lay_out(DEFAULT, width, FULL)[0].width for width in (80, 120)]
    assert widths == [1, 11]


def test_a_column_is_as_wide_as_what_it_holds_to_the_cell() -> None:
    def gpu(cells: int) -> int:
        places = lay_out(DEFAULT, 200, {**FULL, "gpu": cells})
        return next(place.width for place in places if place.column.id == "gpu")

    assert [gpu(cells) for cells in range(3, 7)] == [3, 4, 5, 6]


@given(st.lists(st.sampled_from(list(COLUMNS)), unique=True), st.integers(1, 250), st.integers(0, 100))
def test_places_never_overlap_and_stay_inside(columns: list[str], width: int, cells: int) -> None:
    wanted, _ = known(columns)
    places = lay_out(chosen(wanted, width), width, dict.fromkeys(COLUMNS, cells))
    end = 0
    for place in places:
        assert place.x >= end
        end = place.x + place.width
    assert end <= width or width < 3


def test_unknown_columns_are_named_and_state_and_name_are_always_there() -> None:
    assert known(["gpu", "colour"]) == (["state", "name", "gpu"], ["colour"])


def test_contents_only_grow_until_the_rows_are_others() -> None:
    contents = Contents()
    contents.reset([row(0, name="x" * 20)], ())
    assert not contents.update([row(0, name="x")], ())
    assert contents.update([row(0, name="字" * 15)], ())
    assert contents.cells["name"] == 30
    contents.reset([row(0, name="x")], ())
    assert contents.cells["name"] == 1


def test_optional_columns_are_measured_when_they_were_chosen() -> None:
    assert measured([row(0, tags=("large", "x"))], ("tags",))["tags"] == 7


def test_the_line_of_a_metric_gets_room_once_a_row_has_had_two_values() -> None:
    contents = Contents()
    contents.reset([running(0, metrics={"loss": 3.0}, curve=(3.0,)), running(1, metrics={"accuracy": 0.5})], ())
    before = contents.cells["metric"]
    assert contents.update([running(0, metrics={"loss": 2.0}, curve=(3.0, 2.0))], ())
    assert contents.cells["metric"] == before + 1 + SPARK_CELLS


def test_why_has_the_room_of_lines_that_no_metric_has_yet() -> None:
    def why(metric: int) -> int:
        places = lay_out(DEFAULT, 118, {**FULL, "metric": metric})
        return next(place.width for place in places if place.column.id == "reason")

    assert why(17) > why(26)
