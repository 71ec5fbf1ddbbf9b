"""Which environment tasks get, whichever engine runs them, and where its values may be found: in one file."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.commands_rig import Commanded, typed
from tests.e2e.decks import until
from tests.e2e.live_rig import commanded, files_with, watching

DECK = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "t"
    command = "env -0 >env-$GPUDECK_ATTEMPT; read _ <gate; exit 3"
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Commanded]:
    with commanded(tmp_path / "deck") as deck:
        deck.write(DECK)
        deck.gate()
        yield deck


def got(deck: Commanded, attempt: int) -> dict[str, str]:
    """The environment that an attempt found."""
    path = deck.folder / f"env-{attempt}"
    until(lambda: path.exists() and path.stat().st_size)
    pairs = (pair.partition("=") for pair in path.read_text().split("\0") if pair)
    return {name: value for name, _, value in pairs}


def end(deck: Commanded) -> None:
    """Let the task fail; the engine goes too."""
    deck.gates[0].let()
    deck.until_state("t", "failed")
    deck.command("stop")


def start(deck: Commanded, **env: str) -> str:
    """Begin the run from a shell with these variables; returns what was said."""
    told = deck.command("start", env=env)
    assert told.code == 0, told.err
    return told.err


def test_the_next_engine_gives_tasks_the_environment_of_the_runs_start(deck: Commanded) -> None:
    start(deck, COLOUR="red")
    first = got(deck, 1)
    deck.command("stop", "--tasks")
    start(deck, COLOUR="blue", NEW="1")
    second = got(deck, 2)
    assert (first["COLOUR"], second["COLOUR"], "NEW" in second) == ("red", "red", False)


def test_a_retry_from_another_shell_uses_the_kept_environment(deck: Commanded) -> None:
    start(deck, COLOUR="red")
    deck.gates[0].let()
    deck.until_state("t", "failed")
    told = deck.command("retry", "t", env={"COLOUR": "blue"})
    assert told.code == 0, told.err
    assert got(deck, 2)["COLOUR"] == "red"


def test_env_refresh_takes_this_shells_environment_from_the_next_start_on(deck: Commanded) -> None:
    start(deck, COLOUR="red")
    deck.command("stop", "--tasks")
    told = deck.command("env", "--refresh", env={"COLOUR": "blue"})
    assert (told.code, "kept: " in told.out) == (0, True)
    start(deck, COLOUR="green")
    assert got(deck, 2)["COLOUR"] == "blue"


def test_env_refresh_under_an_engine_says_that_it_goes_on_with_what_it_has(deck: Commanded) -> None:
    start(deck, COLOUR="red")
    pid = deck.engine_pid()
    told = deck.command("env", "--refresh", env={"COLOUR": "blue"})
    assert told.code == 0
    assert f"engine {pid} goes on with what it has" in told.out
    deck.gates[0].let()
    deck.until_state("t", "failed")
    deck.command("retry", "t")
    assert got(deck, 2)["COLOUR"] == "red"


def test_attaching_from_another_virtual_environment_prints_one_line_that_names_the_tasks_own(deck: Commanded) -> None:
    start(deck, VIRTUAL_ENV="/one")
    deck.env["VIRTUAL_ENV"] = "/two"
    with typed(deck, "tasks.toml", "--plain", columns=200) as terminal:
        terminal.until("logs in")
        (line,) = [line for line in terminal.shown.splitlines() if "tasks get" in line]
    assert "VIRTUAL_ENV /one" in line
    assert "`gpudeck env --refresh`" in line


def test_attaching_from_the_same_environment_prints_no_such_line(deck: Commanded) -> None:
    start(deck)
    with typed(deck, "tasks.toml", "--plain") as terminal:
        terminal.until("logs in")
        assert "tasks get" not in terminal.shown


SESSION = {
    "SSH_TTY": "/dev/pts/9", "SSH_CONNECTION": "1 2 3 4", "SSH_AUTH_SOCK": "/tmp/agent", "TMUX": "/tmp/tmux,1,0",
    "TMUX_PANE": "%3", "STY": "1.pts", "DISPLAY": ":10", "WAYLAND_DISPLAY": "wayland-0", "XAUTHORITY": "/x",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/b", "XDG_SESSION_ID": "7", "XDG_RUNTIME_DIR": "/run/user/0",
}  # fmt: skip


def test_what_ends_with_the_session_does_not_reach_tasks(deck: Commanded) -> None:
    start(deck, **SESSION, XDG_CACHE_HOME="/cache", CUDA_HOME="/cuda")
    found = got(deck, 1)
    assert SESSION.keys() & found.keys() == set()
    assert (found["XDG_CACHE_HOME"], found["CUDA_HOME"]) == ("/cache", "/cuda")


OUTER = ("TASK", "ATTEMPT", "DECK", "TOKEN", "LOG", "RUN_DIR", "GPU_MEM_MIB", "SHARD", "SHARDS", "DIST_STRATEGY")


def test_a_deck_that_a_task_of_another_deck_starts_knows_nothing_of_the_outer_one(deck: Commanded) -> None:
    deck.write(DECK.replace('"sim:1"', '"none"'))
    start(deck, **{f"GPUDECK_{name}": "outer" for name in OUTER})
    found = got(deck, 1)
    assert "outer" not in found.values()
    assert found["GPUDECK_TASK"] == "t"
    assert not {"GPUDECK_SHARD", "GPUDECK_SHARDS", "GPUDECK_DIST_STRATEGY"} & found.keys()


# -- secrets -----------------------------------------------------------------------------------------------------------

CALLER = {"WANDB_API_KEY": "caller-3f81-key", "PLAIN": "caller-77aa-plain", "DB_URL": "pg://me:caller-90cd-pw@host/db"}
CALLERS = ("caller-3f81-key", "caller-77aa-plain", "caller-90cd-pw")
IN_FILE = ("infile-51be-token", "infile-62af-password")
SECRETS = """
    [deck]
    gpus = "sim:1"
    [[task]]
    name = "t"
    env = { HF_TOKEN = "infile-51be-token", SEEN = "{env.WANDB_API_KEY}" }
    env_required = ["WANDB_API_KEY"]
    command = ["sh", "-c", "test ${#1} = 15 && test ${#HF_TOKEN} = 17 && read _ <gate; exit 3",
               "sh", "{env.WANDB_API_KEY}", "--password", "infile-62af-password"]
