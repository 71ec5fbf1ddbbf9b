"""Claims of decks that share a box: what one has is kept from the others, and they are told who has it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.claims_box import GPUS, Box, says
from tests.inside.adapters import Claims, Entry, byte_of, describe


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same login name wherever these tests run."""
    monkeypatch.setattr("gpudeck.engine.adapters.host.login_of", "root".format)


# -- one GPU, two decks ------------------------------------------------------------------------------------------------


def test_a_gpu_that_one_deck_has_is_refused_to_another(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    assert box.refused("b", "GPU-0") == {"GPU-0": says("a")}


def test_a_gpu_is_free_again_when_the_attempt_is_gone(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.end("a", "1")
    box.start("b", "2", "GPU-0")
    assert box.others("a") == {"GPU-0": says("b")}


def test_the_same_deck_may_start_another_attempt_beside_its_own(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.start("a", "2", "GPU-0")
    box.end("a", "1")
    assert box.others("b") == {"GPU-0": says("a")}


def test_the_last_of_several_attempts_lets_the_gpu_go(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.start("a", "2", "GPU-0")
    box.end("a", "1")
    box.end("a", "2")
    assert box.others("b") == {}


def test_a_refused_gang_leaves_nothing_locked(box: Box) -> None:
    box.start("a", "1", "GPU-3")
    box.refused("b", *GPUS)
    assert box.others("c") == {"GPU-3": says("a")}


def test_a_refused_gang_is_told_of_every_gpu_that_is_in_its_way(box: Box) -> None:
    box.start("a", "1", "GPU-3")
    box.start("c", "2", "GPU-5")
    assert box.refused("b", *GPUS) == {"GPU-3": says("a"), "GPU-5": says("c")}


def test_a_gang_beside_an_own_attempt_takes_what_is_free(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.start("a", "gang", "GPU-0", "GPU-1")
    assert set(box.others("b")) == {"GPU-0", "GPU-1"}


def test_a_wrapper_alone_keeps_the_gpu(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.engine_dies("a")
    assert box.refused("b", "GPU-0") == {"GPU-0": says("a")}


def test_an_engine_alone_keeps_the_gpu(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.wrapper_dies("1")
    assert box.refused("b", "GPU-0") == {"GPU-0": says("a")}


def test_simulated_gpus_are_everybodys(box: Box) -> None:
    box.start("a", "1", "SIM-0")
    box.start("b", "2", "SIM-0")
    assert not box.folder.exists()


def test_a_task_without_gpus_touches_no_file(box: Box) -> None:
    box.start("a", "1")
    assert not box.folder.exists()


def test_a_deck_inside_an_attempt_of_another_shares_its_gpus(box: Box) -> None:
    box.start("outer", "1", "GPU-0")
    box.deck("inner", inside="1")
    assert box.others("inner") == {}
    box.start("inner", "2", "GPU-0")
    assert box.others("third") == {"GPU-0": says("inner")}


def test_a_deck_inside_a_later_attempt_on_the_same_gpu_shares_it_after_a_second(box: Box) -> None:
    box.start("outer", "1", "GPU-0")
    box.end("outer", "1")
    box.start("outer", "2", "GPU-0")
    box.others("outer")
    box.deck("inner", inside="2")
    assert box.others("inner") == {}


def test_a_deck_inside_an_attempt_gets_no_other_gpus_of_that_deck(box: Box) -> None:
    box.start("outer", "1", "GPU-0")
    box.start("outer", "2", "GPU-1")
    box.deck("inner", inside="1")
    assert box.refused("inner", "GPU-1") == {"GPU-1": says("outer")}


def test_gpus_of_one_box_have_bytes_of_their_own() -> None:
    bytes_of = {byte_of(f"GPU-{number:032x}") for number in range(10_000)}
    assert len(bytes_of) == 10_000
    assert 0 not in bytes_of


# -- gathering ---------------------------------------------------------------------------------------------------------


def test_idle_gpus_are_kept_for_a_task_that_waits_for_several(box: Box) -> None:
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    assert set(box.others("b")) == {"GPU-0", "GPU-1"}


def test_a_gpu_that_is_kept_is_said_to_be(box: Box) -> None:
    box.start("a", "1", "GPU-1")
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    kept = f"deck a of root keeps it for gang (engine {os.getpid()})"
    assert box.others("b") == {"GPU-0": kept, "GPU-1": says("a")}


def test_only_one_deck_at_a_time_keeps_idle_gpus(box: Box) -> None:
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.deck("b").gather(["GPU-2", "GPU-3"], "gang")
    assert set(box.others("c")) == {"GPU-0", "GPU-1"}


def test_the_next_deck_keeps_its_gpus_once_the_first_has_let_go(box: Box) -> None:
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.deck("b").gather(["GPU-1", "GPU-2"], "gang")
    box.deck("a").gather([], "")
    box.deck("b").others(GPUS)
    assert set(box.others("c")) == {"GPU-1", "GPU-2"}


def test_a_gpu_of_another_deck_is_kept_from_when_it_comes_free(box: Box) -> None:
    box.start("b", "1", "GPU-1")
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.end("b", "1")
    box.deck("a").others(GPUS)
    assert set(box.others("b")) == {"GPU-0", "GPU-1"}


def test_a_gpu_stays_kept_between_our_own_attempts(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.end("a", "1")
    assert set(box.refused("b", "GPU-0")) == {"GPU-0"}


def test_a_gang_starts_on_what_was_kept_for_it(box: Box) -> None:
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.start("a", "gang", "GPU-0", "GPU-1")
    box.deck("a").gather([], "")
    assert set(box.others("b")) == {"GPU-0", "GPU-1"}


def test_without_the_gang_byte_a_gpu_that_comes_free_is_anybodys(box: Box) -> None:
    box.deck("a").gather(["GPU-6", "GPU-7"], "gang")
    box.start("b", "1", "GPU-0")
    box.deck("b").gather(["GPU-0", "GPU-1"], "gang")
    box.end("b", "1")
    box.start("c", "2", "GPU-0")


def test_an_engine_that_dies_lets_kept_gpus_go(box: Box) -> None:
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.engine_dies("a")
    assert box.others("b") == {}


def test_a_deck_that_has_let_go_keeps_nothing_again_when_it_still_looks_at_others(box: Box) -> None:
    box.deck("a").gather(["GPU-0", "GPU-1"], "gang")
    box.deck("a").close()
    box.others("a")
    assert box.others("b") == {}


# -- a new engine ------------------------------------------------------------------------------------------------------


def test_a_new_engine_takes_back_a_gpu_that_nobody_has(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.engine_dies("a")
    box.wrapper_dies("1")
    box.deck("a").adopt("1", ["GPU-0"], "task")
    box.deck("a").others(GPUS)
    assert box.others("b") == {"GPU-0": says("a")}


def test_a_new_engine_does_not_take_a_gpu_that_another_deck_got_meanwhile(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.engine_dies("a")
    box.wrapper_dies("1")
    box.start("b", "2", "GPU-0")
    box.deck("a").adopt("1", ["GPU-0"], "task")
    assert box.others("a") == {"GPU-0": says("b")}


def test_a_new_engine_has_such_a_gpu_when_the_other_deck_leaves_it(box: Box) -> None:
    box.start("b", "2", "GPU-0")
    box.deck("a").adopt("1", ["GPU-0"], "task")
    box.end("b", "2")
    assert box.others("a") == {}
    assert box.others("b") == {"GPU-0": says("a")}


# -- names -------------------------------------------------------------------------------------------------------------


def test_an_old_note_of_a_killed_engine_is_not_believed_over_a_newer_one(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.engine_dies("a")
    box.wrapper_dies("1")
    box.start("b", "2", "GPU-0")
    assert box.others("c") == {"GPU-0": says("b")}


def test_a_deck_that_cannot_be_named_still_has_its_gpu(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    for note in box.folder.glob("deck-*"):
        note.unlink()
    assert box.others("b") == {"GPU-0": "another deck has it"}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"deck": 1}', "\x00" * 100, "x" * 100_000])
def test_a_note_that_is_no_note_is_ignored(box: Box, content: str) -> None:
    box.start("a", "1", "GPU-0")
    (box.folder / "deck-feedfeedfeedfeed").write_text(content)
    assert box.others("b") == {"GPU-0": says("a")}


def test_the_note_of_an_engine_that_is_gone_says_so() -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    entry = Entry("pets", "alice", "here", dead.pid, {"GPU-0": {"token": "train"}})
    words = f"deck pets of alice has it (engine {dead.pid} is gone, its task runs on)"
    assert describe(entry, "GPU-0", "here") == words


def test_an_engine_in_a_container_is_named_with_it() -> None:
    entry = Entry("pets", "root", "3f2a", 17)
    assert describe(entry, "GPU-0", "here") == "deck pets of root has it (engine 17 on 3f2a)"


def test_notes_that_are_pipes_links_or_folders_are_ignored(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    os.mkfifo(box.folder / "deck-0000000000000001")
    (box.folder / "deck-0000000000000002").symlink_to("/dev/zero")
    (box.folder / "deck-0000000000000003").mkdir()
    assert box.others("b") == {"GPU-0": says("a")}


def test_a_link_in_the_place_of_our_note_is_not_written_through(box: Box, tmp_path: Path) -> None:
    box.start("a", "1", "GPU-0")
    box.end("a", "1")
    note = next(box.folder.glob("deck-*"))
    box.deck("a").close()
    del box.decks["a"]
    victim = tmp_path / "victim"
    victim.write_text("mine")
    note.unlink(missing_ok=True)
    note.symlink_to(victim)
    box.start("a", "2", "GPU-0")
    assert victim.read_text() == "mine"
    assert box.others("b") == {"GPU-0": "another deck has it"}


def test_what_others_write_reaches_no_terminal_raw(box: Box) -> None:
    box.decks["evil"] = Claims("\x1b[2J" + "x" * 500, "/decks/evil", str(box.folder), box.said.append)
    box.start("evil", "1", "GPU-0")
    (text,) = box.others("b").values()
    assert text.isprintable()
    assert len(text) < 200


def test_a_name_that_is_no_text_harms_nobody(box: Box) -> None:
    name = os.fsdecode(b"caf\xe9")
    box.decks["odd"] = Claims(name, f"/decks/{name}", str(box.folder), box.said.append)
    box.start("odd", "1", "GPU-0")
    assert box.others("b") == {"GPU-0": says("caf?")}


def test_a_deck_that_has_ended_leaves_no_note(box: Box) -> None:
    box.start("a", "1", "GPU-0")
    box.end("a", "1")
    box.deck("a").close()
    assert sorted(path.name for path in box.folder.iterdir()) == ["gpus"]


# -- a task that is next -----------------------------------------------------------------------------------------------


def left_to(deck: str) -> str:
    return f"left to deck {deck}, whose task is next"


def test_a_gpu_that_comes_free_is_left_to_the_deck_whose_task_is_next(box: Box) -> None:
    box.start("sweep", "1", "GPU-0")
    box.deck("queue").gather((), "", GPUS[:1])
    assert box.others("queue") == {"GPU-0": says("sweep")}
    box.end("sweep", "1")
    assert box.refused("sweep", "GPU-0") == {"GPU-0": left_to("queue")}
    assert box.others("sweep") == {"GPU-0": left_to("queue")}
    box.start("queue", "2", "GPU-0")
    box.deck("queue").gather((), "")
    assert box.others("sweep") == {"GPU-0": says("queue")}
    box.end("queue", "2")
    box.start("sweep", "3", "GPU-0")


def test_a_gpu_is_left_to_a_deck_that_cannot_be_named(box: Box) -> None:
    box.deck("queue").gather((), "", GPUS[:1])
    for note in box.folder.glob("deck-*"):
        note.unlink()
    assert box.others("sweep") == {"GPU-0": left_to("of yours")}


def test_other_gpus_than_those_that_it_can_use_are_not_left_to_it(box: Box) -> None:
    box.deck("queue").gather((), "", GPUS[:1])
    box.start("sweep", "1", "GPU-1")
    assert box.others("sweep") == {"GPU-0": left_to("queue")}


def test_of_a_deck_with_several_slots_on_each_gpu_one_gpu_is_emptied(box: Box) -> None:
    for token, gpu in (("1", "GPU-0"), ("2", "GPU-0"), ("3", "GPU-1"), ("4", "GPU-1")):
        box.start("sweep", token, gpu)
    box.deck("queue").gather((), "", GPUS[:2])
    box.end("sweep", "1")
    assert box.refused("sweep", "GPU-0") == {"GPU-0": left_to("queue")}
    box.end("sweep", "3")
    box.start("sweep", "5", "GPU-1")
    box.end("sweep", "2")
    box.start("queue", "6", "GPU-0")


def test_a_gpu_of_a_third_deck_does_not_keep_ours_from_being_emptied(box: Box) -> None:
    box.start("third", "0", "GPU-0")
    box.start("sweep", "1", "GPU-1")
    box.start("sweep", "2", "GPU-1")
    box.deck("queue").gather((), "", GPUS[:2])
    box.end("sweep", "1")
    assert box.refused("sweep", "GPU-1") == {"GPU-1": left_to("queue")}
    assert box.others("sweep") == {"GPU-0": says("third"), "GPU-1": left_to("queue")}


def test_two_decks_whose_tasks_are_next_do_not_wait_for_each_other(box: Box) -> None:
    box.deck("a").gather((), "", GPUS[:1])
    box.deck("b").gather((), "", GPUS[:1])
    box.start("a", "1", "GPU-0")
    assert box.others("b") == {"GPU-0": says("a")}


def test_a_gang_that_is_next_keeps_a_gpu_that_another_deck_s_next_task_asks_for_too(box: Box) -> None:
    box.deck("b").gather((), "", GPUS[:1])
    box.deck("a").gather(GPUS[:2], "gang", GPUS[:2])
    assert set(box.others("b")) == {"GPU-0", "GPU-1"}


def test_who_goes_first_is_forgotten_with_its_engine(box: Box) -> None:
    box.deck("queue").gather((), "", GPUS[:1])
    assert box.refused("sweep", "GPU-0") == {"GPU-0": left_to("queue")}
    box.engine_dies("queue")
    box.start("sweep", "1", "GPU-0")


def test_other_users_decks_are_asked_for_nothing(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.deck("queue").gather((), "", GPUS[:1])
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert box.others("sweep") == {}


def test_gpus_that_are_kept_for_a_task_of_several_are_not_left_to_one_that_is_next(box: Box) -> None:
    box.deck("sweep").gather(GPUS[:2], "gang")
    box.deck("queue").gather((), "", GPUS[:1])
    box.start("sweep", "gang", *GPUS[:2])
    assert set(box.others("queue")) == set(GPUS[:2])
