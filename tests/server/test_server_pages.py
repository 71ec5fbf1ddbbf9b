"""A live engine tells the further pages of a screen what they show, and takes back what it was asked for."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from gpudeck.engine.errors import UsageError
from tests.fakes.live_deck import LiveDeck, live_deck
from tests.inside.server import Connection

DECK = """
[deck]
gpus = "sim:1"

[[task]]
name = "bad-{i}"
matrix.i = [1, 2]
command = "echo one; echo 'ValueError: no such rate' >&2; exit 3"

[[task]]
name = "long"
command = "touch up; while [ ! -e go ]; do sleep 0.05; done"

[[task]]
name = "late"
command = "true"

[[task]]
name = "report"
round = 1
gpus = 0
needs = ["long"]
command = "true"
"""


@pytest.fixture
def deck(tmp_path: Path) -> Generator[LiveDeck]:
    """Two tasks have failed, `long` has the only GPU."""
    with live_deck(tmp_path, DECK) as deck:
        deck.start()
        with deck.client() as client:
            deck.until_states(client, **{"bad-1": "failed", "bad-2": "failed", "long": "running", "late": "queued"})
        yield deck


def state(client: Connection, name: str) -> str:
    return client.request("rows", tasks=[name])[0]["state"]


def test_a_retry_is_taken_back_by_what_its_reply_gave(deck: LiveDeck) -> None:
    with deck.client() as client:
        before = client.request("rows", tasks=["bad-1"])
        undo = client.request("retry", tasks=["bad-1"])["undo"]
        assert state(client, "bad-1") == "queued"
        told = client.request("undo", undo=undo)
        assert (told["tasks"], told["text"]) == (["bad-1"], "retry of bad-1 taken back")
        assert client.request("rows", tasks=["bad-1"]) == before


def test_what_has_started_meanwhile_is_named_and_left(deck: LiveDeck) -> None:
    with deck.client() as client:
        undo = client.request("retry", tasks=["bad-1", "bad-2"])["undo"]
        (deck.folder / "go").touch()
        deck.until_states(client, **{"bad-1": "failed", "bad-2": "failed"})
        told = client.request("undo", undo=undo)
        assert told["tasks"] == []
        assert told["left"] == {"bad-1": "it has run meanwhile", "bad-2": "it has run meanwhile"}
        assert told["text"] == "not bad-1, bad-2: they have run meanwhile"


def test_a_retry_and_a_release_on_a_paused_deck_note_that_nothing_starts(deck: LiveDeck) -> None:
    note = "the deck is paused: nothing starts until `gpudeck unpause`"
    with deck.client() as client:
        assert client.request("retry", tasks=["bad-1"])["note"] == ""
        client.request("pause")
        assert client.request("retry", tasks=["bad-2"])["note"] == note
        client.request("hold", tasks=["late"])
        assert client.request("release", tasks=["late"])["note"] == note


def test_a_row_tells_when_its_attempt_ended_and_how_its_retries_stand(deck: LiveDeck) -> None:
    with deck.client() as client:
        (row,) = client.request("rows", tasks=["bad-1"])
        (attempt,) = [row for row in client.request("timeline")["attempts"] if row["task"] == "bad-1"]
        assert row["ended"] == attempt["end"]
        assert (row.get("retries", 0), row.get("retries_used", 0), row.get("merged", False)) == (0, 0, False)


def test_a_drained_gpu_and_a_pause_are_taken_back(deck: LiveDeck) -> None:
    with deck.client() as client:
        drained = client.request("gpu", verb="drain", gpus=["0"])["undo"]
        paused = client.request("pause")["undo"]
        assert client.request("undo", undo=drained)["text"] == "drain of GPU 0 taken back"
        assert client.request("undo", undo=paused)["text"] == "pause taken back"
        head = client.request("status")
        assert (head["head"]["paused"], head["gpus"][0].get("mark", "")) == ("", "")


def test_a_second_undo_says_that_nothing_is_left(deck: LiveDeck) -> None:
    with deck.client() as client:
        undo = client.request("hold", tasks=["late"])["undo"]
        client.request("undo", undo=undo)
        told = client.request("undo", undo=undo)
        assert told["text"] == "not late: it has been changed since"


def test_an_undo_of_nothing_known_is_refused(deck: LiveDeck) -> None:
    with deck.client() as client, pytest.raises(UsageError, match="cannot be taken back any more"):
        client.request("undo", undo="no such")


def test_an_argument_that_a_request_does_not_have_is_refused(deck: LiveDeck) -> None:
    without = ("cluster", "written", "graph", "start")
    looks = ("select", "rows", "explain", "want", "offer", "show", "timeline", "errors")
    acts = ("preempt", "retry", "cancel", "priority", "pause", "undo", "gpu", "change", "apply")
    with deck.client() as client:
        for op in (*without, *looks, *acts):
            with pytest.raises(UsageError, match="unknown field `sinse`"):
                client.request(op, sinse=0)


def test_the_timeline_has_every_attempt_with_its_gpu_and_end(deck: LiveDeck) -> None:
    with deck.client() as client:
        page = client.request("timeline")
        rows = {row["task"]: row for row in page["attempts"]}
        assert {name: (row.get("kind", ""), row["gpus"]) for name, row in rows.items()} == {
            "bad-1": ("exit", [0]), "bad-2": ("exit", [0]), "long": ("", [0])
        }  # fmt: skip
        assert rows["bad-1"]["start"] <= rows["bad-1"]["end"] <= rows["bad-2"]["end"] <= page["now"]
        assert "end" not in rows["long"]
        assert page["next"] is None


def test_the_timeline_leaves_out_what_ended_before_the_time_asked_for(deck: LiveDeck) -> None:
    with deck.client() as client:
        now = client.request("timeline")["now"]
        assert [row["task"] for row in client.request("timeline", since=now)["attempts"]] == ["long"]


def test_the_graph_has_entries_by_round_with_counts_edges_and_barriers(deck: LiveDeck) -> None:
    with deck.client() as client:
        graph = client.request("graph")
        boxes = [(box["entry"], box["round"], box["counts"]) for box in graph["boxes"]]
        assert boxes == [
            ("bad-{i}", 0, {"failed": 2}), ("long", 0, {"running": 1}), ("late", 0, {"queued": 1}),
            ("report", 1, {"blocked": 1}),
        ]  # fmt: skip
        assert graph["edges"] == [{"before": 1, "behind": 3, "kind": "needs"}]
        (barrier,) = graph["barriers"]
        assert (barrier["round"], barrier["state"]) == (1, "shut")
        assert barrier["why"] == "round 0 closed by 2 failed: bad-1, bad-2"


def test_the_errors_name_reason_time_and_files_the_newest_first(deck: LiveDeck) -> None:
    with deck.client() as client:
        told = client.request("errors")
        assert told["total"] == 2
        assert [row["task"] for row in told["failures"]] == ["bad-2", "bad-1"]
        row = told["failures"][0]
        assert (row["kind"], row["exit_code"], row["attempt"], row["gpus"]) == ("exit", 3, 1, [0])
        assert "ValueError: no such rate" in row["reason"]
        assert Path(row["err"]).read_text() == "ValueError: no such rate\n"
        assert os.path.isabs(row["log"])
        assert client.request("errors", limit=1)["total"] == 2
