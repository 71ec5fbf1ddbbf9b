"""`gpudeck doctor` as it is typed, and as a task runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.conftest import without_torch
from tests.doctor.test_doctor_python import torch
from tests.e2e.decks import Deck, Ran, lives, until
from tests.fakes import forked
from tests.fakes.nvml_double.box import VARIABLE, Box
from tests.fakes.nvml_double.build import KINDS, library_folder

SOUND = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "a"
    command = "true"
"""
IMPATIENT = """
from gpudeck.engine.doctor import gpus
gpus._DISCOVER_S = 1.0
from gpudeck.cli.main import main
raise SystemExit(main())
"""
PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"


def told(ran: Ran) -> dict[str, Any]:
    assert ran.err == ""
    return json.loads(ran.out)


def by_name(ran: Ran) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in told(ran)["checks"]}


def columns(table: str) -> list[str]:
    return re.findall(r"^\| `(\w+)`", table, re.MULTILINE)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """What is told in JSON of a deck in which all is well."""
    with without_torch(tmp_path_factory.mktemp("sound")) as deck:
        deck.write(SOUND)
        yield deck.command("doctor", "--json")


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.torchrun)])
def test_a_line_a_check_and_exit_0_where_nothing_fails(deck: Deck, real: bool):
    deck.write(SOUND)
    (deck.folder / "torch.py").unlink()
    if not real:
        torch(deck.folder, 0)
    ran = deck.command("doctor")
    assert ran.code == 0, ran.out
    *lines, verdict = ran.out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}
    assert any(re.match(r"ok +torch +CUDA: \w+, Devices: \d+; torch 2", line) for line in lines)
    assert re.fullmatch(r"\d+ ok, \d+ warnings?, 0 failures", verdict)
    assert not (deck.folder / ".gpudeck").exists()
    assert not (deck.folder / "logs").exists()


def test_json_has_what_its_page_says(sound: Ran):
    answer = told(sound)
    whole, each = PAGE.read_text().partition("## JSON")[2].split("Each check:")
    assert list(answer) == columns(whole)
    assert all(list(check) == ["level", "check", "text", "remedy"] for check in answer["checks"])
    assert sorted(answer["checks"][0]) == sorted(columns(each))
    assert answer["file"].endswith("/sound0/tasks.toml")
    assert sum(answer["counts"].values()) == len(answer["checks"])


def test_every_check_has_a_row_in_its_page(sound: Ran):
    rows = set(re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE))))
    named = {re.sub(r"^GPU \d+$", "GPU N", name) for name in by_name(sound)}
    assert named - rows == set()


def test_the_tiny_processes_get_a_gpu_each_and_are_said_to_be_simulated(sound: Ran):
    found = by_name(sound)
    assert found["worker GPU assignments"]["text"] == (
        "SIM 0: CUDA_VISIBLE_DEVICES=0; SIM 1: CUDA_VISIBLE_DEVICES=1; "
        "only the environment was checked, no real GPU is in use"
    )
    assert found["parallel generation"]["text"].startswith("2 processes at the same time")
    assert found["memory utilization"]["text"].endswith("(simulated)")


def test_without_a_task_file_the_box_is_checked(deck: Deck):
    ran = deck.command("doctor", "--json", "--gpus", "none")
    found = by_name(ran)
    assert ran.code == 0
    assert found["task file"]["level"] == "warn"
    assert told(ran)["file"] is None
    assert {"python", "disk", "/dev/shm", "Slurm"} <= set(found)


@pytest.mark.parametrize("text", ["[deck\n", "[deck]\ngpus = 'sim:1'\n[[task]]\nnmae = 'a'\n"])
def test_a_task_file_with_mistakes_is_one_failure_and_all_else_is_checked(deck: Deck, text: str):
    deck.write(text)
    ran = deck.command("doctor", "--json")
    checks = told(ran)["checks"]
    assert ran.code == 1
    assert [each["level"] for each in checks if each["check"] == "task file"] == ["fail"]
    assert checks[0]["text"].startswith("tasks.toml:")
    assert {"python", "disk", "Slurm"} <= {each["check"] for each in checks}


def test_checks_of_the_users_own_run_in_the_tasks_python_and_environment(deck: Deck):
    deck.write("""
        [deck]
        gpus = "sim:1"
        [doctor]
        run = ["{python} -c 'import sys, os; sys.exit(os.environ[\\"WHERE\\"] != \\"here\\")'", "echo no >&2; exit 5"]
        imports = ["json", "not_there"]
        [[task]]
        name = "a"
        command = "true"
        env = { WHERE = "here" }
    """)
    ran = deck.command("doctor", "--json")
    own = [each for each in told(ran)["checks"] if each["check"] == "own check"]
    assert ran.code == 1
    assert [each["level"] for each in own] == ["ok", "fail"]
    assert own[1]["text"] == "echo no >&2; exit 5: exit code 5: no"
    assert by_name(ran)["imports"]["level"] == "warn"


