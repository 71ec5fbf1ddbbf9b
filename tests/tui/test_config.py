"""The user's configuration of the screen: what is wrong in it is said, the rest of it holds."""

from __future__ import annotations

from pathlib import Path

from gpudeck.tui.config import Config, Thresholds, load


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
thresholds = { heat = 3, disk_percent = "x", temperature_c = 60 }
[keys]
retri = "r"
retry = "ctrl+b"
kill = "f9"
"""
    config = loaded(tmp_path, text)
    assert (config.columns, config.thresholds.temperature_c, dict(config.keys)) == (("name",), 60, {"kill": "f9"})
    said = "\n".join(config.problems)
    for told in ("theme", "refresh", "colour: unknown", "heat", "disk_percent", "keys.retri", "ctrl+b belongs to"):
        assert told in said, told


def test_a_file_that_is_no_toml_is_said_in_one_line(tmp_path: Path) -> None:
    (problem,) = loaded(tmp_path, "theme = ").problems
    assert "config.toml" in problem
    assert "\n" not in problem


def test_a_folder_in_its_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "gpudeck" / "config.toml").mkdir(parents=True)
    (problem,) = load({"XDG_CONFIG_HOME": str(tmp_path)}).problems
    assert "directory" in problem
