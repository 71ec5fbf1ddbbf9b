import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from headless_samples import ManualClock, failed, failed_row, finished, opened, row, settled, shown, started

from gpudeck.engine.errors import UsageError
from tests.inside.headless import HeadlessOptions, HeadlessOutput


def junit(messages, path: Path) -> ET.Element:
    shown([opened(), *messages], options=HeadlessOptions(junit=str(path)))
    return ET.parse(path).getroot()


def case(rows, path: Path) -> ET.Element:
    found = junit([finished(rows=rows)], path).find(".//testcase")
    assert found is not None
    return found


def test_a_testcase_is_named_as_its_task(tmp_path):
    found = case((row(),), tmp_path / "out.xml")
    assert (found.get("classname"), found.get("name"), found.get("time")) == ("noise", "train-a", "5025.000")


@pytest.mark.parametrize("state", ["succeeded", "cached"])
def test_what_is_done_passes(tmp_path, state: str):
    assert len(case((row(state=state),), tmp_path / "out.xml")) == 0


@pytest.mark.parametrize("state", ["blocked", "cancelled", "waiting", "queued", "interrupted"])
def test_what_did_not_run_to_its_end_is_skipped_and_says_why(tmp_path, state: str):
    skipped = case((row(state=state, reason="needs train-b"),), tmp_path / "out.xml").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == f"{state}: needs train-b"


def test_a_failure_has_reason_log_and_digest(tmp_path):
    failure = case((failed_row(kind="exit"),), tmp_path / "out.xml").find("failure")
    assert failure is not None
    assert failure.get("message") == "exit 1: ValueError: bad rate"
    assert failure.get("type") == "exit"
    assert (failure.text or "").splitlines()[1:] == ["logs/train-b/attempt-2.err", *failed_row().digest]


def test_an_unknown_end_is_an_error(tmp_path):
    assert case((failed_row(state="unknown"),), tmp_path / "out.xml").find("error") is not None


def test_the_suite_counts_its_cases(tmp_path):
    rows = (row(), row(task="c", state="cached"), failed_row(), row(task="d", state="blocked"))
    suite = junit([finished(rows=rows)], tmp_path / "out.xml").find("testsuite")
    assert suite is not None
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "0", "1"]


def test_the_suite_has_the_energy_that_is_known(tmp_path):
    known = junit([finished(energy_wh=11.46)], tmp_path / "known.xml").find(".//properties/property")
    assert known is not None
    assert known.attrib == {"name": "energy_wh", "value": "11.46"}
    assert junit([finished()], tmp_path / "unknown.xml").find(".//properties") is None


def test_without_an_end_of_the_run_the_file_tells_what_is_known(tmp_path):
    messages = [settled(), started(), failed(), started(task="train-c")]
    cases = junit(messages, tmp_path / "out.xml").findall(".//testcase")
    assert [(found.get("name"), [child.tag for child in found]) for found in cases] == [
        ("train-b", []),
        ("train-sym-0.375", ["failure"]),
        ("train-c", ["skipped"]),
    ]


def test_the_file_is_there_as_soon_as_the_run_has_finished(tmp_path):
    path = tmp_path / "out.xml"
    with open(os.devnull, "w") as stream:
        output = HeadlessOutput(HeadlessOptions(junit=str(path)), stream, os.devnull, {}, ManualClock())
        output.show(finished())
        assert path.exists()
        output.close()


def test_its_folder_is_made_and_no_draft_is_left(tmp_path):
    path = tmp_path / "a" / "b" / "out.xml"
    junit([finished()], path)
    assert os.listdir(path.parent) == ["out.xml"]


def test_a_place_that_cannot_be_is_refused_before_the_run(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "out.xml"):
        with pytest.raises(UsageError, match="--junit"):
            shown([], options=HeadlessOptions(junit=str(path)))


def test_a_file_that_cannot_be_written_at_the_end_is_said(tmp_path):
    folder = tmp_path / "gone"
    with open(tmp_path / "out", "w+") as stream:
        options = HeadlessOptions(junit=str(folder / "out.xml"))
        with HeadlessOutput(options, stream, os.devnull, {}, ManualClock()) as output:
            folder.rmdir()
            output.show(finished())
    assert f"deck   warning cannot write the JUnit file {folder}/out.xml: No such" in (tmp_path / "out").read_text()


def test_a_folder_that_is_made_for_the_report_is_told(tmp_path, capsys):
    case((row(),), tmp_path / "new" / "out.xml")
    assert capsys.readouterr().err == f"gpudeck: --junit: made the folder {tmp_path}/new\n"
    case((row(),), tmp_path / "new" / "out.xml")
    assert capsys.readouterr().err == ""
