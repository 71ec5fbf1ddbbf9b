"""One table says what a key means that a file does not say; reference, schema, loader and core agree with it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gpudeck.engine.core.spec import DeckFile, DeckSettings, Extras, Policy, Resources, TaskSpec
from tests.inside.taskfile import DECK, IGNORED_VARIABLES, OF_DECK, OF_TASK, PAGE, TASK, json_schema, load

IN_RESOURCES = {"gpu_memory": "gpu_memory_mib", "memory": "memory_mib"} | {
    key: key for key in ("gpus", "gpu_ids", "exclusive")
}
IN_POLICY = {key: f"{key}_s" for key in ("backoff", "timeout", "grace", "warn_before", "linger")} | {
    key: key for key in ("retries", "retry_on", "stop_signal", "warn_signal", "success_codes", "leftovers")
}
IN_EXTRAS = {"launch": "launch", "nodes": "nodes", "mounts": "mounts"}
IN_SPEC = {
    key: key for key in ("round", "group", "needs", "after", "priority", "next", "outputs", "tags", "env_required")
}
NONE_OF_IT = {"env", "on_oom", "on_timeout", "metrics", "watch", "prune", "slurm", "distributed", "fingerprint_files"}
"""Tables and lists that are empty."""
ELSEWHERE = {"enabled": True, "fingerprint_ignore": IGNORED_VARIABLES, "stderr": "separate"}


@pytest.fixture
def plain(tmp_path: Path) -> DeckFile:
    """Of a file that says as little as it may."""
    path = tmp_path / "tasks.toml"
    path.write_text('[[task]]\nname = "a"\ncommand = "x"\n')
    return load(str(path))


def test_a_task_that_says_nothing_is_what_the_table_says(plain: DeckFile):
    spec = plain.tasks[0]
    parts = ((spec.resources, IN_RESOURCES), (spec.policy, IN_POLICY), (spec.extras, IN_EXTRAS), (spec, IN_SPEC))
    loaded = {key: getattr(part, name) for part, names in parts for key, name in names.items() if key in OF_TASK}
    empty = {key: OF_TASK[key] for key in NONE_OF_IT if key in OF_TASK}
    assert {**loaded, **empty, **ELSEWHERE} == OF_TASK
    assert not any(empty.values())


def test_the_core_takes_the_same_for_granted(plain: DeckFile):
    spec = plain.tasks[0]
    assert (spec.resources, spec.policy, spec.extras) == (Resources(), Policy(), Extras())
    bare = TaskSpec("a", "a", 0, spec.work, spec.fingerprint)
    named = ("cwd", "python", "python_env", "line")
    assert dataclasses.replace(spec, **{name: getattr(bare, name) for name in named}) == bare


def test_a_deck_that_says_nothing_is_what_the_table_and_the_core_say(plain: DeckFile):
    folder = Path(plain.path).parent
    settings, bare = plain.settings, DeckSettings()
    made = {"name": bare.name, "log_dir": str(folder / bare.log_dir), "state_dir": str(folder / bare.state_dir)}
    assert settings == dataclasses.replace(bare, **{**made, "name": folder.name})
    units = {
        "foreign_memory": "foreign_memory_mib",
        "foreign_quiet": "foreign_quiet_s",
        "gang_patience": "gang_patience_s",
    }
    apart = {"round_barrier": plain.tasks[0].barrier, "state_dir": bare.state_dir}
    loaded = {key: getattr(settings, units.get(key, key)) for key in OF_DECK if key not in apart}
    assert loaded | apart == OF_DECK


def test_reference_and_schema_show_the_table_s_defaults():
    page, definitions = Path(PAGE).read_text(encoding="utf-8"), json_schema()["$defs"]
    assert isinstance(definitions, dict)
    for table, name in ((TASK, "task"), (DECK, "deck")):
        for key, known in table.items():
            shown = known.default.replace("|", "\\|")
            assert f"| `{key}` | {known.kind.words.replace('|', chr(92) + '|')} | {shown} |" in page
            said = definitions[name]["properties"][key]["description"]
            assert known.default in ("", "required") or f"Default: {known.default}" in said
