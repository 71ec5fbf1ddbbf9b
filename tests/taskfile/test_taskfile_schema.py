"""The shipped JSON Schema and the reference say what the validation does; nothing that is wrong crashes it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

import gpudeck
from gpudeck.engine.errors import DeckError, TaskFileError
from tests.inside.taskfile import DECK, FILE, PAGE, TASK, filled, json_schema, load, written

ROOT = Path(gpudeck.__file__).parent
SCHEMA = jsonschema.Draft202012Validator(json_schema())
DECKS = [ROOT / "tasks.toml", *sorted((ROOT / "examples").rglob("*.toml"))]


def test_the_schema_that_ships_is_current():
    assert Path(FILE).read_text(encoding="utf-8") == written()


def test_the_reference_is_current():
    page = Path(PAGE).read_text(encoding="utf-8")
    assert filled(page) == page


def test_the_reference_names_every_key():
    page = Path(PAGE).read_text(encoding="utf-8")
    assert [key for key in (*DECK, *TASK) if f"| `{key}` |" not in page] == []


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.name)
def test_the_schema_accepts_the_decks_of_the_repository(path: Path):
    SCHEMA.validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize("path", DECKS, ids=lambda path: path.name)
def test_the_decks_of_the_repository_load_without_a_warning(path: Path):
    made = load(str(path))
    assert made.tasks
    assert made.warnings == ()


@pytest.mark.parametrize(
    "task",
    [
        {"gpus": -1}, {"gpu": 1}, {"timeout": "6 hours"}, {"memory": 40}, {"retry_on": ["ooom"]}, {"launch": "mpi"},
        {"matrix": {"a-b": [1]}}, {"matrix": {"seed": 3}}, {"env": {"A": 1}}, {"outputs": "x"}, {"watch": {"x": 1}},
        {"prune": {"metric": "loss"}}, {"prune": {"metric": "loss:min", "at": [1.5]}},
        {"metrics": {"acc": {"best": "most"}}}, {"command": []},
    ],
)  # fmt: skip
def test_the_schema_refuses_what_the_validation_refuses(task: dict[str, object], tmp_path: Path):
    data = {"task": [{"name": "a", "command": "x", **task}]}
    with pytest.raises(jsonschema.ValidationError):
        SCHEMA.validate(data)
    path = tmp_path / "tasks.toml"
    path.write_text(tomli_w.dumps(data))
    with pytest.raises(DeckError):
        load(str(path))


@pytest.mark.parametrize(
    "task",
    [
        {"env": "{e}"}, {"on_oom": "{ladder}"}, {"on_oom": ["{rung}", {"vars": {"bs": 8}}]}, {"watch": "{w}"},
        {"metrics": "{m}"}, {"command": "{c}"}, {"tags": "{t}"},
    ],
)  # fmt: skip
def test_schema_and_validation_accept_one_placeholder_for_a_whole_value(task: dict[str, object], tmp_path: Path):
    values = {
        "e": {"A": "1"}, "rung": {"vars": {"bs": 16}}, "ladder": [{"vars": {"bs": 8}}], "w": {"silent": "1h"},
        "m": {"acc": {"regex": "(.*)"}}, "c": ["x", "y"], "t": ["a"], "bs": 32,
    }  # fmt: skip
    data = {"vars": values, "task": [{"name": "a", "command": "x {bs}", **task}]}
    SCHEMA.validate(data)
    path = tmp_path / "tasks.toml"
    path.write_text(tomli_w.dumps(data))
    assert load(str(path)).tasks


WORDS = [
    "{a}", "{b}-{a}", "{attempt}", "{{x}}", "${x}", "{deck}", "{shard}", "{env.HOME}", "1h", "2GiB", "auto", "none",
    "all", "gpus", "a*", "0-2", "TERM", "(", "out/{a}.pt", "'{b}'", "~/x", "conda:x", "t-{a}-{b}",
]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(["", "a", *WORDS]), st.text(max_size=6))
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-3, 9), st.booleans(), st.floats(allow_nan=True)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "vars", "env", "regex"]), inner, max_size=2),
    ),
    max_leaves=5,
)
TASKS = st.fixed_dictionaries(
    {"name": st.sampled_from(["t", "t-{a}", "t-{a}-{b}"]), "command": st.one_of(st.just(["x", "{a}"]), TEXTS)},
    optional={
        "matrix": st.fixed_dictionaries(
            {}, optional={"a": VALUES, "b": VALUES, "include": VALUES, "exclude": VALUES, "c-d": VALUES}
        ),
        **{key: VALUES for key in TASK if key not in ("name", "command", "matrix", "shards")},
        "shards": st.one_of(st.integers(0, 3), TEXTS),
    },
)
FILES = st.fixed_dictionaries(
    {"task": st.lists(TASKS, min_size=1, max_size=3)},
    optional={
        "vars": st.one_of(VALUES, st.dictionaries(st.sampled_from(["a", "x", "python"]), VALUES)),
        "deck": st.one_of(VALUES, st.dictionaries(st.sampled_from(list(DECK)), VALUES, max_size=3)),
        "defaults": st.one_of(VALUES, st.dictionaries(st.sampled_from(list(TASK)), VALUES, max_size=3)),
        "profile": VALUES,
        "slurm": VALUES,
        "distributed": VALUES,
        "doctor": VALUES,
        "unknown": VALUES,
    },
)


@given(FILES)
def test_any_file_loads_or_is_refused_with_a_line_for_each_problem(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, object]
):
    path = tmp_path_factory.mktemp("deck") / "tasks.toml"
    path.write_text(tomli_w.dumps(data), encoding="utf-8")
    refused, names = outcome(path)
    assert all(line.startswith(f"{path}:") and line.isprintable() for line in refused)
    assert len(set(names)) == len(names)
    assert bool(names) != bool(refused)


def outcome(path: Path) -> tuple[list[str], list[str]]:
    """The lines of a refusal, and the names of the tasks."""
    try:
        return [], [task.name for task in load(str(path)).tasks]
    except TaskFileError as error:
        return list(error.problems), []


def test_the_schema_is_plain_json():
    assert json.loads(written()) == json.loads(json.dumps(json_schema()))
