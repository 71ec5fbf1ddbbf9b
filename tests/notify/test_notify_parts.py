"""Messages, marks, pace and names, part by part."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import Notify
from tests.inside.notify import (
    MAX_LINES,
    Happening,
    Mark,
    Notice,
    Origin,
    Sender,
    Settings,
    Targets,
    fold,
    resolve,
    sender,
)

ORIGIN = Origin("demo", "/home/a/tasks.toml", "box", "/home/a/logs")
DEADLINE_S = 30.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens at once is gathered for a moment only."""
    monkeypatch.setattr(sender, "GATHER_S", 0.02)


def failure(name: str, *, past: bool = False, run: int = 1) -> Happening:
    return Happening("failure", f"{name} failed", run, "failure", f"failed {name} 1", past, task=name, digest=("why",))


class Post:
    """Keeps what is to be delivered; answers what it is told to."""

    def __init__(self) -> None:
        self.got: list[Notice] = []
        self.trouble = ""
        self.arrived = threading.Semaphore(0)

    def __call__(self, notice: Notice, *_: object) -> dict[str, str]:
        self.got.append(notice)
        self.arrived.release()
        return {"the command": self.trouble}


class Sending:
    """A sender whose post is kept."""

    def __init__(self, folder: Path, *, every_s: float) -> None:
        self.post = Post()
        self.notes: list[str] = []
        notify = Notify(command="true", every_s=every_s)
        settings = Settings(notify, Targets((), "true"), ORIGIN, {})
        self.mark = str(folder / "notified.json")
        self.sender = Sender(settings, Mark(self.mark), self.notes.append, deliver=self.post)

    def until_sent(self) -> None:
        assert self.post.arrived.acquire(timeout=DEADLINE_S)

    def close(self) -> None:
        over = threading.Event()
        self.sender.close(over.set)
        assert over.wait(DEADLINE_S)


def test_500_failures_are_one_message_with_a_count_and_few_lines():
    notice = fold(ORIGIN, [failure(f"t{n}") for n in range(500)])
    assert notice.title == "demo: 500 tasks failed"
    assert f"and {500 - MAX_LINES} more" in notice.body
    assert len(notice.body.splitlines()) < 100
    assert notice.data["counts"] == {"failure": 500}


def test_the_end_makes_the_title_whatever_else_happened():
    end = Happening("end", "ended: 1 failed", 1, "failure")
    assert fold(ORIGIN, [failure("a"), end, failure("b")]).title == "demo: ended: 1 failed"


def test_a_message_holds_nothing_that_a_terminal_obeys():
    hostile = Happening("failure", "a\x1b]52;c;x\x07 \u202efailed", 1, "failure", digest=("\x1b[31mred\x9b2J",))
    notice = fold(ORIGIN, [hostile])
    assert all(char.isprintable() or char == "\n" for char in notice.title + notice.body)
    assert "\u202e" not in notice.body


def test_what_happens_within_the_pace_becomes_the_next_message(tmp_path: Path):
    sending = Sending(tmp_path, every_s=3600)
    sending.sender.put(failure("first"))
    sending.until_sent()
    for name in "abc":
        sending.sender.put(failure(name))
    sending.close()
    assert [notice.data["counts"]["failure"] for notice in sending.post.got] == [1, 3]


def test_what_cannot_be_sent_is_said_again_only_after_it_has_worked(tmp_path: Path):
    sending = Sending(tmp_path, every_s=0)
    for name, trouble in (("a", "no"), ("b", "no"), ("c", ""), ("d", "no")):
        sending.post.trouble = trouble
        sending.sender.put(failure(name))
        sending.until_sent()
    sending.close()
    assert len(sending.notes) == 2
    assert sending.notes[0].startswith("notify: not sent to the command: no")


def test_an_engine_that_finds_no_mark_tells_nothing_of_what_is_past(tmp_path: Path):
    sending = Sending(tmp_path, every_s=0)
    sending.sender.put(failure("old", past=True))
    sending.close()
    assert sending.post.got == []


def test_what_an_earlier_engine_has_told_is_not_told_again_and_the_rest_is(tmp_path: Path):
    first = Sending(tmp_path, every_s=0)
    first.sender.put(failure("told"))
    first.close()
    second = Sending(tmp_path, every_s=0)
    second.sender.put(failure("told", past=True))
    second.sender.put(failure("untold", past=True))
    second.close()
    assert [event["task"] for notice in second.post.got for event in notice.data["events"]] == ["untold"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"run": "x", "told": 3}', "null"])
def test_a_mark_that_cannot_be_read_stops_nothing(tmp_path: Path, content: str):
    (tmp_path / "notified.json").write_text(content)
    sending = Sending(tmp_path, every_s=0)
    sending.sender.put(failure("new"))
    sending.close()
    assert len(sending.post.got) == 1


def test_urls_take_variables_and_are_called_by_their_kind():
    notify = Notify(urls=("{env.A}", "slack://{team}/x", "{env.NONE}", "no url"))
    found = resolve(notify, {"team": "t"}, {"A": "json://h/k"})
    assert found.urls == (("URL 1 (json)", "json://h/k"), ("URL 2 (slack)", "slack://t/x"))
    assert len(found.problems) == 2


def test_settings_and_targets_show_no_url():
    notify = Notify(urls=("json://hush",), command="hush")
    assert "hush" not in f"{notify} {notify!r} {resolve(notify, {}, {})!r}"


def test_what_is_told_of_a_notify_table_names_only_what_it_has() -> None:
    told = [repr(Notify(urls=urls, command="x", on=frozenset({"end"}))) for urls in ((), ("u",), ("u", "v"))]
    assert told == ["a command on end", "1 URL and a command on end", "2 URLs and a command on end"]