def test_each_interpreter_of_a_file_is_checked(deck: Deck):
    (deck.folder / "other").write_text('#!/bin/sh\necho "broken environment" >&2\nexit 4\n')
    (deck.folder / "other").chmod(0o755)
    deck.write(SOUND + '    [[task]]\n    name = "b"\n    command = "true"\n    python = "./other"\n    gpus = 0\n')
    pythons = [each for each in told(deck.command("doctor", "--json"))["checks"] if each["check"] == "python"]
    assert [each["level"] for each in pythons] == ["ok", "fail"]
    assert "broken environment" in pythons[1]["text"]


def test_within_a_task_it_tells_what_this_task_was_given(deck: Deck):
    deck.write("""
        [deck]
        gpus = "sim:2"
        name = "pets"
        [[task]]
        name = "look"
        command = "{python} -m gpudeck doctor --json > told.json"
        gpus = 2
    """)
    ran = deck.run()
    assert ran.code == 0, ran.out
    answer = json.loads(deck.text("told.json"))
    found = {each["check"]: each for each in answer["checks"]}
    assert answer["task"] == "look"
    assert answer["file"] is None
    assert found["task"]["text"].startswith("look, attempt 1 of deck pets: CUDA_VISIBLE_DEVICES=")
    assert "task file" not in found
    assert "worker GPU assignments" not in found


def test_what_cannot_be_meant_is_refused(deck: Deck):
    deck.write(SOUND)
    for words in (("-n", "2"), ("--distributed", "-n", "0"), ("--distributed", "-n", "65")):
        ran = deck.command("doctor", *words)
        assert (ran.code, len(ran.err.splitlines())) == (2, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_by_a_signal_leaves_no_process_behind(deck: Deck, number: signal.Signals):
    deck.write("""
        [deck]
        gpus = "sim:1"
        [doctor]
        run = ["echo $$ > pid.new; mv pid.new pid; sleep 600"]
        [[task]]
        name = "a"
        command = "true"
    """)
    doctor = forked.popen(["doctor"], cwd=deck.folder, env=deck.env)
    pid = int(until(lambda: "".join(deck.lines("pid"))))
    os.kill(doctor.pid, number)
    assert doctor.wait(30) in (130, 143)
    assert not lives(pid)


def test_an_nvidia_smi_that_fails_is_told_with_its_words(deck: Deck):
    smi = deck.folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed' >&2\nexit 9\n")
    smi.chmod(0o755)
    ran = deck.command("doctor", "--json", env={"PATH": f"{smi.parent}:{deck.env['PATH']}"})
    found = by_name(ran)["nvidia-smi"]
    assert (ran.code, found["level"]) == (1, "fail")
    assert found["text"] == "nvidia-smi -L: exit code 9: NVIDIA-SMI has failed"


def test_gpus_that_the_file_names_and_the_box_does_not_have_fail(deck: Deck):
    deck.write(SOUND.replace('"sim:2"', "[61, 62]"))
    ran = deck.command("doctor", "--json")
    assert (ran.code, by_name(ran)["GPU detection"]["level"]) == (1, "fail")


@pytest.fixture
def driver(deck: Deck) -> Box:
    """The deck's commands see two cards behind a driver."""
    assert "library" in KINDS, "a command of its own finds the double as a library: this needs a C compiler"
    box = Box(deck.folder / "box.txt", cards=2)
    deck.env |= {VARIABLE: str(box.path), "LD_LIBRARY_PATH": str(library_folder())}
    return box


def test_cards_behind_a_driver_are_told_one_by_one(deck: Deck, driver: Box):
    driver.processes(1, "1 5000 C")
    found = by_name(deck.command("doctor", "--json"))
    assert found["driver"]["text"] == "NVIDIA driver 560.35.03, NVML answers"
    assert found["GPU detection"]["text"] == "2 GPUs: 0-1 NVIDIA A40 45 GiB"
    assert (found["GPU 0"]["level"], found["GPU 1"]["level"]) == ("ok", "warn")
    assert "used by root (pid 1, 4.9 GiB)" in found["GPU 1"]["text"]


def test_a_driver_that_hangs_is_a_failure_and_all_else_is_checked(deck: Deck, driver: Box):
    driver.hang("all")
    deck.prefix = (sys.executable, "-c", IMPATIENT)
    ran = deck.command("doctor", "--json")
    found = by_name(ran)
    assert (ran.code, found["driver"]["level"]) == (1, "fail")
    assert "NVML gave no answer in 1 s" in found["driver"]["text"]
    assert {"GPU detection", "python", "disk", "Slurm"} <= set(found)
