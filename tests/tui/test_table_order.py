"""What the table shows and in which order: after any changes the same as worked out from scratch."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpudeck.engine.protocol.wire import TaskRow
from tests.fakes.change import Change, fold
from tests.inside.tui import DeckModel, Order, TableState, natural
from tests.inside.tui import filtering_parse as parse
from tests.tui.table_rig import change, deck_of, row, running

STATES = ("waiting", "queued", "running", "backoff", "succeeded", "failed", "blocked")
FILTERS = (
    "", "state:failed", "state:failed,running", "-state:succeeded", "a", "lr=0.1", "gpu:1", "gpu:GPU-b", "tag:big",
)  # fmt: skip
SORTS = ("file", "state", "name", "time", "eta", "gpu", "metric", "progress", "attempt", "priority", "entry")

rows = st.builds(
    TaskRow,
    index=st.just(0),
    name=st.sampled_from(["a", "b-2", "b-10", "c-0.5", "c-0.375", "Ä", "字", "a1b", ""]),
    entry=st.sampled_from(["", "x", "y"]),
    state=st.sampled_from(STATES),
    started=st.none() | st.floats(0, 10),
    duration_s=st.none() | st.floats(0, 10),
    eta_s=st.none() | st.floats(0, 3),
    progress=st.none() | st.floats(0, 1),
    attempt=st.integers(0, 2),
    priority=st.integers(-1, 1),
    gpus=st.sampled_from([(), (0,), (1,), (0, 1)]),
    tags=st.sampled_from([(), ("big",)]),
    params=st.sampled_from([{}, {"lr": "0.10"}, {"lr": "1"}]),
    metrics=st.dictionaries(st.just("loss"), st.floats(), max_size=1),
)


class AnyChanges(RuleBasedStateMachine):
    """Changes, filters, sorts and moves in any order."""

    @initialize(many=st.lists(rows, max_size=12))
    def begin(self, many: list[TaskRow]) -> None:
        self.deck = DeckModel()
        self.state = TableState()
        self.picture(many)

    def _named(self, index: int, found: TaskRow) -> TaskRow:
        return msgspec.structs.replace(found, index=index, name=f"{found.name}#{index}")

    @rule(many=st.lists(rows, max_size=12))
    def picture(self, many: list[TaskRow]) -> None:
        by_index = {index: self._named(index, found) for index, found in enumerate(many)}
        self._show(Change(reset=True, total=len(many), whole=True, rows=by_index))

    @rule(many=st.dictionaries(st.integers(0, 15), rows, max_size=6))
    def change(self, many: dict[int, TaskRow]) -> None:
        """Tasks keep their names, and new ones come at the end."""
        known = self.deck.rows
        rows = {
            index: msgspec.structs.replace(found, index=index, name=known[index].name)
            for index, found in many.items()
            if index in known
        }
        if len(known) in many:
            rows[len(known)] = self._named(len(known), many[len(known)])
        self._show(Change(rows=rows))

    def _show(self, what: Change) -> None:
        before = self.state.name
        changed = fold(self.deck, what)
        self.state.show(self.deck, changed)
        self._cursor_stays(before)

    @rule(text=st.sampled_from(FILTERS))
    def filter(self, text: str) -> None:
        before = self.state.name
        self.state.set_filter(parse(text))
        self._cursor_stays(before)

    @rule(column=st.sampled_from(SORTS), descending=st.booleans())
    def sort(self, column: str, descending: bool) -> None:
        before = self.state.name
        self.state.set_sort(column, descending=descending)
        self._cursor_stays(before)

    @rule()
    def resort(self) -> None:
        before = self.state.name
        self.state.resort()
        self._cursor_stays(before)
        assert self.state.order.shown == self._from_scratch()

    @precondition(lambda self: bool(self.state.order.shown))
    @rule(place=st.integers(-2, 20))
    def move(self, place: int) -> None:
        self.state.move_to(place)

    def _cursor_stays(self, before: str) -> None:
        if before and before in {self.deck.rows[index].name for index in self.state.order.shown}:
            assert self.state.name == before

    def _from_scratch(self) -> list[int]:
        order, fresh = self.state.order, Order()
        fresh.set_filter(order.filter)
        fresh.set_sort(order.column, descending=order.descending)
        fresh.reset(self.deck.rows, {})
        return fresh.shown

    @invariant()
    def the_same_rows_are_shown(self) -> None:
        assert sorted(self.state.order.shown) == sorted(self._from_scratch())

    @invariant()
    def without_pending_rows_the_order_is_the_same(self) -> None:
        if not self.state.order.pending:
            assert self.state.order.shown == self._from_scratch()

    @invariant()
    def the_cursor_is_on_a_shown_task_where_there_is_one(self) -> None:
        order = self.state.order
        assert (self.state.cursor is not None) == bool(order.shown)
        if self.state.cursor is not None:
            assert order.shown[self.state.place] == self.state.cursor

    @invariant()
    def every_shown_row_is_found_at_its_place(self) -> None:
        order = self.state.order
        assert [order.place_of(index) for index in order.shown] == list(range(len(order.shown)))


TestAnyChanges = AnyChanges.TestCase


def _sorted_names(many: list[TaskRow], column: str, *, descending: bool = False) -> list[str]:
    order = Order()
    deck = deck_of(many)
    order.reset(deck.rows, {})
    order.set_sort(column, descending=descending)
    return [deck.rows[index].name for index in order.shown]


def test_numbers_in_names_sort_by_their_value() -> None:
    names = ["run-10", "run-2", "rate-0.5", "rate-0.375"]
    assert sorted(names, key=natural) == ["rate-0.375", "rate-0.5", "run-2", "run-10"]


def test_what_runs_comes_first_by_state_then_what_failed() -> None:
    many = [row(0, "succeeded"), row(1, "queued"), row(2, "failed"), running(3)]
    assert _sorted_names(many, "state") == ["task-3", "task-2", "task-1", "task-0"]


@pytest.mark.parametrize("descending", [False, True])
def test_rows_without_a_metric_come_last_both_ways(descending: bool) -> None:
    many = [
        row(0),
        row(1, "succeeded", metrics={"loss": 2.0}),
        row(2, "succeeded", metrics={"loss": float("nan")}),
        row(3, "succeeded", metrics={"loss": 1.0}),
    ]
    assert _sorted_names(many, "metric", descending=descending)[2:] == ["task-0", "task-2"]


@pytest.mark.parametrize("descending", [False, True])
def test_equal_rows_stay_in_file_order_both_ways(descending: bool) -> None:
    many = [row(index, metrics={"loss": 1.0}) for index in range(5)]
    assert _sorted_names(many, "metric", descending=descending) == [f"task-{index}" for index in range(5)]


def test_of_what_runs_the_longest_comes_first_by_descending_time() -> None:
    many = [running(0, started=50.0), row(1, "succeeded", duration_s=9000.0), running(2, started=10.0)]
    assert _sorted_names(many, "time", descending=True) == ["task-2", "task-0", "task-1"]


def test_a_changed_key_waits_for_the_resort() -> None:
    deck = deck_of([running(0, metrics={"loss": 1.0}), running(1, metrics={"loss": 2.0})])
    order = Order()
    order.reset(deck.rows, {})
    order.set_sort("metric", descending=False)
    order.update(change(deck, 0, metrics={"loss": 3.0}))
    assert (order.shown, order.pending) == ([0, 1], True)
    order.resort()
    assert (order.shown, order.pending) == ([1, 0], False)


def test_the_cursor_comes_back_to_its_task_after_a_filter_that_nothing_matched() -> None:
    deck = deck_of([row(index) for index in range(4)])
    state = TableState()
    state.show(deck, None)
    state.move_to(2)
    state.set_filter(parse("nothing"))
    assert state.name == ""
    state.set_filter(parse(""))
    assert state.name == "task-2"


def test_the_cursor_stays_on_its_task_while_a_new_picture_comes() -> None:
    deck = deck_of([row(index) for index in range(4)])
    state = TableState()
    state.show(deck, None)
    state.move_to(3)
    state.show(deck, fold(deck, Change(reset=True, total=4, whole=False, rows={0: row(0), 1: row(1)})))
    assert state.name == "task-3"
    state.show(
        deck, fold(deck, Change(whole=True, rows={2: row(2), 3: row(3, name="other"), 4: row(4, name="task-3")}))
    )
    assert (state.name, state.cursor) == ("task-3", 4)
