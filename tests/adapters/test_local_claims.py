"""Claims and real attempts: the wrapper keeps what its engine claimed, the user's processes do not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpudeck.engine.core.events import Unproven
from gpudeck.engine.core.inputs import Input, TreeGone
from gpudeck.engine.ports import Known, SpawnRefusedError
from tests.fakes.local_rig import Rig, claims, kill, launched, lives, until
from tests.inside.adapters import WRAPPER_FD, proc


def other(rig: Rig) -> dict[str, str]:
    """What a deck beside ours finds taken."""
    theirs = claims(rig.folder, "theirs")
    try:
        return {gpu: words.partition(" has ")[0] for gpu, words in theirs.others(["GPU-0", "GPU-1"]).items()}
    finally:
        theirs.close()


OURS = "deck ours of root"


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudeck.engine.adapters.host.login_of", "root".format)


def known(rig: Rig, token: str, *gpus: str) -> Known:
    return Known(token, rig.pids[token], rig.ticks[token], "stop", gpus, "task")


@launched
async def test_an_attempt_claims_its_gpus_while_it_runs(rig: Rig) -> None:
    rig.start("sleep", "300", gpus=["GPU-0"])
    assert other(rig) == {"GPU-0": OURS}


@launched
async def test_a_gpu_is_free_before_its_end_is_told(rig: Rig) -> None:
    await rig.tree_end(rig.start("true", gpus=["GPU-0"]))
    assert other(rig) == {}


class AtEnds(list[Input]):
    """What a launcher tells, and what another deck finds taken at the moment when an end is told."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self.rig = rig
        self.taken: list[dict[str, str]] = []

    def append(self, item: Input) -> None:
        if isinstance(item, TreeGone):
            self.taken.append(other(self.rig))
        super().append(item)


@launched
async def test_a_gpu_is_free_at_the_very_moment_when_its_end_is_told(rig: Rig) -> None:
    rig.inputs = told = AtEnds(rig)
    rig.replace_launcher()
    await rig.tree_end(rig.start("true", gpus=["GPU-0"]))
    assert told.taken == [{}]


@launched
async def test_an_attempt_without_gpus_claims_none(rig: Rig) -> None:
    token = rig.start("sleep", "300")
    assert not Path(f"/proc/{rig.pids[token]}/fd/{WRAPPER_FD}").exists()


@launched
async def test_the_command_does_not_get_the_claim(rig: Rig) -> None:
    token = rig.start("ls", "/proc/self/fd", gpus=["GPU-0"])
    await rig.tree_end(token)
    assert rig.out(token).read_text().split() == ["0", "1", "2", "3"]


@launched
async def test_a_daemon_that_an_attempt_leaves_behind_does_not_keep_the_gpu(rig: Rig) -> None:
    token = rig.start("sh", "-c", "setsid sleep 300 & echo $!", gpus=["GPU-0"], leftovers="leave")
    await rig.tree_end(token)
    pid = await rig.pid_from(token)
    assert lives(pid)
    assert other(rig) == {}
    kill(pid)


@launched
async def test_a_process_that_outlives_the_leader_keeps_the_gpu(rig: Rig) -> None:
    token = rig.start("sh", "-c", "sleep 300 & echo $!", gpus=["GPU-0"])
    await rig.leader_end(token)
    assert other(rig) == {"GPU-0": OURS}
    kill(await rig.pid_from(token))
    await rig.tree_end(token)
    assert other(rig) == {}


@launched
async def test_a_wrapper_that_is_killed_alone_does_not_free_the_gpu(rig: Rig) -> None:
    token = rig.start("sleep", "300", gpus=["GPU-0"])
    await rig.knows_command(token)
    kill(rig.pids[token])
    await until(lambda: not lives(rig.pids[token]))
    assert other(rig) == {"GPU-0": OURS}


@launched
async def test_a_start_on_a_gpu_of_another_deck_is_refused_and_leaves_no_process(rig: Rig) -> None:
    theirs = claims(rig.folder, "theirs")
    fd = theirs.take("1", ["GPU-0"], "task")
    with pytest.raises(SpawnRefusedError, match="deck theirs of root has it") as caught:
        rig.start("true", gpus=["GPU-0"])
    assert [gpu for gpu, _ in caught.value.claimed] == ["GPU-0"]
    assert rig.launcher.members() == {}
    assert fd is not None
    os.close(fd)
    theirs.close()


@launched
async def test_a_start_that_fails_gives_its_claim_back(rig: Rig) -> None:
    rig.launcher._spawner._limit = 1  # pyright: ignore[reportPrivateUsage]  # as if no descriptor were left
    with pytest.raises(SpawnRefusedError):
        rig.start("true", gpus=["GPU-0"])
    assert other(rig) == {}


