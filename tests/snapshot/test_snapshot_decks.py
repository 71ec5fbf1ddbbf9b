"""Decks with snapshot = true: what is edited while tasks wait changes nothing for them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.e2e.decks import Deck, Gate, until
from tests.snapshot.repositories import Repo, repo_in

TASKS = """
    [deck]
    gpus = "sim:1"
    snapshot = true
    [[task]]
    name = "t{i}"
    command = "read _ <{gate}; sh train.sh >>out/{i}.txt"
    matrix.i = [0, 1, 2]
    outputs = ["out/{i}.txt"]
"""


def written(deck: Deck, text: str = TASKS) -> None:
    """A task file whose {gate} is where the test's is, whatever the tasks' folder."""
    deck.write(text.replace("{gate}", f"{deck.folder.parent}/gate"))


def results(deck: Deck) -> list[str]:
    return [deck.text(f"out/{i}.txt") for i in range(3)]


def test_what_is_edited_while_tasks_wait_does_not_change_what_they_run(deck: Deck, gate: Gate, repo: Repo) -> None:
    written(deck)
    repo.write({"train.sh": "echo second\n", "extra.sh": "echo extra\n"})
    before = repo.state()
    engine = deck.start()
    engine.started("t0")
    assert repo.state() == before, "index, stash, branches and objects are the user's"
    repo.write({"train.sh": "echo third\n"})
    gate.let(3)
    assert engine.finish().code == 0
    assert results(deck) == ["second\n"] * 3
    assert deck.text("train.sh") == "echo third\n"


def test_attempt_json_tells_the_commit_and_the_place_of_the_copy(deck: Deck, gate: Gate, repo: Repo) -> None:
    written(deck, TASKS.replace("sh train.sh", "{ git rev-parse HEAD; echo $GPUDECK_SNAPSHOT; pwd; }"))
    repo.write({"train.sh": "echo second\n"})
    gate.let(3)
    assert deck.run().code == 0
    record = deck.record("t1")
    commit = repo.git("rev-parse", "HEAD").strip()
    assert record["git"] == {"commit": commit, "dirty": True, "branch": "main"}
    assert record["snapshot"] == record["cwd"] != str(deck.folder)
    assert deck.text("out/1.txt").split() == [commit, record["snapshot"], record["snapshot"]]
    assert repo.worktrees() == [record["snapshot"]]
    told = f"{record['snapshot']}  (commit {commit[:10]} on main, with changes that are not committed)"
    assert told in deck.command("show", "t1").out


def test_a_retry_by_hand_takes_the_code_as_it_is_then(deck: Deck, gate: Gate, repo: Repo) -> None:
    repo.write({"train.sh": "echo broken; exit 1\n"})
    written(deck)
    engine = deck.start()
    gate.let()
    engine.ended("t0")
    repo.write({"train.sh": "echo mended\n"})
    assert deck.command("retry", "t0").code == 0
    gate.let(3)
    engine.ended("t2")
    engine.first(lambda event: event["event"] == "task_ended" and event["task"] == "t0" and event["attempt"] == 2)
    engine.finish()
    assert results(deck) == ["broken\nmended\n", "broken\n", "broken\n"]
    assert deck.record("t0", 2)["snapshot"] != deck.record("t0", 1)["snapshot"] == deck.record("t2")["snapshot"]


def test_a_retry_waits_while_its_code_cannot_be_copied(deck: Deck, gate: Gate, repo: Repo) -> None:
    repo.write({"train.sh": "echo broken; exit 1\n"})
    written(deck)
    engine = deck.start()
    gate.let()
    engine.ended("t0")
    (repo.top / ".git").rename(deck.folder / "../git")
    assert deck.command("retry", "t0").code == 0
    gate.let()
    engine.note("is in no git repository any more, and snapshot is true")
    repo.write({"train.sh": "echo mended\n"})
    (deck.folder / "../git").rename(repo.top / ".git")
    gate.let(2)
    assert engine.finish().code == 1
    assert deck.text("out/0.txt") == "broken\nmended\n"


def test_an_automatic_retry_runs_the_same_code_again(deck: Deck, gate: Gate, repo: Repo) -> None:
    repo.write({"train.sh": "echo old; exit 1\n"})
    written(deck, TASKS.replace("[0, 1, 2]", "[0]") + '    retries = 1\n    backoff = "0s"\n')
    engine = deck.start()
    gate.let()
    engine.ended("t0", attempt=1)
    repo.write({"train.sh": "echo new\n"})
    gate.let()
    assert engine.finish().code == 1
    assert deck.text("out/0.txt") == "old\nold\n"


def test_an_engine_that_goes_on_with_the_run_uses_the_same_copy(deck: Deck, gate: Gate, repo: Repo) -> None:
    written(deck)
    engine = deck.start()
    engine.started("t0")
    engine.kill()
    repo.write({"train.sh": "echo later\n"})
    gate.let(3)
    assert deck.start().finish().code == 0
    assert results(deck) == ["first\n"] * 3
    assert len(repo.worktrees()) == 1


def test_a_new_run_takes_the_code_anew_and_removes_the_copies_that_nothing_needs(
    deck: Deck, gate: Gate, repo: Repo
) -> None:
    written(deck)
    gate.let(3)
    assert deck.run().code == 0
    assert len(repo.worktrees()) == 1
    repo.write({"train.sh": "echo later\n"})
    engine = deck.start("--no-skip-existing")
    engine.started("t0")
    until(lambda: len(repo.worktrees()) == 1)
    assert deck.command("clean", "--dry-run", "--keep-last", "9").out == "nothing to remove\n", "tasks need it"
    gate.let(3)
    assert engine.finish().code == 0
    assert results(deck) == ["first\nlater\n"] * 3
    assert len([name for name in os.listdir(deck.folder / ".gpudeck/tasks/snapshots") if name != "lock"]) == 1


def test_tasks_that_start_below_the_top_and_in_another_repository_have_copies_of_their_own(
    deck: Deck, gate: Gate, repo: Repo, tmp_path: Path
) -> None:
    repo.commit({"sub/train.sh": "echo sub\n"})
    other = repo_in(tmp_path / "other", {"train.sh": "echo other\n"})
    deck.write(f"""
        [deck]
        gpus = "sim:1"
        snapshot = true
        [[task]]
        name = "sub"
        command = "read _ <{deck.folder.parent}/gate; sh train.sh; pwd"
        cwd = "sub"
        [[task]]
        name = "other"
        command = "read _ <{deck.folder.parent}/gate; sh train.sh; pwd"
        cwd = "{other.top}"
    """)
    engine = deck.start()
    engine.started("sub")
    repo.write({"sub/train.sh": "echo changed\n"})
    other.write({"train.sh": "echo changed\n"})
    gate.let(2)
    assert engine.finish().code == 0
    told = deck.text("logs/sub/attempt-1.log").split()
    assert told == ["sub", f"{deck.record('sub')['snapshot']}/sub"]
    assert deck.text("logs/other/attempt-1.log").split()[0] == "other"
    assert len(repo.worktrees()) == len(other.worktrees()) == 1


def test_what_is_ignored_is_there_and_is_the_real_one(deck: Deck, gate: Gate, repo: Repo) -> None:
    repo.write({".gitignore": "logs/\nout/\ndata/\nwandb/\n", "data/set.csv": "1\n"})
    written(deck, TASKS.replace("sh train.sh", "{ cat data/set.csv; mkdir -p wandb; echo run >wandb/log; }"))
    gate.let(3)
    assert deck.run().code == 0
    assert results(deck) == ["1\n"] * 3
    assert deck.text("wandb/log") == "run\n"


def test_a_copy_that_a_task_has_written_to_is_kept_and_named(deck: Deck, gate: Gate, repo: Repo) -> None:
    written(deck, TASKS.replace("sh train.sh", "sh train.sh | tee best-{i}.pt"))
    gate.let(3)
    assert deck.run().code == 0
    kept = deck.record("t0")["snapshot"]
    repo.write({"train.sh": "echo later\n"})
    engine = deck.start("--no-skip-existing")
    engine.note(f"{kept} is kept: tasks wrote 3 files there (best-0.pt, best-1.pt, best-2.pt)")
    gate.let(3)
    assert engine.finish().code == 0
    assert Path(kept, "best-0.pt").read_text() == "first\n"
    cleaned = deck.command("clean", "--dry-run", "--keep-last", "9").out
    assert "a copy of the code, where tasks wrote best-0.pt, best-1.pt, best-2.pt" in cleaned
    assert deck.command("clean", "-y", "--keep-last", "9").code == 0
    assert repo.worktrees() == []


def test_a_deck_outside_of_a_repository_is_refused_with_the_task(deck: Deck) -> None:
    written(deck)
    refused = deck.run()
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert f"tasks.toml:4: [deck]: snapshot: task t0 starts in {deck.folder}, which is in no git" in refused.err
    assert deck.command("check").code == 2


def test_an_output_beside_the_code_is_refused_with_what_to_do(deck: Deck, repo: Repo) -> None:
    written(deck, TASKS.replace('"out/{i}.txt"]', '"{i}.txt"]'))
    refused = deck.run()
    assert refused.code == 2
    assert f"no output may lie right in {deck.folder}, beside the code" in refused.err


def test_tasks_added_while_the_deck_runs_take_the_code_as_it_is_then(deck: Deck, gate: Gate, repo: Repo) -> None:
    written(deck)
    engine = deck.start()
    engine.started("t0")
    repo.write({"train.sh": "echo later\n"})
    written(deck, TASKS.replace("[0, 1, 2]", "[0, 1, 2, 3]"))
    assert deck.command("apply", "-y").code == 0
    gate.let(4)
    engine.signal(signal.SIGCONT)
    assert engine.finish().code == 0
    assert [*results(deck), deck.text("out/3.txt")] == [*["first\n"] * 3, "later\n"]
