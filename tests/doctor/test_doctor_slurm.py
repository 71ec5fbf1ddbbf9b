"""`gpudeck doctor` for a deck that runs on Slurm: judgements on what a cluster says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpudeck.engine.core.spec import Extras, Policy, Resources, TaskSpec, Work
from tests.e2e.decks import Deck
from tests.inside.doctor import (
    NEEDED,
    Call,
    Ended,
    Finding,
    SlurmFacts,
    Trial,
    Wish,
    associations_of,
    check_account,
    check_answer,
    check_cores,
    check_gpus,
    check_partitions,
    check_requests,
    check_times,
    check_trial,
    config_of,
    look,
    partitions_of,
    times_of,
)
from tests.inside.doctor import slurm_checks_check_limits as check_limits
from tests.inside.doctor import wishes as wishes_in

SINFO = """\
main*|up|idle|2|0/16/0/16|gpu:a100:4|gpu:a100:0(IDX:N/A)|
cpu|up|idle|2|0/16/0/16|(null)|(null)|
shut|down|idle|2|0/16/0/16|gpu:4|gpu:0(IDX:N/A)|
broken|up|down*|2|0/0/16/16|gpu:4|gpu:0(IDX:N/A)|
"""
CONFIG = """\
Configuration data as of 2026-11-23T09:00:00
AccountingStorageType   = accounting_storage/slurmdbd
AccountingStorageEnforce = associations,limits
ClusterName             = deep
MaxArraySize            = 1001
MaxJobCount             = 10000
MinJobAge               = 300 sec
"""
FACTS = SlurmFacts((), "slurm 22.05.8", "", 0.012, config_of(CONFIG), tuple(partitions_of(SINFO)))


def task(name: str = "a", gpus: int = 1, timeout_s: float | None = None, nodes: int = 1, **options: object) -> TaskSpec:
    return TaskSpec(
        name, name, 0, Work(("true",)), "f" * 8, cwd="/data", resources=Resources(gpus=gpus),
        policy=Policy(timeout_s=timeout_s, grace_s=30), extras=Extras(nodes=nodes, slurm=tuple(options.items())),
    )  # fmt: skip


def wishes(tasks: list[TaskSpec]) -> list[Wish]:
    return wishes_in(tasks, "/logs", {})


def only(findings: object) -> Finding:
    found = list(findings)  # pyright: ignore[reportArgumentType]
    assert len(found) == 1, found
    return found[0]


# -- what the jobs ask for --------------------------------------------------------------------------------------------


def test_tasks_that_ask_for_the_same_are_one_wish_and_the_commonest_comes_first():
    found = wishes([task("a", gpus=2), task("b"), task("c")])
    assert [(wish.task, wish.tasks) for wish in found] == [("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        (task(), ("--gres=gpu:1",)),
        (task(gpus=0), ()),
        (task(gpus=2, gres="gpu:a100:\0{num_gpus}"), ("--gres=gpu:a100:2",)),
        (task(gpus=0, gres="gpu:a100:\0{num_gpus}"), ()),
        (task(gpus=0, timeout_s=90.0), ("--time=2",)),
        (task(gpus=0, timeout_s=90.0, time=600.0), ("--time=10",)),
        (task(gpus=0, partition="cpu", mem=2048), ("--mem=2048M", "--partition=cpu")),
        (task(gpus=0, constraint="v\0{attempt}", exclusive=True), ("--constraint=v1", "--exclusive")),
        (task(gpus=0, nodelist="node1,node2"), ()),
    ],
)
def test_a_wish_has_the_arguments_of_its_first_job(spec: TaskSpec, arguments: tuple[str, ...]):
    assert wishes([spec])[0].arguments == ("--nodes=1", "--ntasks-per-node=1", *arguments, "--signal=B:USR2@60")


def test_a_wish_of_several_processes_has_as_many_tasks_on_each_node():
    extras = Extras(nodes=2, launch="srun")
    wish = wishes([replace(task(gpus=4), extras=extras)])[0]
    assert wish.arguments[:3] == ("--nodes=2", "--ntasks-per-node=4", "--gres=gpu:4")


def test_raw_lines_are_asked_about_as_the_first_job_has_them():
    wish = wishes([task(extra=("#SBATCH --mail-type=END", "--comment=try-\0{attempt}"))])[0]
    assert wish.extra == ("--mail-type=END", "--comment=try-1")


# -- what the cluster says --------------------------------------------------------------------------------------------


def test_a_program_that_is_not_found_is_a_failure():
    assert check_answer(SlurmFacts(missing=("scancel",))).text == "no scancel"
    assert check_answer(SlurmFacts(missing=NEEDED)).line.startswith("not found → run gpudeck on a login node")


def test_a_controller_that_does_not_answer_is_a_failure_in_its_own_words():
    found = check_answer(SlurmFacts((), "slurm 22.05.8", "scontrol: exit code 1: Unable to contact slurm controller"))
    assert (found.level, found.text) == (
        "fail",
        "slurm 22.05.8: scontrol: exit code 1: Unable to contact slurm controller",
    )


@pytest.mark.parametrize(
    ("name", "level", "part"),
    [
        ("", "ok", "main: up, 2 of 2 nodes up, 8 of 8 a100 free"),
        ("cpu", "ok", "cpu: up, 2 of 2 nodes up"),
        ("mian", "fail", "did you mean main?"),
        ("qqq", "fail", "main, cpu, shut, broken"),
        ("shut", "fail", "shut: down"),
        ("broken", "warn", "0 of 2 nodes up"),
    ],
)
def test_a_partition_has_to_be_there_and_up(name: str, level: str, part: str):
    found = only(check_partitions(FACTS, wishes([task(partition=name)])))
    assert (found.level, part in found.line) == (level, True), found


def test_fewer_jobs_than_the_engine_would_submit_are_told_with_what_to_write():
    facts = replace(FACTS, most_submitted=20)
    found = only(check_limits(facts, wishes([task()]), 200, sacct=True))
    assert found.text == "you, or a QOS here, may have 20 jobs submitted (MaxSubmitJobs), max_submitted is 200"
    assert found.remedy.startswith("max_submitted = 19 in [slurm]")


def test_without_a_default_partition_tasks_have_to_name_one():
    facts = replace(FACTS, partitions=FACTS.partitions[1:])
    assert only(check_partitions(facts, wishes([task()]))).remedy == "partition in [slurm]: cpu, shut, broken"


def test_a_time_that_no_partition_of_the_task_allows_is_a_failure():
    facts = replace(FACTS, times=times_of("main|2:00:00\ncpu|infinite\nshut|1-00:00:00\n"))
    assert list(check_times(facts, wishes([task(time=7200.0), task("b", time=9e5, partition="main,cpu")]))) == []
    found = only(check_times(facts, wishes([task(time=7260.0)])))
    assert (found.level, found.text) == ("fail", "a asks for 121 min, and a job may last 120 in main: it never starts")


def test_several_gpus_without_cores_are_warned_of():
    gang = task(gpus=4)
    with_cores = replace(gang, resources=replace(gang.resources, cpus=8))
    sound = [task(), with_cores, task(gpus=4, exclusive=True), task(gpus=4, extra=("--cpus-per-gpu=4",))]
    assert list(check_cores(sound)) == []
    found = only(check_cores([*sound, gang, gang]))
    words = "a and 1 more: several GPUs and no cpus: Slurm mostly gives a single core to all of them"
    assert (found.level, found.text) == ("warn", words)


def test_a_type_of_gpu_that_the_partition_does_not_have_is_a_failure():
    found = only(check_gpus(FACTS, wishes([task(gres="gpu:h100:\0{num_gpus}"), task(gres="gpu:a100:1")])))
    assert found.line == "a wants gpu:h100, which main does not have → it has gpu:a100"


def test_a_gpu_task_in_a_partition_without_gpus_is_a_failure():
    assert only(check_gpus(FACTS, wishes([task(partition="cpu"), task(gpus=0)]))).text == (
        "a wants GPUs, and cpu has none"
    )


def test_accounts_and_qos_are_those_that_accounting_knows():
    facts = replace(FACTS, associations=associations_of(["physics|normal,long", "guests|normal"]))
    assert only(check_account(facts, wishes([task(account="guests", qos="long")]))).level == "ok"
    found = list(check_account(facts, wishes([task(account="biology", qos="short")])))
    assert [(each.level, each.check, each.text) for each in found] == [
        ("fail", "account", "biology: you may submit to physics, guests"),
        ("fail", "qos", "short: you may use normal, long"),
    ]


@pytest.mark.parametrize(("enforced", "level"), [("associations,limits", "fail"), ("none", "warn")])
def test_a_wrong_account_is_a_failure_only_where_accounts_are_enforced(enforced: str, level: str):
    config = {**FACTS.config, "AccountingStorageEnforce": enforced}
    facts = replace(FACTS, config=config, associations=associations_of(["physics|normal"]))
    assert only(check_account(facts, wishes([task(account="biology")]))).level == level


def test_where_nobody_keeps_accounts_nothing_is_said_of_them():
    assert list(check_account(FACTS, wishes([task(account="biology")]))) == []


@pytest.mark.parametrize(
    ("config", "max_submitted", "sacct", "part"),
    [
        ({}, 200, False, "MaxJobCount 10000, MaxArraySize 1001, MinJobAge 300"),
        ({"MaxJobCount": "100"}, 200, True, "the cluster holds 100 jobs, max_submitted is 200"),
        ({"MaxArraySize": "0"}, 200, True, "takes no job arrays"),
        ({"MinJobAge": "10 sec"}, 200, False, "ended jobs are forgotten after 10 s (MinJobAge), and there is no sacct"),
        ({"MinJobAge": "10 sec"}, 200, True, "MinJobAge 10"),
    ],
)
def test_the_controllers_limits_are_compared_with_what_the_engine_does(
    config: Mapping[str, str], max_submitted: int, sacct: bool, part: str
):
    facts = replace(FACTS, config={**FACTS.config, **config})
    assert part in only(check_limits(facts, wishes([task(array=True)]), max_submitted, sacct=sacct)).text


def test_what_sbatch_refuses_is_said_with_the_task_and_its_words():
    refused = Ended(1, "", "allocation failure: Requested node configuration is not available\n")
    first, second = wishes([task(gpus=2), task("b", gpus=9)])
    found = only(check_requests([(first, Ended(0, "", "")), (second, refused)]))
    asked = "--nodes=1 --ntasks-per-node=1 --gres=gpu:9 --signal=B:USR2@60"
    assert found.text == f"b: sbatch {asked}: Requested node configuration is not available"
    assert only(check_requests([(first, Ended(0, "", ""))])).level == "ok"


# -- the trial job ----------------------------------------------------------------------------------------------------

WISH = wishes([task()])[0]
TRIAL = Trial("/data/logs", "ext4", "12", took_s=1.5)


def test_a_file_that_came_proves_the_job_and_its_log_folder():
    told = {"host": "node7", "cwd": "yes", "python": "yes"}
    job, logs = check_trial(replace(TRIAL, told=told, state="RUNNING"), WISH)
    assert (job.level, job.text) == ("ok", "job 12 ran on node7 and was heard of after 1.5 s")
    assert (logs.level, logs.text) == ("ok", "node7 writes into /data/logs (ext4), seen here")


def test_a_job_that_ended_without_its_file_says_that_the_folder_is_not_shared():
    found = only(check_trial(replace(TRIAL, state="COMPLETED None"), WISH))
    assert (found.level, found.check) == ("fail", "log_dir")
    assert "its file never came to /data/logs (ext4)" in found.text


def test_a_job_that_waits_is_a_warning_with_slurms_reason():
    job, logs = check_trial(replace(TRIAL, state="PENDING Resources", took_s=60.0), WISH)
    assert (job.level, job.text) == ("warn", "job 12 did not end in 60 s (PENDING Resources): cancelled")
    assert (logs.level, logs.check) == ("warn", "log_dir")


@pytest.mark.parametrize("what", ["cwd", "python"])
def test_what_the_node_lacks_is_a_failure(what: str):
    found = list(check_trial(replace(TRIAL, told={"host": "node7", what: "no"}), WISH))
    assert found[-1].level == "fail"
    assert found[-1].text.startswith("node7 has no ")


# -- the command ------------------------------------------------------------------------------------------------------


def test_programs_are_looked_for_where_the_engine_would(tmp_path: object):
    assert look(Call({"PATH": str(tmp_path)})).missing == NEEDED


def test_a_deck_for_slurm_where_there_is_none_fails_on_that_line_alone(deck: Deck):
    deck.write('[deck]\nbackend = "slurm"\n[[task]]\nname = "a"\ncommand = "true"\n')
    tools = deck.folder / "bin"
    tools.mkdir()
    for name in ("sh", "bash", "git"):
        (tools / name).symlink_to(shutil.which(name) or name)
    ran = deck.command("doctor", env={"PATH": f"{tools}{os.pathsep}{os.path.dirname(deck.prefix[0])}"})
    assert [line.split()[1] for line in ran.out.splitlines() if line.startswith("FAIL")] == ["Slurm"], ran.out
    assert "GPU detection" not in ran.out
    assert ran.code == 1
