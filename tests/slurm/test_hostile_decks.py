"""Decks started where much is set that could mislead Slurm, or the shells of a job."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.decks import Deck, Ran
from tests.slurm.rig import Cluster

pytestmark = pytest.mark.slurm

PRINT_ENV = """python3 -c 'import json, os; print(json.dumps({k.hex(): v.hex() for k, v in os.environb.items()}))'"""


def write(deck: Deck, *, array: bool = False, setup: str = "", command: str = PRINT_ENV) -> None:
    """Two tasks that print their environment, and one that waits for their results."""
    deck.write(f"""
        [deck]
        backend = "slurm"
        [slurm]
        array = {str(array).lower()}
        setup = [{setup}]
        [[task]]
        name = "a-{{i}}"
        matrix.i = [1, 2]
        gpus = 1
        outputs = ["out-{{i}}"]
        command = '''{command}; pwd >out-{{i}}'''
        [[task]]
        name = "b"
        needs = ["a-*"]
        gpus = 0
        command = "cat out-1 out-2"
    """)


def given(deck: Deck) -> dict[bytes, bytes]:
    """The environment that a task had."""
    told: dict[str, str] = json.loads(deck.text("logs/a-1/attempt-1.log"))
    return {bytes.fromhex(name): bytes.fromhex(value) for name, value in told.items()}


def good(ran: Ran) -> bool:
    return ran.code == 0 and ran.states == {"a-1": "succeeded", "a-2": "succeeded", "b": "succeeded"}


def test_variables_meant_for_slurms_programs_reach_neither_them_nor_the_job(deck: Deck, cluster: Cluster) -> None:
    write(deck)
    hostile = {
        "SBATCH_CONSTRAINT": "nope", "SBATCH_EXPORT": "NONE", "SBATCH_HOLD": "1", "SBATCH_WAIT": "1",
        "SBATCH_TIMELIMIT": "0:01", "SBATCH_OUTPUT": "/nope/x", "SBATCH_ARRAY_INX": "0-9", "SBATCH_CLUSTERS": "other",
        "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "RUNNING", "SQUEUE_USERS": "nobody", "SCANCEL_STATE": "PENDING",
        "SLURM_JOB_ID": "99999", "SLURM_CPUS_PER_TASK": "5", "SLURM_TIME_FORMAT": "relative",
    }  # fmt: skip
    deck.env.update(hostile)
    ran = deck.run()
    assert good(ran), ran.out + ran.err
    assert [name for name in given(deck) if name.startswith(b"SBATCH_")] == []
    assert given(deck)[b"SLURM_JOB_ID"] in {job.id.encode() for job in cluster.jobs()}


@pytest.mark.parametrize("array", [False, True])
def test_functions_of_the_callers_shell_take_no_place_of_what_a_job_runs(deck: Deck, array: bool) -> None:
    write(deck, array=array)
    for name in ("read", "cd", "printf", "exec", "env", "date", "sync"):
        deck.env[f"BASH_FUNC_{name}%%"] = "() { echo evil; exit 9; }"
    ran = deck.run()
    assert good(ran), ran.out + ran.err


@pytest.mark.parametrize(("array", "setup"), [(False, ""), (True, ""), (False, '"export FROM_SETUP=1"')])
def test_values_and_names_arrive_as_they_are_whatever_they_hold(deck: Deck, array: bool, setup: str) -> None:
    write(deck, array=array, setup=setup)
    odd = {
        b"LINES_OF": b"a\nb\n\nc\nEOF\n'\n", b"QUOTES": b"it's \"x\" `id` $(id) $HOME \\ \\n !",
        b"RETURNS": b"a\rb\r\n",
        b"NO_UTF8": b"\xff\xfe\x80z", b"N\xffAME": b"x", b"BAD-NAME": b"dash", b"1BAD": b"digit", b"of words": b"x",
        b"EMPTY": b"", b"BIG": b"x" * 100_000, b"gd_token": b"x", b"gd_files": b"x", b"TMOUT": b"1",
        b"GLOBIGNORE": b"*", b"CDPATH": b"/usr", b"POSIXLY_CORRECT": b"1",
    }  # fmt: skip
    deck.env.update({os.fsdecode(name): os.fsdecode(value) for name, value in odd.items()})
    ran = deck.run()
    assert good(ran), ran.out + ran.err
    had = given(deck)
    assert {name: had.get(name) for name in odd} == odd


NAMES = [
    "a b",
    'it\'s "q" $x `id`',
    "100%j %A %u",
    "a\nb",
    "a\\b",
    "zażółć",
    "x\udcffy",
    "a#b",
    "-rf",
    "a\rb",
    "[a]*?",
    "~",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_deck_runs_in_a_folder_of_any_name(cluster: Cluster, tmp_path: Path, name: str) -> None:
    deck = Deck(tmp_path / name)
    deck.env.update(cluster.env)
    write(deck, array=True)
    ran = deck.run()
    assert good(ran), ran.out + ran.err
    assert (deck.folder / "out-1").read_bytes() == os.fsencode(deck.folder) + b"\n"


def test_what_a_users_bashrc_says_and_does_reaches_no_job(deck: Deck, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in (".bashrc", ".bash_profile", ".profile"):
        (home / name).write_text("echo NOISE\nexit 5\n")
    write(deck, setup='"export FROM_SETUP=1"')
    deck.env["HOME"] = str(home)
    ran = deck.run()
    assert good(ran), ran.out + ran.err
    assert deck.text("logs/a-1/attempt-1.err") == ""
    assert given(deck)[b"FROM_SETUP"] == b"1"


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_files_get_the_callers_umask_and_what_holds_secrets_is_the_users_alone(deck: Deck, umask: int) -> None:
    write(deck)
    ran = deck.command("--headless", "tasks.toml", "--json", umask=umask)
    assert good(ran), ran.out + ran.err
    logs = deck.folder / "logs"
    private = [logs / ".jobs", logs / "a-1" / "attempt-1.sh"]
    usual = [deck.folder / "out-1", logs / "a-1" / "attempt-1.log", logs / "a-1" / "attempt-1.json"]
    assert [path.stat().st_mode & 0o077 for path in private] == [0, 0]
    assert {path.stat().st_mode & 0o777 for path in usual} == {0o666 & ~umask}
