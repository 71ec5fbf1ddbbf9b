"""Whatever a task is called and whatever it wrote, no reader is led astray."""

import json
import re
import xml.etree.ElementTree as ET

from headless_samples import (
    changed,
    ended,
    failed,
    failed_row,
    finished,
    note,
    opened,
    row,
    settled,
    shown,
    started,
    status,
)
from hypothesis import example, given
from hypothesis import strategies as st

from gpudeck.engine.protocol.jsonlines import json_lines
from gpudeck.engine.protocol.messages import GpuLine, RunningTask
from tests.inside.headless import Frame, HeadlessOptions, block_lines, cell_width, junit_xml, log_line, page

EVIL = st.sampled_from(
    [
        "\x1b[2J",
        "\x1b]0;t\x07",
        "\x9b31m",
        "\r",
        "\n",
        "\x00",
        "\u2028",
        "\u202e",
        "::error::x",
        "##[error]",
        "]]>",
        "\udc80",
    ]
)
TEXT = st.lists(st.one_of(st.text(st.characters(), max_size=8), EVIL), max_size=6).map("".join)
DIGEST = st.lists(TEXT, max_size=4).map(tuple)


def messages(text: str, digest: tuple[str, ...]) -> list:
    running = (RunningTask(text, 1, (0,), 1.0, 2.0, text),)
    return [
        opened(deck=text, file=text, gpus=(text,), log_dir=text, warnings=(text,)),
        started(task=text, log=text),
        ended(task=text, log=text),
        failed(task=text, reason=text, err=text, digest=digest),
        settled(task=text, why=text),
        note(text=text),
        status(
            running=running, gpus=(GpuLine(0, (text,), 1, 1, 1), GpuLine(1, (), 1, 1, 1, text)), waiting_why=(text,)
        ),
        finished(
            rows=(row(task=text, reason=text), failed_row(task=text, reason=text, log=text, digest=digest)), why=text
        ),
    ]


@given(TEXT, DIGEST)
def test_nothing_that_a_terminal_obeys_is_printed(text: str, digest: tuple[str, ...]):
    lines = shown(messages(text, digest), options=HeadlessOptions(verbose=True)).split("\n")
    assert all(line.isprintable() for line in lines)


@given(TEXT, DIGEST)
def test_text_never_makes_a_line_of_its_own(text: str, digest: tuple[str, ...]):
    """The number of lines depends on the messages only."""
    harmless = messages("a", tuple("a" for _ in digest))
    assert shown(messages(f"a{text}", digest)).count("\n") == shown(harmless).count("\n")


@example("##[error]", ())
@given(TEXT, DIGEST)
def test_no_text_becomes_a_command_of_github(text: str, digest: tuple[str, ...]):
    lines = shown(messages(text, digest), GITHUB_ACTIONS="true").splitlines()
    assert not any("##[" in line for line in lines)
    commands = [line.split("::")[1].split()[0] for line in lines if line.lstrip().startswith("::")]
    assert commands == ["warning", "group", "endgroup", "error"]


@given(TEXT, DIGEST)
def test_json_lines_stay_json(text: str, digest: tuple[str, ...]):
    for message in messages(text, digest):
        for line in json_lines(message):
            assert line.isascii()
            assert line.isprintable()
            assert json.loads(line)["v"] == 1


@given(TEXT, DIGEST)
def test_junit_stays_xml(text: str, digest: tuple[str, ...]):
    rows = [failed_row(task=text, reason=text, log=text, digest=digest), row(task=text, state="blocked", reason=text)]
    document = "".join(junit_xml(text, rows, 1.0, 0.0))
    assert document.replace("\n", "").isprintable()
    assert [case.tag for case in ET.fromstring(document.encode()).findall("./testsuite/testcase/*")] == [
        "failure",
        "skipped",
    ]


@given(TEXT, DIGEST)
def test_the_step_summary_has_no_markup_but_its_own(text: str, digest: tuple[str, ...]):
    rows = (failed_row(task=text, reason=text, digest=digest),)
    found = re.findall(r"</?\w+>", page(text, finished(rows=rows, why=text)))
    assert found == ["<details>", "<summary>", "</summary>", "<pre>", "</pre>", "</details>"]


@given(TEXT, st.integers(1, 200), st.integers(1, 60))
def test_the_block_fits_any_terminal(text: str, columns: int, rows: int):
    message = changed(messages(text, ())[6], {})
    lines = block_lines(text, message, Frame(columns, rows))
    assert len(lines) <= max(1, rows - 1)
    assert all(cell_width(line.text) <= max(1, columns - 1) and line.text.isprintable() for line in lines)


@given(st.text(st.characters(), max_size=40))
def test_a_log_line_is_one_printable_line(text: str):
    assert log_line(text).isprintable()