"""
"""What uses each of them: if it did not get them the task would end by itself, and not wait at the gate."""


def everything_said(address: str, task: str) -> str:
    """What the engine answers a client that asks for all that there is to ask."""
    asks = [
        '{"id":1,"op":"watch","args":{"events":true}}', '{"id":2,"op":"status"}', '{"id":3,"op":"options"}',
        f'{{"id":4,"op":"show","args":{{"tasks":["{task}"]}}}}',
        f'{{"id":5,"op":"rows","args":{{"tasks":["{task}"]}}}}',
        f'{{"id":6,"op":"explain","args":{{"tasks":["{task}"]}}}}',
    ]  # fmt: skip
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(address)
        client.sendall("".join(f"{line}\n" for line in asks).encode())
        said = b""
        while b'"id":6' not in said:
            said += client.recv(1 << 16)
    return said.decode()


def test_values_of_the_callers_environment_are_in_one_private_file_only(deck: Commanded) -> None:
    deck.write(SECRETS)
    start(deck, **CALLER)
    holder = deck.holder()
    assert holder is not None
    deck.until_state("t", "running")
    told = everything_said(holder.address, "t")
    commands = ["status", "ls", "show t", "explain t", "env", "status --json", "ls --json", "show t --json", "gpus"]
    assert "{env.WANDB_API_KEY}" in told
    printed = [deck.command(*words.split(), env=CALLER) for words in commands]
    deck.gates[0].let()
    deck.until_state("t", "failed")
    printed += [deck.command("logs", "t"), deck.command("stop"), deck.command("show", "t"), deck.command("env")]
    assert "\\u0000" not in told
    assert all(secret not in told for secret in (*CALLERS, *IN_FILE))
    shown = "".join(one.out + one.err for one in printed).replace("PLAIN=caller-77aa-plain\n", "")
    assert [secret for secret in (*CALLERS, *IN_FILE) if secret in shown] == []
    assert files_with(deck.folder, *CALLERS) == {".gpudeck/tasks/environment"}
    assert files_with(deck.folder, *IN_FILE) == {"tasks.toml", ".gpudeck/tasks/taken.toml"}
    assert os.stat(deck.folder / ".gpudeck/tasks/environment").st_mode & 0o777 == 0o600


def test_a_value_given_with_a_retry_stays_in_the_private_state(deck: Commanded) -> None:
    start(deck)
    deck.gates[0].let()
    deck.until_state("t", "failed")
    told = deck.command("retry", "t", "--env", "HF_TOKEN=retry-88dd-token")
    assert told.code == 0, told.err
    assert got(deck, 2)["HF_TOKEN"] == "retry-88dd-token"
    holder = deck.holder()
    assert holder is not None
    assert "retry-88dd-token" not in everything_said(holder.address, "t")
    end(deck)
    (deck.folder / "env-2").unlink()
    found = files_with(deck.folder, "retry-88dd-token")
    assert {name for name in found if not name.startswith(".gpudeck/tasks/deck.db")} == set()


def test_what_a_run_is_given_stays_in_private_files(deck: Commanded) -> None:
    words = ("run", "-d", "-n", "0", "--name", "one", "--env", "W_TOKEN=run-22ee-token")
    script = "test ${#W_TOKEN} = 14 && test ${#WANDB_API_KEY} = 15 && read _ <gate"
    told = deck.command(*words, "--", "sh", "-c", script, env=CALLER)
    assert told.code == 0, told.err
    until(lambda: deck.command("ls", "--queue", "state:running").out.count("one"))
    shown = deck.command("show", "--queue", "one").out
    found = files_with(deck.folder, "run-22ee-token", *CALLERS)
    assert found
    assert {name for name in found if not name.startswith(".home/gpudeck/queue@")} == set()
    assert {name for name in found if (deck.folder / name).stat().st_mode & 0o077} == set()
    assert "run-22ee-token" not in shown
    deck.command("stop", "--queue", "--tasks")


def test_the_engine_tells_of_no_variable_in_its_command_line(deck: Commanded) -> None:
    start(deck, **CALLER)
    with watching(deck):
        line = Path(f"/proc/{deck.engine_pid()}/cmdline").read_bytes()
    assert not [secret for secret in CALLERS if secret.encode() in line]