@launched
async def test_a_new_engine_joins_the_claim_of_what_it_adopts(rig: Rig) -> None:
    token = rig.start("sh", "-c", "echo up; sleep 300", gpus=["GPU-0"])
    await rig.text(token)
    rig.replace_launcher()
    assert rig.launcher.recover([known(rig, token, "GPU-0")]) == {token: "adopted"}
    kill(rig.pids[token])
    await until(lambda: not lives(rig.pids[token]))
    assert other(rig) == {"GPU-0": OURS}


@launched
async def test_between_two_engines_the_wrapper_keeps_the_claim(rig: Rig) -> None:
    rig.start("sleep", "300", gpus=["GPU-0"])
    rig.launcher.close()
    assert other(rig) == {"GPU-0": OURS}
    rig.replace_launcher()


@launched
async def test_an_adopted_attempt_gives_its_gpu_back(rig: Rig) -> None:
    token = rig.start("sleep", "300", gpus=["GPU-0", "GPU-1"])
    rig.replace_launcher()
    rig.launcher.recover([known(rig, token, "GPU-0", "GPU-1")])
    rig.launcher.stop(token, signal=signal.SIGKILL, scope="group", grace_s=0)
    await rig.tree_end(token)
    assert other(rig) == {}


@launched
async def test_an_attempt_that_the_user_gives_up_frees_its_gpu(rig: Rig) -> None:
    """Nothing could be proven of it, so no end was told; its end is on disk because the user said so."""
    gone = Known("unheard-of", 1, 1, "stop", ("GPU-0",), "task")
    rig.replace_launcher(same_namespace=False)
    assert rig.launcher.recover([gone]) == {"unheard-of": Unproven()}
    assert other(rig) == {"GPU-0": OURS}
    rig.launcher.forget("unheard-of")
    assert other(rig) == {}


@launched
async def test_the_next_slot_of_an_adopted_gpu_is_ours(rig: Rig) -> None:
    token = rig.start("sleep", "300", gpus=["GPU-0"])
    rig.replace_launcher()
    rig.launcher.recover([known(rig, token, "GPU-0")])
    rig.start("sleep", "300", gpus=["GPU-0"])


ENGINE = """
import asyncio, os, sys
from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.adapters.processes.launcher import LocalLauncher
from gpudeck.engine.ports import StartOrder
folder = sys.argv[1]
async def main():
    claims = Claims("ours", folder + "/ours", folder + "/locks", print)
    loop = asyncio.get_running_loop()
    launcher = LocalLauncher(folder + "/attempts", lambda _: None, loop, claims=claims, look=lambda _: ())
    env = {"PATH": os.environ["PATH"], "GPUDECK_TOKEN": "token"}
    log = folder + "/log"
    pid, _ = launcher.start(StartOrder("token", ("sleep", "300"), env, "/", log, log, claims=("GPU-0",)))
    print(pid, flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


@launched
async def test_kill_9_of_the_engine_leaves_its_claims_to_the_wrappers(rig: Rig) -> None:
    engine = subprocess.Popen([sys.executable, "-c", ENGINE, str(rig.folder)], stdout=subprocess.PIPE, text=True)
    assert engine.stdout is not None
    wrapper = int(engine.stdout.readline())
    engine.kill()
    engine.wait()
    assert other(rig) == {"GPU-0": OURS}
    kill(wrapper)
    for child in proc.children(wrapper):
        kill(child)
    await until(lambda: other(rig) == {})


def locks_held(folder: Path) -> list[str]:
    """Lock files of cards that this process has open, once for each descriptor."""
    found: list[str] = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(path for path in found if path.startswith(f"{folder}/locks/"))


@launched
async def test_many_attempts_cost_the_engine_one_descriptor_for_claims(rig: Rig) -> None:
    rig.start("sleep", "300", gpus=["GPU-0"])
    first = locks_held(rig.folder)
    for _ in range(5):
        rig.start("sleep", "300", gpus=["GPU-0"])
    assert locks_held(rig.folder) == first != []


@launched
async def test_what_is_waited_for_has_the_claim_and_what_is_not_keeps_no_gpu(rig: Rig) -> None:
    script = "setsid -f script -qc 'sleep 300' /dev/null; sleep 300 & echo $!"
    token = rig.start("sh", "-c", script, gpus=["GPU-0"], leftovers="wait")
    pid = await rig.pid_from(token)
    await rig.leader_end(token)
    assert Path(f"/proc/{pid}/fd/{WRAPPER_FD}").exists()
    assert other(rig) == {"GPU-0": OURS}
    kill(pid)
    protected = (await rig.tree_end(token)).left_behind
    assert [lives(each) for each in protected] == [True] * len(protected) != []
    assert other(rig) == {}
    for each in protected:
        kill(each)
