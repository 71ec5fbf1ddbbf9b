"""The command that `gpudeck show` tells, and metrics of tasks that have ended."""

from __future__ import annotations

import json
import shlex
import subprocess

from tests.commands.commands_rig import Commanded
from tests.rigs.desk import Desk, at_desk

TOLD = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "ran"
    command = ["{python}", "-c", "import sys; print(sys.argv[1:])", "{attempt}", "{gpu_ids}", "{run_dir}"]
    [[task]]
    name = "shell"
    command = "echo {gpu_ids} {num_gpus} $HOME; exit 3"
    [[task]]
    name = "behind"
    needs = ["shell"]
    command = ["{python}", "eval.py", "--gpus={gpu_ids}", "{attempt}"]
    [[task]]
    name = "keyed"
    env = { A = "1" }
    command = "test -n {env.MY_API_KEY}"
"""
ENDS = {"ran": 0, "shell": 3, "keyed": 0}
RESUMING = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "again"
    command = "exit 3"
    resume_command = "echo resumed {attempt}; sleep 600"
    retries = 1
    backoff = "0s"
"""


async def told(desk: Desk, name: str) -> str:
    command = (await desk.told("show", name))["command"]
    return command if isinstance(command, str) else shlex.join(command)


def test_the_command_that_show_tells_of_a_task_that_ran_runs_in_a_shell_as_it_ran(deck: Commanded) -> None:
    deck.env["MY_API_KEY"] = "key"
    deck.write(TOLD)
    deck.run("--only", "ran")
    command = shlex.join(json.loads(deck.command("show", "ran", "--json").out)["command"])
    words = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert words == (deck.folder / "logs/ran/attempt-1.log").read_text()


@at_desk(TOLD, ENDS)
async def test_an_engine_tells_the_same_commands_as_the_files_do(desk: Desk) -> None:
    desk.env["MY_API_KEY"] = "key"
    await desk.run()
    without = [await told(desk, name) for name in (*ENDS, "behind")]
    await desk.start()
    assert [await told(desk, name) for name in (*ENDS, "behind")] == without
    assert without[1] == "echo 1 1 $HOME; exit 3"


@at_desk(TOLD, ENDS)
async def test_of_a_task_that_has_not_run_only_what_is_unknown_stays_a_placeholder(desk: Desk) -> None:
    desk.env["MY_API_KEY"] = "key"
    await desk.run()
    found = await desk.told("show", "behind")
    assert found["command"] == [found["python"], "eval.py", "--gpus={gpu_ids}", "{attempt}"]


@at_desk(TOLD.replace("sim:2", "sim:1"), ENDS)
async def test_gpus_of_which_no_file_tells_the_number_stay_a_placeholder(desk: Desk) -> None:
    desk.env["MY_API_KEY"] = "key"
    await desk.run("--only", "shell")
    (desk.folder / "logs/shell/attempt-1.json").unlink()
    assert await told(desk, "shell") == "echo 0 1 $HOME; exit 3"
    desk.write(TOLD.replace("sim:2", "none"))
    assert await told(desk, "shell") == "echo {gpu_ids} 1 $HOME; exit 3"


@at_desk('[deck]\ngpus = "sim:2"\n[[task]]\nname = "t"\ngpus = "all"\nlaunch = "torchrun"\ncommand = "true"\n')
async def test_of_a_task_that_has_not_run_it_is_told_how_many_ranks_it_will_have(desk: Desk) -> None:
    assert (await desk.told("show", "t"))["launch"]["ranks"] == 2


@at_desk('[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "echo {env.WHO}"\n', {"t": 0})
async def test_a_command_is_told_as_the_run_s_environment_has_it_whatever_the_caller_s_has(desk: Desk) -> None:
    desk.env["WHO"] = "ann"
    await desk.run()
    desk.env["WHO"] = "bob"
    assert await told(desk, "t") == "echo ann"


@at_desk(RESUMING)
async def test_of_an_attempt_that_resumed_the_command_that_resumes_is_told(desk: Desk) -> None:
    await desk.start()
    await desk.ends("again", 3)
    await desk.until(lambda: len(desk.started) == 2)
    assert await told(desk, "again") == "echo resumed 2; sleep 600"


MEASURED = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "t"\ncommand = "true"\nmetrics.%s.regex = "%s=(.*)"\n'


@at_desk(MEASURED % ("acc", "acc"))
async def test_metrics_of_an_attempt_are_those_that_the_file_named_when_it_began(desk: Desk) -> None:
    await desk.start()
    await desk.until_state("t", "running")
    desk.write((MEASURED % ("loss", "loss")).replace("true", "true again"))
    assert (await desk.command("apply", "-y")).code == 0
    await desk.ends("t", out="acc=0.5\nloss=2\n")
    await desk.until_state("t", "succeeded")

    def measured() -> dict[str, object]:
        record = desk.folder / "logs/t/attempt-1.json"
        return json.loads(record.read_text()).get("end", {}).get("metrics", {}) if record.exists() else {}

    await desk.until(measured)
    assert set(measured()) == {"acc"}
