"""`gpudeck service` with a systemctl that answers as it is told and keeps what it was asked."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError, TaskFileError, UsageError
from tests.fakes.screen import PtyScreen
from tests.inside.engine import Command, DeckLock, RunOptions, load_environment, run, save_environment, service

DECK = '[deck]\nname = "noise"\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "true"\n[profile.smoke]\n'

SYSTEMCTL = """\
#!/bin/sh
here=$(dirname "$0")
while [ "${1#--}" != "$1" ]; do shift; done
echo "$@" >>"$here/calls"
[ "$1" = "$(cat "$here/refuses")" ] && { echo "Failed to $1: no bus"; exit 1; }
[ "$1" = show ] && cat "$here/properties"
exit 0
"""


class Systemctl:
    """A program of that name on PATH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "systemctl").write_text(SYSTEMCTL)
        (folder / "systemctl").chmod(0o755)
        self.refuse("")
        self.says("")

    def refuse(self, verb: str) -> None:
        (self._folder / "refuses").write_text(verb)

    def says(self, properties: str) -> None:
        (self._folder / "properties").write_text(properties)

    @property
    def calls(self) -> list[str]:
        """What changes something."""
        path = self._folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if not line.startswith("show")]


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemctl:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return Systemctl(tmp_path / "bin")


