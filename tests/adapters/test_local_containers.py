"""An attempt whose container's processes cannot be seen: its client is asked, its program has the last word."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpudeck.engine.ports import Known
from tests.fakes.local_rig import Rig, launched, lives, until

CLIENT = "trap 'echo told; exit 143' TERM; echo up; while :; do sleep 0.02; done"


def program(folder: Path, body: str = "") -> str:
    """A container program that writes down what it is asked."""
    path = folder / "docker"
    path.write_text(f'#!/bin/sh\n{body}\necho "$*" >>{folder}/asked\n')
    path.chmod(0o755)
    return str(path)


def asked(rig: Rig) -> list[str]:
    path = rig.folder / "asked"
    return path.read_text().splitlines() if path.exists() else []


@launched
async def test_its_client_hands_the_stop_on_and_its_name_is_removed(rig: Rig) -> None:
    token = rig.start("bash", "-c", CLIENT, container=program(rig.folder))
    await rig.text(token)
    rig.launcher.stop(token, signal=signal.SIGTERM, scope="group", grace_s=30)
    await rig.tree_end(token)
    assert rig.out(token).read_text() == "up\ntold\n"
    assert asked(rig) == [f"rm --force gpudeck-{token}"]


@launched
async def test_it_is_not_over_before_the_program_has_answered(rig: Rig) -> None:
    body = f"until [ -e {rig.folder}/let ]; do sleep 0.02; done"
    token = rig.start("bash", "-c", "kill -9 $$", container=program(rig.folder, body))
    assert (await rig.leader_end(token)).code == 137
    assert rig.tree(token) is None
    (rig.folder / "let").touch()
    await rig.tree_end(token)


@pytest.mark.parametrize("code", [0, 7])
@launched
async def test_a_client_that_ended_by_itself_has_removed_it(rig: Rig, code: int) -> None:
    token = rig.start("bash", "-c", f"exit {code}", container=program(rig.folder))
    await rig.tree_end(token)
    assert asked(rig) == []


@launched
async def test_one_of_an_earlier_engine_is_removed_before_it_is_given_up(rig: Rig) -> None:
    name = program(rig.folder)
    token = rig.start("bash", "-c", CLIENT, container=name)
    await rig.text(token)
    pid, ticks = rig.pids[token], rig.ticks[token]
    rig.replace_launcher()
    os.killpg(pid, signal.SIGKILL)
    await until(lambda: not lives(pid))
    assert rig.launcher.recover([Known(token, pid, ticks, container=name)]) == {token: "adopted"}
    assert (await rig.leader_end(token)).code is None
    await rig.tree_end(token)
    assert asked(rig) == [f"rm --force gpudeck-{token}"]
