"""Tasks with an image, on real containers: podman's, and docker's where its daemon can be started."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.container_rig import IMAGE, Containers, NoContainersError, containers
from tests.e2e.decks import Deck, lives, until

pytestmark = pytest.mark.containers


@pytest.fixture(scope="module", params=["podman", "docker"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    try:
        with containers(request.param, tmp_path_factory.mktemp("c")) as found:
            yield found
    except NoContainersError as error:
        pytest.skip(f"{request.param} NOT TESTED: {error}")


@pytest.fixture
def inside(deck: Deck, box: Containers) -> Iterator[Deck]:
    deck.env |= box.env
    yield deck
    for name in box.there():
        box.call("rm", "--force", name)


def write(deck: Deck, box: Containers, tasks: str) -> None:
    head = f'[deck]\ngpus = "sim:2"\ncontainer = "{box.program}"\n[defaults]\nimage = "{IMAGE}"\ngrace = "2s"\n'
    deck.write(head + tasks)


def processes(deck: Deck) -> list[int]:
    """Those in containers: they have a pid of their own."""
    return [pid for pid in deck.living() if len(_line(pid, "NSpid:").split()) > 1]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _line(pid: int, name: str) -> str:
    lines = _read(pid, "status").splitlines()
    return next((line.removeprefix(name) for line in lines if line.startswith(name)), "")


def clients(deck: Deck) -> list[int]:
    """The container program's own processes, which began with the attempt's wrapper."""
    own = set(deck.living()) - set(processes(deck))
    return [pid for pid in own if "\0run\0" in _read(pid, "cmdline")]


UP = 'name = "up"\ncommand = "echo up; read _ <gate; exit 7"\n'
DEAF = 'name = "deaf"\ncommand = "trap \'\' TERM; echo up; while :; do sleep 0.1; done"\n'


def test_exit_codes_output_and_files_go_through(inside: Deck, box: Containers) -> None:
    command = "echo out; echo err >&2; touch made; exit 7"
    write(inside, box, f'[[task]]\nname = "seven"\ncommand = "{command}"\n')
    ran = inside.run()
    assert ran.ended("seven")[0]["exit_code"] == 7
    assert inside.text("logs/seven/attempt-1.log") == "out\n"
    assert inside.text("logs/seven/attempt-1.err") == "err\n"
    assert (inside.folder / "made").stat().st_uid == os.getuid()
    assert box.there() == []


def test_the_command_has_the_task_s_own_variables_alone(inside: Deck, box: Containers) -> None:
    inside.env |= {"OF_THE_SHELL": "1", "WANTED": "w"}
    more = 'env = { OWN = "a b", HOME = "/tmp" }\nenv_required = ["WANTED"]\n'
    write(inside, box, f'[[task]]\nname = "env"\ncommand = ["env"]\n{more}')
    assert inside.run().states == {"env": "succeeded"}
    said = dict(line.partition("=")[::2] for line in inside.lines("logs/env/attempt-1.log"))
    assert (said["OWN"], said["HOME"], said["WANTED"]) == ("a b", "/tmp", "w")
    assert said["GPUDECK_TASK"] == "env"
    assert said["GPUDECK_RUN_DIR"].startswith(str(inside.folder))
    assert {"OF_THE_SHELL", "DOCKER_HOST"}.isdisjoint(said)


def test_a_stop_asks_every_process_once(inside: Deck, box: Containers) -> None:
    each = "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.1; done"
    last = each.replace("exit 3", "wait; exit 3")  # with the first process of a container all others end
    write(inside, box, f"""[[task]]\nname = "t"\ncommand = '''bash -c "{each}" & {last}'''\n""")
    engine = inside.start()
    until(lambda: inside.lines("logs/t/attempt-1.log") == ["up", "up"])
    engine.signal(signal.SIGTERM)
    engine.finish()
    assert inside.lines("logs/t/attempt-1.log") == ["up", "up", "asked", "asked"]
    assert box.there() == []


def test_one_that_ignores_it_is_killed_after_the_grace(inside: Deck, box: Containers) -> None:
    write(inside, box, f"[[task]]\n{DEAF}")
    engine = inside.start()
    until(lambda: inside.lines("logs/deaf/attempt-1.log"))
    engine.signal(signal.SIGTERM)
    ran = engine.finish()
    assert (ran.code, processes(inside)) == (143, [])
    until(lambda: box.there() == [])


def test_one_that_a_command_started_by_itself_outlives_the_stop_and_that_is_told(inside: Deck, box: Containers) -> None:
    deaf = "sh -c 'trap : USR1; echo up; while :; do sleep 0.1; done'"  # podman ends by TERM as it begins
    run = f"{box.program} run --rm --network host --name by-hand {IMAGE} {deaf}"
    inside.write(
        f'[deck]\ngpus = "sim:1"\n[[task]]\nname = "typed"\ngrace = "1s"\nstop_signal = "USR1"\ncommand = "{run}"\n'
    )
    engine = inside.start()
    until(lambda: inside.lines("logs/typed/attempt-1.log"))
    engine.signal(signal.SIGTERM)
    engine.note(f"`{box.program} rm -f by-hand` ends that")
    engine.finish()
    assert box.there() == ["by-hand"]


def test_the_next_engine_goes_on_with_it_and_learns_its_exit_code(inside: Deck, box: Containers) -> None:
    write(inside, box, f"[[task]]\n{UP}")
    gate = inside.gate()
    engine = inside.start()
    until(lambda: inside.lines("logs/up/attempt-1.log"))
    until(lambda: processes(inside))
    engine.kill()
    engine = inside.start()
    engine.event("deck_opened")
    gate.let()
    assert engine.ended("up")["exit_code"] == 7
    engine.finish()
    assert inside.lines("logs/up/attempt-1.log") == ["up"]


def test_a_container_that_outlives_client_and_engine_keeps_its_slot(inside: Deck, box: Containers) -> None:
    write(inside, box, f'[[task]]\n{UP}leftovers = "wait"\n[[task]]\nname = "next"\ncommand = "echo next"\n')
    inside.write(inside.text("tasks.toml").replace("sim:2", "sim:1"))
    gate = inside.gate()
    engine = inside.start()
    until(lambda: inside.lines("logs/up/attempt-1.log"))
    found = until(lambda: processes(inside))
    engine.kill()
    for pid in set(inside.living()) - set(found):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    engine = inside.start()
    engine.event("deck_opened")
    assert all(map(lives, found))
    assert engine.count("task_started") == 0
    gate.let()
    engine.ended("up")
    engine.started("next")
    assert not any(map(lives, found))
    engine.finish()


def test_a_container_that_lost_its_client_is_stopped_as_what_the_attempt_left(inside: Deck, box: Containers) -> None:
    write(inside, box, f'[[task]]\n{DEAF}linger = "0s"\n')
    engine = inside.start()
    until(lambda: inside.lines("logs/deaf/attempt-1.log"))
    until(lambda: processes(inside))
    for pid in clients(inside):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    engine.ended("deaf")
    assert processes(inside) == []
    engine.finish()
    until(lambda: box.there() == [])


def test_a_container_is_nobody_else_s_leftover(inside: Deck, box: Containers) -> None:
    write(inside, box, f'[[task]]\n{UP}[[task]]\nname = "plain"\ngpus = 0\ncommand = "sleep 1 & echo"\nlinger = "0s"\n')
    text = inside.text("tasks.toml").replace(f'image = "{IMAGE}"\n', "")
    inside.write(text.replace(UP, f'{UP}image = "{IMAGE}"\n'))
    gate = inside.gate()
    engine = inside.start()
    until(lambda: processes(inside))
    assert engine.ended("plain")["reason"] == "ok"
    gate.let()
    assert engine.ended("up")["exit_code"] == 7
    engine.finish()
