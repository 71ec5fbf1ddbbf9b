import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from headless_samples import every_kind, failed_row, finished, note, shown, started

from gpudeck.engine.protocol.jsonlines import event_name, json_lines
from gpudeck.engine.protocol.messages import Message
from tests.inside.headless import HeadlessOptions

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA: dict[str, Any] = json.loads((DOCS / "dev" / "json-lines.schema.json").read_text())
JSON = HeadlessOptions(json=True)


def objects(message: Message) -> list[dict[str, Any]]:
    return [json.loads(line) for line in json_lines(message)]


def definition(event: str) -> dict[str, Any]:
    return SCHEMA["$defs"][event]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_kind_of_message_has_a_sample_here():
    assert {type(message) for message in every_kind()} == set(get_args(Message))


@pytest.mark.parametrize("message", every_kind(), ids=lambda message: type(message).__name__)
def test_every_line_is_valid_under_the_schema(message: Message):
    for line in objects(message):
        jsonschema.Draft202012Validator(SCHEMA).validate(line)


@pytest.mark.parametrize("message", every_kind(), ids=lambda message: type(message).__name__)
def test_every_field_is_in_the_schema_and_required(message: Message):
    for line in objects(message):
        assert list(line) == list(definition(line["event"])["properties"])
        assert list(line) == definition(line["event"])["required"]


def test_every_field_is_on_the_page():
    page = (DOCS / "dev" / "json-lines.md").read_text()
    for name, part in SCHEMA["$defs"].items():
        section = page.split(f"\n### {name}\n")[1].split("\n#")[0]
        fields = set(part["properties"]) - {"v", "event"}
        assert {field for field in fields if f"| `{field}` |" in section} == fields


def test_events_are_named_as_their_messages():
    assert event_name(type(started())) == "task_started"


def test_a_finished_run_gives_a_line_for_each_task_and_one_at_the_end():
    assert [line["event"] for line in objects(finished())] == ["task_result", "task_result", "run_finished"]


def test_a_number_that_json_cannot_say_is_null():
    assert objects(started(at=float("inf")))[0]["at_s"] is None


def test_a_line_is_ascii_whatever_the_text():
    text = "".join(map(chr, range(0x2100))) + "\udcff\U0001f600"
    (line,) = json_lines(note(text=text))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["text"] == text.replace("\udcff", "?")


def test_with_json_standard_output_has_json_lines_only(tmp_path):
    log = tmp_path / "deck.log"
    text = shown(every_kind(), log=str(log), options=JSON, GITHUB_ACTIONS="true")
    assert [json.loads(line)["v"] for line in text.splitlines()] == [1] * 11
    assert "gpu 2  start " in log.read_text()


def test_digests_are_in_the_results():
    (line, _) = objects(finished(rows=(failed_row(digest=("a\x1b[0m",)),)))
    assert line["digest"] == ["a\x1b[0m"]
