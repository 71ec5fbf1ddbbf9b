"""The user's configuration of the screen: what is wrong in it is said, the rest of it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inside.tui import BY_ID, Config, Thresholds, load, use_keys


def loaded(folder: Path, text: str) -> Config:
    path = folder / "gpudeck" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return load({"XDG_CONFIG_HOME": str(folder)})


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    assert load({"XDG_CONFIG_HOME": str(tmp_path)}) == Config()


def test_all_that_can_be_chosen(tmp_path: Path) -> None:
    text = """
theme = "nord"
refresh = 0.5
columns = ["name", "time"]
thresholds = { temperature_c = 70 }
[keys]
retry = "f5"
kill = ["ctrl+k", "f9"]
"""
    assert loaded(tmp_path, text) == Config(
        theme="nord",
        refresh_s=0.5,
        columns=("name", "time"),
        thresholds=Thresholds(temperature_c=70),
        keys={"retry": "f5", "kill": "ctrl+k,f9"},
    )


def test_what_is_wrong_is_said_and_the_rest_holds(tmp_path: Path) -> None:
    text = """
theme = 3
refresh = 0
colour = "red"
columns = ["name"]
thresholds = { heat = 3, disk_percent = "x", memory_percent = 500, temperature_c = 60 }
[keys]
retri = "r"
retry = "ctrl+b"
kill = "f9"
"""
    config = loaded(tmp_path, text)
    assert (config.columns, config.thresholds.temperature_c, dict(config.keys)) == (("name",), 60, {"kill": "f9"})
    said = "\n".join(config.problems)
    for told in (
        "theme",
        "refresh",
        "colour: unknown",
        "heat",
        "disk_percent",
        "memory_percent: 500",
        "keys.retri",
        "ctrl+b belongs to",
    ):
        assert told in said, told


def test_a_file_that_is_no_toml_is_said_in_one_line(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, "theme = ").problems
    assert "config.toml" in problem
    assert "\n" not in problem


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "gpudeck" / "config.toml").mkdir(parents=True)
    (problem,) = load({"XDG_CONFIG_HOME": str(tmp_path)}).problems
    assert "directory" in problem


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("'?'", "question_mark"),
        ("'f7 , /'", "f7,slash"),
        ("['^r', 'R']", "ctrl+r,R"),
        ("'shift+left'", "shift+left"),
        ("'shift+→, ctrl+pgdn'", "shift+right,ctrl+pagedown"),
    ],
)
def test_keys_may_be_written_as_they_stand_on_the_keyboard(tmp_path: Path, written: str, keys: str) -> None:
    config = loaded(tmp_path, f"[keys]\nreconnect = {written}\nhelp = 'f1'\nsuspend='f9'\nretry_menu='f8'\nfilter='f6'")
    assert config.problems == ()
    assert config.keys["reconnect"] == keys


@pytest.mark.parametrize("written", ["F7", "ctrl-r", "retry", "", "c,,d", "control+r"])
def test_what_is_no_key_is_told_and_the_usual_one_stays(tmp_path: Path, written: str) -> None:
    config = loaded(tmp_path, f'[keys]\nhold = "{written}"\n')
    assert "keys.hold: " in config.problems[0]
    assert dict(config.keys) == {}


def test_a_key_that_another_action_has_is_told_and_both_stay_as_they_were(tmp_path: Path) -> None:
    config = loaded(tmp_path, '[keys]\nkill = "c"\nhold = "q"\nsort = "f7"\n')
    assert dict(config.keys) == {"sort": "f7"}
    said = "\n".join(config.problems)
    assert "keys.kill: c is a key of cancel" in said
    assert "keys.hold: q is a key of leave" in said


def test_two_actions_may_change_keys(tmp_path: Path) -> None:
    config = loaded(tmp_path, '[keys]\ncancel = "K"\nkill = "c"\n')
    assert (dict(config.keys), config.problems) == ({"cancel": "K", "kill": "c"}, ())


def test_a_key_may_mean_one_thing_on_a_gpu_and_another_on_a_task(tmp_path: Path) -> None:
    assert loaded(tmp_path, '[keys]\ndrain = "r"\n').problems == ()


def test_messages_name_the_keys_of_the_user(tmp_path: Path) -> None:
    use_keys(loaded(tmp_path, '[keys]\npause = "f7"\n').keys)
    assert (BY_ID["pause"].shown_key, BY_ID["undo"].shown_key) == ("f7", "u")
    use_keys({})
    assert BY_ID["pause"].shown_key == "P"