@pytest.fixture
def deck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A task file in the current folder; units go to a folder of the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("GPUDECK_FILE", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.toml").write_text(DECK)
    return str(tmp_path / "tasks.toml")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    return tmp_path / "config/systemd/user/gpudeck-noise.service"


def install(deck: str, options: RunOptions | None = None, *, force: bool = False) -> int:
    return service("install", deck, options or RunOptions(), force=force)


def test_install_enables_and_starts_it(deck: str, unit: Path, systemctl: Systemctl) -> None:
    assert install(deck) == 0
    assert unit.exists()
    assert systemctl.calls == ["daemon-reload", "enable --now gpudeck-noise.service"]


def test_show_prints_what_install_writes(
    deck: str, unit: Path, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    assert service("show", deck, RunOptions()) == 0
    shown = capsys.readouterr().out
    install(deck)
    assert unit.read_text() == shown


def test_show_changes_nothing(deck: str, unit: Path, systemctl: Systemctl, tmp_path: Path) -> None:
    service("show", deck, RunOptions())
    assert not (tmp_path / "config").exists()
    assert not (tmp_path / ".gpudeck").exists()


def test_without_an_answer_the_unit_is_written_and_what_is_left_to_do_said(
    deck: str, unit: Path, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    systemctl.refuse("show")
    assert install(deck) == 3
    assert unit.exists()
    assert "systemctl --user enable --now gpudeck-noise.service" in capsys.readouterr().out


def test_without_systemd_the_unit_is_written_all_the_same(
    deck: str, unit: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install(deck) == 3
    assert unit.exists()


def test_a_systemd_that_refuses_is_told_in_its_words(deck: str, systemctl: Systemctl) -> None:
    systemctl.refuse("enable")
    with pytest.raises(EngineUnavailableError, match="Failed to enable: no bus"):
        install(deck)


def test_a_file_with_mistakes_is_not_installed(deck: str, unit: Path, systemctl: Systemctl) -> None:
    Path(deck).write_text(DECK + "gpu = 1\n")
    with pytest.raises(TaskFileError):
        install(deck)
    assert not unit.exists()


def test_installed_twice_is_unchanged(
    deck: str, unit: Path, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    install(deck)
    assert install(deck) == 0
    assert "unchanged" in capsys.readouterr().out


def test_another_unit_is_shown_as_a_difference_and_kept(
    deck: str, unit: Path, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    install(deck)
    before = unit.read_text()
    with pytest.raises(UsageError, match="--force"):
        install(deck, RunOptions(gpus="sim:2"))
    assert unit.read_text() == before
    assert "sim:2" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("+ExecStart"))


def test_force_replaces_another_unit(deck: str, unit: Path, systemctl: Systemctl) -> None:
    install(deck)
    install(deck, RunOptions(gpus="sim:2"), force=True)
    assert "sim:2" in unit.read_text()


@pytest.mark.parametrize(("answer", "replaced"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_it_asks(
    answer: str, replaced: bool, deck: str, unit: Path, systemctl: Systemctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(deck)
    screen = PtyScreen()
    try:
        monkeypatch.setattr(sys, "stdout", screen.stream)
        monkeypatch.setattr(sys, "stdin", Typed(answer + "\n"))
        if replaced:
            install(deck, RunOptions(gpus="sim:2"))
        else:
            with pytest.raises(UsageError, match="nothing was changed"):
                install(deck, RunOptions(gpus="sim:2"))
    finally:
        monkeypatch.undo()
        screen.close()
    assert ("sim:2" in unit.read_text()) is replaced


class Typed(io.StringIO):
    """Somebody at the keyboard."""

    def isatty(self) -> bool:
        return True


def test_tasks_get_the_environment_of_the_shell_that_installed_it(
    deck: str, systemctl: Systemctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HOME", "/models")
    install(deck)
    assert (load_environment(str(tmp_path / ".gpudeck/tasks")) or {})["HF_HOME"] == "/models"


def test_an_environment_that_is_kept_stays(deck: str, systemctl: Systemctl, tmp_path: Path) -> None:
    (tmp_path / ".gpudeck/tasks").mkdir(parents=True)
    save_environment(str(tmp_path / ".gpudeck/tasks"), {"HF_HOME": "/old"})
    install(deck)
    assert load_environment(str(tmp_path / ".gpudeck/tasks")) == {"HF_HOME": "/old"}


def test_a_deck_that_an_engine_runs_is_not_started_a_second_time(
    deck: str, systemctl: Systemctl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".gpudeck/tasks").mkdir(parents=True)
    lock = DeckLock.acquire(str(tmp_path / ".gpudeck/tasks"))
    try:
        install(deck)
    finally:
        lock.release()
    assert systemctl.calls[-1] == "enable gpudeck-noise.service"
    assert f"engine {os.getpid()} runs the deck" in capsys.readouterr().out


def test_a_log_folder_is_the_callers_not_the_services(deck: str, unit: Path, systemctl: Systemctl) -> None:
    install(deck, RunOptions(log_dir="out"))
    assert f"{Path.cwd()}/out" in unit.read_text()


# -- uninstall and status ---------------------------------------------------------------------------------------------


def test_uninstall_stops_the_engine_and_removes_the_unit(deck: str, unit: Path, systemctl: Systemctl) -> None:
    install(deck)
    assert service("uninstall", deck, RunOptions()) == 0
    assert not unit.exists()
    assert systemctl.calls[2:4] == ["disable --now gpudeck-noise.service", "daemon-reload"]


def test_uninstall_needs_no_task_file_any_more(deck: str, unit: Path, systemctl: Systemctl) -> None:
    install(deck)
    os.unlink(deck)
    assert service("uninstall", deck, RunOptions()) == 0
    assert not unit.exists()


def test_a_unit_that_cannot_be_stopped_is_not_removed(deck: str, unit: Path, systemctl: Systemctl) -> None:
    install(deck)
    systemctl.refuse("disable")
    with pytest.raises(EngineUnavailableError):
        service("uninstall", deck, RunOptions())
    assert unit.exists()


def test_uninstall_without_an_answer_also_takes_away_what_would_start_it(
    deck: str, unit: Path, systemctl: Systemctl
) -> None:
    install(deck)
    link = unit.parent / "default.target.wants" / unit.name
    link.parent.mkdir()
    link.symlink_to(unit)
    systemctl.refuse("show")
    assert service("uninstall", deck, RunOptions()) == 3
    assert not link.is_symlink()


def test_somebody_elses_unit_of_that_name_is_not_removed(deck: str, unit: Path, systemctl: Systemctl) -> None:
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    with pytest.raises(UsageError, match="no service is installed"):
        service("uninstall", deck, RunOptions())
    assert unit.exists()


@pytest.mark.parametrize(
    ("properties", "code", "said"),
    [
        ("ActiveState=active\nSubState=running\nMainPID=47\n", 0, "active (running), not loaded, engine 47"),
        ("ActiveState=inactive\nSubState=dead\nMainPID=0\nUnitFileState=enabled\n", 0, "inactive (dead), enabled\n"),
        ("ActiveState=failed\nMainPID=0\nResult=exit-code\nExecMainStatus=2\n", 3, "exit-code, status 2"),
        ("", 3, "does not answer"),
    ],
)
def test_status_tells_how_the_engine_does(
    properties: str, code: int, said: str, deck: str, systemctl: Systemctl, capsys: pytest.CaptureFixture[str]
) -> None:
    install(deck)
    systemctl.says(properties)
    assert service("status", deck, RunOptions()) == code
    assert said in capsys.readouterr().out


def test_status_of_a_deck_without_a_service_says_how_to_get_one(deck: str, systemctl: Systemctl) -> None:
    with pytest.raises(UsageError, match="gpudeck service install"):
        service("status", deck, RunOptions())


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_file_may_be_a_word_or_an_option(deck: str, unit: Path, systemctl: Systemctl) -> None:
    assert run(Command("service", words=("install", deck))) == 0
    assert run(Command("service", file=deck, words=("status",))) == 3


@pytest.mark.parametrize("words", [(), ("restart",), ("install", "a.toml", "b.toml")])
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], deck: str) -> None:
    with pytest.raises(UsageError):
        run(Command("service", words=words))


def test_the_command_in_the_unit_opens_the_deck(deck: str, unit: Path, systemctl: Systemctl) -> None:
    install(deck)
    Path(deck).write_text(DECK + "gpuz = 1\n")
    line = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    command = line.removeprefix("ExecStart=").split()
    done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "gpuz" in done.stderr
