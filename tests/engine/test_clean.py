"""`gpudeck clean` removes logs of attempts that are over, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from gpudeck.cli.arguments import parse
from gpudeck.engine.errors import TaskFileError, UsageError
from tests.e2e.decks import Deck, deck_in, until
from tests.inside.engine import Command, Left, Plan, carry_out, clean

FAILING = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "bad"
    retries = 3
    backoff = 0
    command = "echo some text; echo more >&2; exit 3"
    [[task]]
    name = "good"
    tags = ["fine"]
    command = "true"
"""
WAITING = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "slow"
    retries = 3
    backoff = 0
    command = "echo attempt $GPUDECK_ATTEMPT; test $GPUDECK_ATTEMPT -lt 3 && exit 1; read _ <gate"
"""


@pytest.fixture(scope="module")
def failed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with deck_in(tmp_path_factory.mktemp("failed")) as deck:
        deck.write(FAILING)
        deck.run()
        return deck.folder


@pytest.fixture
def failed(deck: Deck, failed_once: Path) -> Deck:
    """A deck whose task `bad` has four attempts."""
    shutil.copytree(failed_once, deck.folder, symlinks=True, dirs_exist_ok=True)
    return deck


def cleaned(deck: Deck, *selectors: str, **how: object) -> int:
    return clean(Command("clean", file=str(deck.folder / "tasks.toml"), words=selectors, given={"yes": True, **how}))


RECORDS = [f"attempt-{number}.json" for number in (1, 2, 3, 4)]


def files(deck: Deck, task: str = "bad") -> list[str]:
    return sorted(os.listdir(deck.folder / "logs" / task))


def disk_of_logs(deck: Deck, task: str = "bad") -> int:
    return sum(
        path.lstat().st_blocks * 512 for path in (deck.folder / "logs" / task).iterdir() if not path.is_symlink()
    )


def age(deck: Deck, *numbers: int, days: float, task: str = "bad") -> None:
    for path in (deck.folder / "logs" / task).iterdir():
        if any(path.name.startswith(f"attempt-{number}.") for number in numbers):
            stamp = path.stat().st_mtime - days * 86400
            os.utime(path, (stamp, stamp))


def test_all_but_the_newest_attempt_go(failed: Deck) -> None:
    assert cleaned(failed) == 0
    left = [name for name in files(failed) if not name.endswith(".gpu.json")]  # there where an attempt took seconds
    assert left == [*RECORDS[:3], "attempt-4.err", "attempt-4.json", "attempt-4.log", "latest.err", "latest.log"]


def test_as_many_attempts_stay_as_are_asked_for(failed: Deck) -> None:
    cleaned(failed, keep_last=3)
    assert [name for name in files(failed) if name.endswith(".log")] == [
        "attempt-2.log", "attempt-3.log", "attempt-4.log", "latest.log",
    ]  # fmt: skip


def test_more_to_keep_than_there_are_removes_nothing(failed: Deck) -> None:
    before = files(failed)
    cleaned(failed, keep_last=7)
    assert files(failed) == before


def test_only_what_is_old_enough_goes(failed: Deck) -> None:
    age(failed, 1, 2, days=40)
    cleaned(failed, older_than="30d")
    assert [name for name in files(failed) if name.endswith(".err")] == ["attempt-3.err", "attempt-4.err", "latest.err"]


def test_an_old_newest_attempt_stays_unless_asked_for(failed: Deck) -> None:
    age(failed, 1, 2, 3, 4, days=40)
    cleaned(failed, older_than="30d")
    assert "attempt-4.log" in files(failed)


def test_what_each_attempt_ran_and_came_to_stays_and_no_link_leads_nowhere(failed: Deck) -> None:
    cleaned(failed, keep_last=0)
    assert files(failed) == RECORDS
    assert not [path for path in (failed.folder / "logs").rglob("*") if path.is_symlink() and not path.exists()]


def test_a_cleaned_deck_goes_on_with_its_numbers(failed: Deck) -> None:
    cleaned(failed, keep_last=0)
    failed.run()
    assert "attempt-5.log" in files(failed)


def test_a_cleaned_deck_goes_on_with_its_numbers_without_its_journal(failed: Deck) -> None:
    cleaned(failed, keep_last=0)
    shutil.rmtree(failed.folder / ".gpudeck")
    failed.run()
    assert "attempt-5.log" in files(failed)


def test_cleaning_twice_is_cleaning_once(failed: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    cleaned(failed, keep_last=0)
    capsys.readouterr()
    assert cleaned(failed, keep_last=0) == 0
    assert capsys.readouterr().out == "nothing to remove\n"


def test_without_a_json_the_newest_attempt_keeps_a_log(failed: Deck) -> None:
    (failed.folder / "logs/bad/attempt-4.json").unlink()
    cleaned(failed, keep_last=0)
    assert [name for name in files(failed) if name.startswith("attempt")] == [*RECORDS[:3], "attempt-4.err"]


def test_only_the_selected_tasks_are_cleaned(failed: Deck) -> None:
    cleaned(failed, "tag:fine", keep_last=0)
    assert "attempt-1.log" in files(failed)
    assert files(failed, "good") == ["attempt-1.json"]


def test_tasks_are_selected_by_how_they_stand(failed: Deck) -> None:
    cleaned(failed, "state:failed", keep_last=0)
    assert files(failed) == RECORDS
    assert "attempt-1.log" in files(failed, "good")


def test_files_that_attempts_did_not_make_stay(failed: Deck) -> None:
    folder = failed.folder / "logs/bad"
    mine = ["notes.txt", "attempt-1.log.gz", "attempt-1.ckpt", "attempt-01.log", "attempt-x.log", "myattempt-1.log"]
    for name in mine:
        (folder / name).write_text("mine")
    (folder / "attempt-1.d").mkdir()
    cleaned(failed, keep_last=0)
    assert files(failed) == sorted([*RECORDS, "attempt-1.d", *mine])


def test_logs_of_ranks_go_with_their_attempt(failed: Deck) -> None:
    (failed.folder / "logs/bad/attempt-2.rank13.log").write_text("rank")
    cleaned(failed)
    assert [name for name in files(failed) if name.startswith("attempt-2")] == ["attempt-2.json"]


def test_what_an_attempt_used_of_its_gpus_goes_with_its_logs(failed: Deck) -> None:
    for number in (2, 4):
        (failed.folder / f"logs/bad/attempt-{number}.gpu.json").write_text("{}")
    cleaned(failed, keep_last=1)
    assert [path.name for path in failed.folder.glob("logs/bad/*.gpu.json")] == ["attempt-4.gpu.json"]


def test_a_folder_that_is_a_link_is_not_followed(failed: Deck) -> None:
    elsewhere = failed.folder / "elsewhere"
    (failed.folder / "logs/bad").rename(elsewhere)
    (failed.folder / "logs/bad").symlink_to(elsewhere)
    before = sorted(os.listdir(elsewhere))
    cleaned(failed, keep_last=0)
    assert sorted(os.listdir(elsewhere)) == before


def test_a_folder_that_cannot_be_looked_into_any_more_is_told_and_the_others_are_cleaned(failed: Deck) -> None:
    logs, bad = str(failed.folder / "logs"), str(failed.folder / "logs/bad")
    away = f"{logs}/{'x' * 256}"
    go = [(folder, Left("t", 1, {"attempt-1.log": 0})) for folder in (away, bad)]
    problems: list[str] = []
    assert carry_out(Plan(logs, go), "", problems)[0] == 1
    assert problems == [f"{away}: File name too long"]
    assert "attempt-1.log" not in files(failed)


def test_no_folder_stays_open(failed: Deck) -> None:
    cleaned(failed, keep_last=3)
    before = len(os.listdir("/proc/self/fd"))
    cleaned(failed)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_log_that_is_a_link_stays_and_so_does_its_target(failed: Deck) -> None:
    precious = failed.folder / "precious"
    precious.write_text("data")
    log = failed.folder / "logs/bad/attempt-1.log"
    log.unlink()
    log.symlink_to(precious)
    cleaned(failed)
    assert log.read_text() == "data"


def test_a_log_dir_that_is_a_link_is_where_the_user_wants_it(failed: Deck) -> None:
    (failed.folder / "logs").rename(failed.folder / "disk")
    (failed.folder / "logs").symlink_to("disk")
    cleaned(failed)
    assert "attempt-1.log" not in files(failed)


def test_beside_a_live_engine_the_running_attempt_stays(deck: Deck) -> None:
    deck.write(WAITING)
    gate = deck.gate()
    engine = deck.start()
    engine.event("task_started", task="slow", attempt=3)
    until(lambda: "attempt-3.err" in files(deck, "slow"))
    cleaned(deck, keep_last=0)
    logs = [name for name in files(deck, "slow") if name.startswith("attempt") and not name.endswith(".json")]
    assert logs == ["attempt-3.err", "attempt-3.log"]
    gate.let()
    assert engine.finish().code == 0


def test_an_attempt_that_runs_without_an_engine_stays(deck: Deck) -> None:
    deck.write(WAITING)
    gate = deck.gate()
    engine = deck.start()
    engine.event("task_started", task="slow", attempt=3)
    until(lambda: "attempt-3.log" in files(deck, "slow"))
    engine.kill()
    cleaned(deck, keep_last=0)
    assert "attempt-3.log" in files(deck, "slow")
    gate.let()


def test_an_attempt_that_runs_stays_even_if_the_state_is_gone(deck: Deck) -> None:
    deck.write(WAITING)
    gate = deck.gate()
    engine = deck.start()
    engine.event("task_started", task="slow", attempt=3)
    until(lambda: "attempt-3.log" in files(deck, "slow"))
    engine.kill()
    shutil.rmtree(deck.folder / ".gpudeck")
    cleaned(deck, keep_last=0)
    assert "attempt-3.log" in files(deck, "slow")
    gate.let()


def test_without_its_journal_nobody_knows_whose_attempts_they_are_and_they_stay(
    failed: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(failed.folder / ".gpudeck")
    before = files(failed)
    cleaned(failed)
    assert files(failed) == before
    assert "left alone: 5 attempts of other decks, or of before this one's state was removed" in capsys.readouterr().out


@pytest.mark.parametrize("of", ["another name", "another file"])
def test_attempts_of_another_deck_in_the_same_log_folder_stay(deck: Deck, of: str) -> None:
    shared = FAILING.replace("[deck]", '[deck]\n    log_dir = "logs"').replace("retries = 3", "retries = 1")
    deck.write(shared)
    deck.write(shared, "other.toml")
    second = {"another name": ("--name", "other"), "another file": ()}[of]
    file = "other.toml" if of == "another file" else "tasks.toml"
    deck.run()
    assert "could not be started" not in deck.run(*second, file=file).notes
    cleaned(deck)
    assert [name for name in files(deck) if name.endswith(".err")] == [
        "attempt-2.err", "attempt-3.err", "attempt-4.err", "latest.err",
    ]  # fmt: skip
    given = {"name": "other" if second else None, "yes": True, "keep_last": 0}
    assert clean(Command("clean", file=str(deck.folder / file), given=given)) == 0
    assert [name for name in files(deck) if name.endswith(".err")] == ["attempt-2.err"]
    assert deck.lines("logs/bad/attempt-2.err") == ["more"]


def test_processes_left_behind_keep_their_log(deck: Deck) -> None:
    deck.write(
        """
        [deck]
        gpus = "sim:1"
        [[task]]
        name = "server"
        leftovers = "leave"
        command = "(env -i sh -c 'read _ <gate') & true"
        """
    )
    gate = deck.gate()
    deck.run()
    cleaned(deck, keep_last=0)
    assert "attempt-1.log" in files(deck, "server")
    gate.let()


def test_logs_of_tasks_that_left_the_file_are_cleaned_too(failed: Deck) -> None:
    failed.write(FAILING.replace('"bad"', '"better"'))
    cleaned(failed)
    assert "attempt-1.log" not in files(failed)


def test_a_dry_run_tells_and_removes_nothing(failed: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(failed)
    assert cleaned(failed, dry_run=True) == 0
    assert files(failed) == before
    out = capsys.readouterr().out
    assert "bad  attempts 1-3" in out
    assert "in the logs of 3 attempts (6 files)" in out


def test_where_nobody_can_be_asked_nothing_is_removed(failed: Deck) -> None:
    with open(os.devnull) as nothing, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", nothing)
        with pytest.raises(UsageError, match="Nobody can be asked here: -y says yes; nothing was done"):
            cleaned(failed, yes=False)
    assert "attempt-1.log" in files(failed)


def test_fewer_than_none_cannot_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["clean", "--keep-last", "-1"])
    assert ended.value.code == 2
    assert "--keep-last must be at least 0, got -1" in capsys.readouterr().err


def test_on_a_terminal_the_user_is_asked(failed: Deck) -> None:
    master, slave = os.openpty()
    os.write(master, b"n\ny\n")
    with open(slave) as terminal, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", terminal)
        assert cleaned(failed, yes=False) == 1
        assert "attempt-1.log" in files(failed)
        assert cleaned(failed, yes=False) == 0
    os.close(master)
    assert "attempt-1.log" not in files(failed)


def test_json_tells_each_attempt(failed: Deck, capsys: pytest.CaptureFixture[str]) -> None:
    before = disk_of_logs(failed)
    cleaned(failed, json=True)
    said = json.loads(capsys.readouterr().out)
    assert [(row["task"], row["attempt"], row["files"]) for row in said["attempts"]] == [
        ("bad", 1, 2), ("bad", 2, 2), ("bad", 3, 2),
    ]  # fmt: skip
    assert said["removed"] == {"files": 6, "bytes": before - disk_of_logs(failed)}


def test_a_broken_task_file_removes_nothing(failed: Deck) -> None:
    failed.write(FAILING + "[[task]\n")
    with pytest.raises(TaskFileError):
        cleaned(failed, keep_last=0)
    assert "attempt-1.log" in files(failed)


def test_old_damaged_journals_and_records_of_nothing_go_when_asked_for(
    failed: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    state = failed.folder / ".gpudeck/tasks"
    aside = state / "damaged-20260101-120000"
    aside.mkdir()
    (aside / "deck.db").write_text("x")
    record = state / "attempts" / ("ab" * 12)
    record.write_text("start 1.0 999999\n")
    for path in (aside, record):
        os.utime(path, (1, 1))
    cleaned(failed)
    assert aside.exists()
    capsys.readouterr()
    cleaned(failed, records=True)
    assert not aside.exists()
    assert not record.exists()
    assert re.search(r"to remove: (.+) \(2 files\)\nremoved 2 files, \1\n", capsys.readouterr().out)


def test_a_damaged_journal_with_something_else_in_its_folder_keeps_that(
    failed: Deck, capsys: pytest.CaptureFixture[str]
) -> None:
    aside = failed.folder / ".gpudeck/tasks/damaged-20260101-120000"
    aside.mkdir()
    (aside / "deck.db").write_text("x")
    (aside / "my-notes").write_text("x")
    os.utime(aside, (1, 1))
    assert cleaned(failed, records=True) == 1
    assert os.listdir(aside) == ["my-notes"]
    assert "not removed" in capsys.readouterr().err


def test_a_young_damaged_journal_stays(failed: Deck) -> None:
    aside = failed.folder / ".gpudeck/tasks/damaged-20260101-120000"
    aside.mkdir()
    cleaned(failed, records=True)
    assert aside.exists()
