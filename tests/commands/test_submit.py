"""`gpudeck submit`, as far as it goes without a Slurm: what is written, and what is refused."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

from tests.commands.commands_rig import Commanded
from tests.e2e.decks import Deck

CHAIN = """
    [vars]
    lr = 1
    [[task]]
    name = "first"
    command = "echo lr={lr}"
    outputs = ["model.pt"]
    [[task]]
    name = "second"
    needs = ["first"]
    retries = 2
    command = "true"
"""


def written(deck: Deck, *words: str) -> dict[str, Any]:
    done = deck.command("submit", "--json", *words)
    assert done.code == 0, done.err
    return json.loads(done.out)


def tasks(told: dict[str, Any]) -> list[str]:
    return [task["task"] for job in told["jobs"] for task in job["tasks"]]


def logs(told: dict[str, Any]) -> list[str]:
    return [task["log"] for job in told["jobs"] for task in job["tasks"]]


def script_of(told: dict[str, Any], number: int = 0) -> str:
    return Path(told["jobs"][number]["script"]).read_text()


def test_each_task_has_a_script_and_the_order_is_kept(deck: Deck) -> None:
    deck.write(CHAIN)
    told = written(deck)
    assert (tasks(told), told["jobs"][1]["after_ok"]) == (["first", "second"], ["first"])


def test_values_behind_the_file_reach_the_scripts(deck: Deck) -> None:
    deck.write(CHAIN)
    assert "lr=7" in script_of(written(deck, "tasks.toml", "lr=7"))


def test_the_scripts_are_their_owners_alone(deck: Deck) -> None:
    deck.write(CHAIN)
    told = written(deck)
    assert stat.S_IMODE(Path(told["jobs"][0]["script"]).stat().st_mode) == 0o600


def test_the_folder_may_be_named(deck: Deck) -> None:
    deck.write(CHAIN)
    deck.command("submit", "-o", "elsewhere")
    assert (deck.folder / "elsewhere" / "submit.sh").exists()


def test_bash_understands_the_script(deck: Deck) -> None:
    deck.write(CHAIN)
    subprocess.run(["bash", "-n", written(deck)["submit"]], check=True)


def test_without_sbatch_the_script_says_where_to_run_it(deck: Deck) -> None:
    deck.write(CHAIN)
    ran = subprocess.run(
        ["/bin/bash", written(deck)["submit"]],
        env={"PATH": str(tools(deck))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, "there is no sbatch on this machine" in ran.stderr) == (3, True)


def test_a_submission_without_a_clear_answer_is_kept_as_one_that_may_have_happened(deck: Deck) -> None:
    deck.write(CHAIN)
    path = written(deck)["submit"]
    sbatch = tools(deck) / "sbatch"
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: Socket timed out on send/recv operation' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    env = {"PATH": f"{sbatch.parent}:/usr/bin:/bin", "HOME": str(deck.folder)}
    ran = subprocess.run(["bash", path], env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, "sbatch gave no answer for first" in ran.stderr) == (3, True)
    [sent] = (deck.folder / "logs/.jobs").glob("*.sent")
    assert sent.read_text().startswith("?first-")


def tools(deck: Deck) -> Path:
    """A folder of programs without Slurm's."""
    folder = deck.folder / "tools"
    folder.mkdir()
    for name in ("dirname", "mkdir", "touch", "cat"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return folder


def test_what_is_done_is_left_out(deck: Deck) -> None:
    deck.write(CHAIN)
    (deck.folder / "model.pt").write_text("weights")
    told = written(deck)
    assert (tasks(told), told["done"], told["jobs"][0]["after_ok"]) == (["second"], ["first"], [])


def test_where_all_is_done_nothing_is_to_be_submitted(deck: Deck) -> None:
    deck.write(CHAIN)
    (deck.folder / "model.pt").write_text("weights")
    told = deck.command("submit", "--only", "first").out
    assert ("nothing to submit, 1 done earlier" in told, "submit: bash" in told) == (True, False)


def test_what_was_written_and_never_submitted_is_written_again_as_the_same_attempt(deck: Deck) -> None:
    deck.write(CHAIN)
    first, second = written(deck), written(deck, "lr=9")
    assert logs(first) == logs(second)
    assert "lr=9" in script_of(second)


def test_scripts_that_were_written_earlier_are_removed(deck: Deck) -> None:
    deck.write(CHAIN)
    written(deck)
    told = written(deck)
    assert {str(path) for path in (deck.folder / "slurm/jobs").glob("*.sh")} == {job["script"] for job in told["jobs"]}


def test_writing_leaves_no_logs(deck: Deck) -> None:
    deck.write(CHAIN)
    written(deck)
    assert not list((deck.folder / "logs").glob("*"))


def test_keys_that_need_an_engine_are_told(deck: Deck) -> None:
    deck.write(CHAIN)
    assert any(line.startswith("retries (second): ") for line in written(deck)["without_an_engine"])


def test_a_need_that_is_left_out_is_refused(deck: Deck) -> None:
    deck.write(CHAIN)
    done = deck.command("submit", "--only", "second")
    assert (done.code, "second needs first, which is left out" in done.err) == (2, True)


def test_it_is_refused_while_an_engine_runs_the_deck(deck: Commanded) -> None:
    deck.write('[deck]\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "read _ <gate"\n')
    deck.gate()
    deck.go()
    deck.until_state("a", "running")
    done = deck.command("submit")
    assert (done.code, "an engine runs this deck" in done.err) == (2, True)
