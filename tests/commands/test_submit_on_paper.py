"""`gpudeck submit` and submit.sh on a cluster of paper: each job once, whatever Slurm answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.decks import Deck, Ran
from tests.fakes.paper_slurm import PaperSlurm

CHAIN = """
    [[task]]
    name = "first"
    command = "true"
    outputs = ["model.pt"]
    [[task]]
    name = "second"
    needs = ["first"]
    command = "true"
    [[task]]
    name = "third"
    after = ["first"]
    command = "true"
"""


@pytest.fixture
def slurm(deck: Deck, tmp_path: Path) -> PaperSlurm:
    found = PaperSlurm(tmp_path / "cluster")
    deck.env["PATH"] = f"{found.folder}/bin:{deck.env['PATH']}"
    return found


def written(deck: Deck) -> dict[str, Any]:
    done = deck.command("submit", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def tasks(told: dict[str, Any]) -> dict[str, str]:
    """Tokens by task."""
    return {task["task"]: task["token"] for job in told["jobs"] for task in job["tasks"]}


def submitted(deck: Deck) -> Ran:
    done = subprocess.run(
        ["bash", "slurm/submit.sh"], cwd=deck.folder, env=deck.env, capture_output=True, text=True, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def end(deck: Deck, token: str, code: int) -> None:
    (deck.folder / "logs/.jobs" / f"{token}.ended").write_text(f"code={code}\nwall=1\n")


def ids(deck: Deck) -> dict[str, str]:
    """By token, what Slurm was given."""
    return {path.stem: path.read_text().splitlines()[-1] for path in (deck.folder / "logs/.jobs").glob("*.sent")}


def test_a_need_is_a_dependency_on_success_and_after_one_on_an_end(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write(CHAIN)
    written(deck)
    assert submitted(deck).code == 0
    start = "--parsable --export=ALL"
    assert [line.rpartition(" ")[0] for line in slurm.words()] == [
        start,
        f"{start} --kill-on-invalid-dep=yes --dependency=afterok:101",
        f"{start} --kill-on-invalid-dep=yes --dependency=afterany:101",
    ]


def test_nothing_of_the_caller_reaches_sbatch(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    written(deck)
    slurm.sbatch("env >$here/env")
    deck.env.update(SBATCH_REQUEUE="1", SECRET="x")
    assert submitted(deck).code == 0
    names = {line.partition("=")[0] for line in (slurm.folder / "env").read_text().splitlines()}
    assert not names & {"SBATCH_REQUEUE", "SECRET"}


def test_what_the_shell_sets_for_sbatch_holds_where_the_script_says_nothing(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[slurm]\npartition = "gpu"\nextra = ["-qhigh"]\n[[task]]\nname = "a"\ncommand = "true"\n')
    written(deck)
    slurm.sbatch("env >$here/env")
    names = ("SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION")
    deck.env.update(dict.fromkeys(names, "mine"))
    assert submitted(deck).code == 0
    kept = {line.partition("=")[0] for line in (slurm.folder / "env").read_text().splitlines()}
    assert kept & {*names} == {"SBATCH_ACCOUNT", "SBATCH_RESERVATION"}


def test_after_five_refusals_in_a_row_no_more_is_tried(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "t{i}"\nmatrix.i = [1, 2, 3, 4, 5, 6, 7]\ncommand = "true"\n')
    written(deck)
    slurm.refuse("Invalid account")
    done = submitted(deck)
    assert (done.code, len(slurm.words()), "not submitted 7" in done.out) == (1, 5, True)


def test_a_job_that_slurm_refused_leaves_no_sign_of_having_been_sent(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    token = tasks(written(deck))["a"]
    slurm.refuse("Invalid account")
    submitted(deck)
    assert (list((deck.folder / "logs/a").iterdir()), ids(deck)) == ([], {})
    slurm.sbatch("")
    submitted(deck)
    assert ids(deck) == {token: "101"}
    assert (deck.folder / "logs/a/latest.log").readlink() == Path("attempt-1.log")


def test_an_engine_that_has_taken_in_what_was_submitted_leaves_nothing_to_submit(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "true"\n')
    token = tasks(written(deck))["a"]
    submitted(deck)
    control = deck.folder / "logs/.jobs"
    (control / f"{token}.claim").write_text("101\n")
    (control / f"{token}.began").write_text("job=101\nnodes=node1\nhost=node1\nwall=1\n")
    end(deck, token, 0)
    assert deck.run("--backend", "slurm").code == 0
    assert ids(deck) == {}
    done = submitted(deck)
    assert (done.code, len(slurm.words()), "submitted earlier 1" in done.out) == (0, 1, True)


def test_a_number_that_an_engine_has_used_meanwhile_is_not_submitted(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "true"\n')
    written(deck)
    assert deck.run("--backend", "local").code == 0
    done = submitted(deck)
    assert (done.code, slurm.words()) == (1, [])
    assert "attempt-1 of a is another's by now: `gpudeck submit` writes what is left" in done.out


def test_a_submission_without_an_answer_is_known_by_the_claim_of_its_job(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    token = tasks(written(deck))["a"]
    slurm.refuse("Socket timed out on send/recv operation")
    assert submitted(deck).code == 3
    (deck.folder / "logs/.jobs" / f"{token}.claim").write_text("55\n")
    done = submitted(deck)
    assert (done.code, len(slurm.words()), "submitted earlier 1" in done.out) == (0, 1, True)


def test_a_submission_without_an_answer_that_slurm_has_is_known_by_its_name(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    written(deck)
    slurm.sbatch("mute=1")
    assert submitted(deck).code == 3
    done = submitted(deck)
    assert (done.code, len(slurm.words()), "submitted earlier 1" in done.out) == (0, 1, True)


def test_nothing_is_submitted_while_what_slurm_has_is_not_known(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    written(deck)
    slurm.refuse("Socket timed out on send/recv operation")
    submitted(deck)
    slurm.silence()
    done = submitted(deck)
    assert (done.code, len(slurm.words()), "squeue does not answer" in done.err) == (3, 1, True)


def test_the_map_of_an_array_is_there_before_it_is_submitted(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[slurm]\narray = true\n[[task]]\nname = "t{i}"\nmatrix.i = [1, 2]\ncommand = "true"\n')
    tokens = tasks(written(deck))
    slurm.sbatch(f"cat {deck.folder}/logs/.jobs/*.map >$here/map")
    assert submitted(deck).code == 0
    assert (slurm.folder / "map").read_text() == f"0 {tokens['t1']}\n1 {tokens['t2']}\n"
    assert ids(deck) == {tokens["t1"]: "101_0", tokens["t2"]: "101_1"}


@pytest.mark.parametrize(
    ("state", "sent"),
    [("COMPLETED", 2), ("LAUNCH_FAILED", 1), ("REVOKED", 1), ("BOOT_FAIL", 1), ("SUSPENDED", 2), ("CONFIGURING", 2)],
)
def test_what_slurm_says_of_a_job_decides_about_those_that_need_it(
    deck: Deck, slurm: PaperSlurm, state: str, sent: int
) -> None:
    deck.write(CHAIN.partition('[[task]]\n    name = "third"')[0])
    token = tasks(written(deck))["first"]
    slurm.sbatch("[ $did = 1 ] || [ -e $here/open ] || { echo 'sbatch: error: closed' >&2; exit 1; }")
    submitted(deck)
    (slurm.folder / "open").touch()
    slurm.row("101", state, text=f"gpudeck {token}")
    submitted(deck)
    assert len(ids(deck)) == sent


def test_what_slurm_never_took_is_written_again_as_another_attempt(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    first = tasks(written(deck))["a"]
    slurm.refuse("Socket timed out on send/recv operation")
    submitted(deck)
    [job] = written(deck)["jobs"]
    assert job["tasks"][0]["log"].endswith("/attempt-2.log")
    assert (deck.folder / "logs/.jobs" / f"{first}.claim").read_text() == "void\n"


def test_what_was_submitted_by_another_folder_is_on_its_way(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    written(deck)
    submitted(deck)
    told = json.loads(deck.command("submit", "--json", "--out", "elsewhere").out)
    assert (told["jobs"], told["in_flight"]) == ([], ["a"])


def test_logs_are_not_moved_while_jobs_tell_of_themselves_in_the_old_place(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    token = tasks(written(deck))["a"]
    submitted(deck)
    deck.write('[deck]\nlog_dir = "elsewhere"\n[[task]]\nname = "a"\ncommand = "true"\n')
    refused = deck.command("submit")
    assert (refused.code, "keep log_dir as it was" in refused.err) == (2, True)
    end(deck, token, 1)
    assert tasks(written(deck)).keys() == {"a"}


# -- written again ----------------------------------------------------------------------------------------------------


def test_what_has_succeeded_is_not_written_again_while_it_is_the_same_work(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write('[[task]]\nname = "a"\ncommand = "true"\n')
    token = tasks(written(deck))["a"]
    submitted(deck)
    end(deck, token, 0)
    assert tasks(written(deck)) == {}
    deck.write('[[task]]\nname = "a"\ncommand = "true again"\n')
    assert tasks(written(deck)).keys() == {"a"}


def test_a_success_whose_outputs_are_gone_is_written_again(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write(CHAIN)
    token = tasks(written(deck))["first"]
    submitted(deck)
    end(deck, token, 0)
    (deck.folder / "model.pt").write_text("weights")
    assert tasks(written(deck)) == {}
    (deck.folder / "model.pt").unlink()
    assert tasks(written(deck)).keys() == {"first"}


def test_a_job_on_its_way_is_waited_for_though_its_outputs_are_there(deck: Deck, slurm: PaperSlurm) -> None:
    deck.write(CHAIN.partition('[[task]]\n    name = "second"')[0])
    written(deck)
    submitted(deck)
    (deck.folder / "model.pt").write_text("weights")
    deck.write(CHAIN)
    told = written(deck)
    assert (tasks(told).keys(), told["jobs"][0]["after_ok"], told["done"]) == ({"second", "third"}, ["first"], [])
