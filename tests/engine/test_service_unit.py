"""The text of a deck's systemd unit: read back as systemd does, it says what was meant."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from gpudeck.engine.errors import UsageError
from tests.inside.engine import Deck, RunOptions, decode, find_unit, unit_text, units_folder, write_unit

DECK = Deck("/data/noise/tasks.toml", "noise")
ODD = [
    "a b",
    "50%h",
    "it's",
    'say "x"',
    "back\\slash x",
    "$HOME ${x} $$",
    "semi ; colon",
    "grün",
    "#no comment",
    "=-@:+!|",
]

_ESCAPED = re.compile(r"\\(.)|%(.)|\$(\$)")


def sections(text: str) -> dict[str, dict[str, str]]:
    """Settings by section, comments left out."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            found[line[1:-1]] = settings = {}
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings[name] = value
    return found


def words(command: str) -> list[str]:
    """A command line as systemd.service(5) reads it: quotes, then \\, %% and $$."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', command)
    return [_ESCAPED.sub(lambda m: m[1] or m[2] or m[3], quoted or bare) for quoted, bare in found]


def service(deck: Deck = DECK) -> dict[str, str]:
    return sections(unit_text(deck, umask=0o022, interpreter="/opt/venv/bin/python"))["Service"]


def test_tasks_live_on_when_the_engine_is_stopped_or_killed() -> None:
    said = service()
    assert (said["KillMode"], said["SendSIGKILL"], said["OOMPolicy"]) == ("process", "no", "continue")


def test_the_engine_comes_back_unless_another_try_would_end_alike() -> None:
    said = service()
    assert (said["Restart"], said["RestartPreventExitStatus"]) == ("on-failure", "2 3")


def test_what_else_the_unit_says() -> None:
    text = unit_text(replace(DECK, as_root=True), umask=0o002)
    said = sections(text)["Service"]
    assert int(said["RestartSec"]) * 5 > 10, "restarts never use up the starts that systemd grants"
    assert (said["TasksMax"], said["UMask"]) == ("infinity", "0002")
    assert sections(text)["Install"] == {"WantedBy": "default.target"}
    assert "--as-root" in words(said["ExecStart"])


def test_the_command_is_this_very_gpudeck() -> None:
    assert words(service()["ExecStart"]) == [
        "/opt/venv/bin/python", "-P", "-m", "gpudeck", "engine", "/data/noise/tasks.toml", "--service",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_any_path_arrives_as_it_is(name: str) -> None:
    said = service(replace(DECK, file=f"/data/{name}/tasks.toml"))
    assert words(said["ExecStart"])[5] == f"/data/{name}/tasks.toml"
    assert said["WorkingDirectory"].replace("%%", "%") == f"/data/{name}"


@pytest.mark.parametrize("value", ODD)
def test_any_option_arrives_as_it_is(value: str) -> None:
    options = RunOptions(set={"v": value}, only=(value, "b"), profile="smoke", limit=2, skip_existing=False)
    said = words(service(replace(DECK, options=options))["ExecStart"])
    assert decode(said[said.index("--options") + 1]) == options


@pytest.mark.parametrize("name", ["two\nlines", "tab\there", "byte\udcff", "end\\", " blank "])
def test_a_path_that_systemd_cannot_read_back_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="give the folder another name"):
        unit_text(replace(DECK, file=name), umask=0)


@pytest.mark.parametrize("name", ["noise", "my deck/α%", "a@b", "x" * 300])
def test_a_units_name_is_one_that_systemd_takes(name: str) -> None:
    for unit in replace(DECK, name=name).names:
        assert re.fullmatch(r"gpudeck-[A-Za-z0-9:_.-]+\.service", unit)
        assert len(unit) <= 255


def test_profile_and_name_have_units_of_their_own() -> None:
    assert replace(DECK, options=RunOptions(profile="smoke", name="b")).names[0] == "gpudeck-noise.smoke.b.service"


@pytest.mark.parametrize("analyze", [path for path in (which("systemd-analyze"),) if path])
def test_systemd_finds_nothing_wrong_with_it(analyze: str, tmp_path: Path) -> None:
    folder = tmp_path / 'a b %h "x" $y'
    folder.mkdir()
    unit = tmp_path / "gpudeck-noise.service"
    unit.write_text(unit_text(replace(DECK, file=f"{folder}/tasks.toml"), umask=0o022))
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [analyze, "--user", "verify", str(unit)], env=env, capture_output=True, text=True, check=False
    )
    assert "gpudeck-noise" not in done.stderr


# -- which unit is whose ----------------------------------------------------------------------------------------------


def install(folder: Path, deck: Deck) -> str:
    """The name under which *deck* is installed."""
    unit = find_unit(str(folder), deck)
    write_unit(unit.path, unit_text(deck, umask=0))
    return unit.name


def test_a_deck_finds_its_unit_again(tmp_path: Path) -> None:
    name = install(tmp_path, DECK)
    assert find_unit(str(tmp_path), replace(DECK, name="renamed")).name == name


def test_decks_of_one_name_have_units_of_their_own(tmp_path: Path) -> None:
    other = replace(DECK, file="/data/other/tasks.toml")
    first, second = install(tmp_path, DECK), install(tmp_path, other)
    assert first != second
    assert find_unit(str(tmp_path), other).name == second


def test_other_options_are_no_other_deck(tmp_path: Path) -> None:
    install(tmp_path, DECK)
    assert DECK.owns(find_unit(str(tmp_path), replace(DECK, options=RunOptions(gpus="0-3"))).text)


def test_a_unit_that_somebody_wrote_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "gpudeck-noise.service").write_text("[Service]\nExecStart=/bin/true\n")
    unit = find_unit(str(tmp_path), DECK)
    assert (unit.name, DECK.owns(unit.text)) == ("gpudeck-noise.service", False)


def test_units_lie_where_the_user_keeps_configuration() -> None:
    assert units_folder({"XDG_CONFIG_HOME": "/cfg"}) == "/cfg/systemd/user"


def test_a_relative_configuration_folder_does_not_count() -> None:
    assert units_folder({"XDG_CONFIG_HOME": "cfg"}) == os.path.expanduser("~/.config/systemd/user")
