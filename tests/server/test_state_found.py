"""Where a client looks for a deck's state: where the task file says, in whatever form, without reading most files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.inside.server import RunOptions, find_state, load_settings

TASK = '[[task]]\nname = "a"\ncommand = "true"\n'
SAYING = {
    "in the table": '[deck]\nstate_dir = "elsewhere"\n' + TASK,
    "as a dotted key": 'deck.state_dir = "elsewhere"\n' + TASK,
    "in an inline table": 'deck = { state_dir = "elsewhere" }\n' + TASK,
    "in quotes": "[deck]\n'state_dir' = \"elsewhere\"\n" + TASK,
    "with an escape": '[deck]\n"state\\u005fdir" = "elsewhere"\n' + TASK,
    "with a long escape": '[deck]\n"\\U00000073tate_dir" = "elsewhere"\n' + TASK,
    "behind all tasks": TASK + '[deck]\nstate_dir = "elsewhere"\n',
    "in a file with a byte order mark": '\ufeff[deck]\nstate_dir = "elsewhere"\n' + TASK,
}


def found(file: Path, options: RunOptions | None = None) -> Path | None:
    state = find_state(str(file), options or RunOptions())
    return None if state is None else Path(state.path).relative_to(file.parent)


@pytest.mark.parametrize("how", SAYING)
def test_a_state_folder_that_the_file_names_is_found(how: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.toml"
    file.write_text(SAYING[how], encoding="utf-8")
    (tmp_path / "elsewhere" / "tasks").mkdir(parents=True)
    (tmp_path / ".gpudeck" / "tasks").mkdir(parents=True)

    assert load_settings(str(file), RunOptions()).state_dir == str(tmp_path / "elsewhere")
    assert found(file) == Path("elsewhere/tasks")


def test_a_profile_may_have_its_state_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "tasks.toml"
    file.write_text('[profile.smoke]\ndeck = { state_dir = "smoke" }\n' + TASK)
    (tmp_path / "smoke" / "tasks@smoke").mkdir(parents=True)
    (tmp_path / ".gpudeck" / "tasks").mkdir(parents=True)

    assert found(file, RunOptions(profile="smoke")) == Path("smoke/tasks@smoke")
    assert found(file) == Path(".gpudeck/tasks")


@pytest.mark.parametrize(
    "text",
    [TASK, "", "[deck\n", "\udcff\udcfe", "[deck]\nunknown = 1\n" + TASK, "# state_dir\n" + TASK],
    ids=["valid", "empty", "broken", "no text", "with a mistake", "with the word"],
)
def test_without_a_word_on_it_the_state_lies_beside_the_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / ".gpudeck" / "tasks").mkdir(parents=True)

    assert found(file) == Path(".gpudeck/tasks")


def test_the_state_of_a_file_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / ".gpudeck" / "tasks@night").mkdir(parents=True)

    assert found(tmp_path / "tasks.toml", RunOptions(name="night")) == Path(".gpudeck/tasks@night")


def test_a_state_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    file = tmp_path / "tasks.toml"
    file.write_text(TASK)

    assert found(file) is None


def test_what_reads_task_files_is_not_loaded_to_find_the_usual_state(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(TASK)
    script = (
        "import json, sys; from gpudeck.engine.client.attach import attach; "
        "from gpudeck.engine.taskfile.options import RunOptions; "
        "assert attach('tasks.toml', RunOptions()) is None; print(json.dumps(sorted(sys.modules)))"
    )

    told = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert "gpudeck.engine.taskfile.load" not in json.loads(told.stdout)
