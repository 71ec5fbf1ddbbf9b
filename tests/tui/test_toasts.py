"""What is said in a corner: few at a time, nothing over a question, nothing that is not so."""

from __future__ import annotations

from collections.abc import Iterable

from textual.notifications import Notification

from tests.inside.tui import MOST, Toast, Toasts, but_not, came_to_nothing, outcome


class Corner:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def show(self, notifications: Iterable[Notification]) -> None:
        self.texts = [each.message for each in notifications]


def corner() -> tuple[Corner, Toasts]:
    seen = Corner()
    return seen, Toasts(seen.show)


def test_the_oldest_makes_room() -> None:
    seen, toasts = corner()
    for text in ("a", "b", "c"):
        toasts.say(Toast(text))
    assert seen.texts == ["b", "c"]
    assert len(seen.texts) == MOST


def test_one_of_the_same_kind_takes_the_place_of_the_one_before() -> None:
    seen, toasts = corner()
    toasts.say(Toast("held"))
    for column in ("state", "time"):
        toasts.say(Toast(f"sorted by {column}", kind="sorting"))
    assert seen.texts == ["held", "sorted by time"]


def test_the_same_words_are_there_once() -> None:
    seen, toasts = corner()
    toasts.say(Toast("not here"))
    toasts.say(Toast("not here"))
    assert seen.texts == ["not here"]


def test_nothing_lies_over_a_question_and_it_is_said_afterwards() -> None:
    seen, toasts = corner()
    toasts.say(Toast("before"))
    toasts.hold()
    assert seen.texts == []
    toasts.say(Toast("meanwhile"))
    assert seen.texts == []
    toasts.release()
    assert seen.texts == ["before", "meanwhile"]


def test_a_retry_in_a_pause_says_that_nothing_starts() -> None:
    said = outcome("a runs again", note="the deck is paused: nothing starts until `gpudeck unpause`", undo_key="u")
    assert said == "a runs again; the deck is paused: nothing starts until P; u takes it back"


def test_what_cannot_be_taken_back_is_not_said_to_be() -> None:
    assert outcome("a runs again", note="", undo_key="") == "a runs again"


def test_what_came_to_nothing_is_told_with_its_reason() -> None:
    assert came_to_nothing({"a": "has succeeded"}) == "a has succeeded"
    left = {"a": "has succeeded", "b": "has succeeded", "c": "is held already"}
    assert came_to_nothing(left) == "a has succeeded; nothing was done to 2 others either"


def test_what_was_done_to_some_tasks_only_says_so() -> None:
    assert but_not({}) == ""
    assert but_not({"a": "has succeeded", "b": "x"}) == ", but not 2 of them: a has succeeded"
