"""attempt-N.json: complete, never half, without secrets, and never in the way."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from tests.fakes.small_disk import small_disk
from tests.inside.attempts import AttemptJsonWriter, Link, OutputStamp, read_record, stamps_in
from tests.inside.attempts import writer as writer_module

END = {"at": "1970", "reason": "ok", "exit_code": 0, "duration_s": 5.0, "peak_mib": 4242, "mean_util_percent": 87.5}


def header(**changes):
    values = {
        "task": "train-1",
        "command": ["python", "train.py"],
        "cwd": "/",
        "host": "",
        "git": None,
        "start": "1970",
    }
    return values | changes


class Errors:
    """Collects what the writer reports."""

    def __init__(self):
        self.seen = []

    def __call__(self, text):
        self.seen.append(text)


@pytest.fixture
def errors():
    return Errors()


@pytest.fixture
def writer(errors):
    made = AttemptJsonWriter(errors)
    yield made
    assert made.close()


def test_the_header_is_written_when_the_attempt_starts(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    assert writer.flush()
    record = read_record(path)
    assert record == header(host=socket.gethostname())


def test_the_end_is_added_to_the_header(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    writer.flush()
    writer.end(path, END)
    writer.flush()
    record = read_record(path)
    assert record["task"] == "train-1"
    assert (record["end"]["reason"], record["end"]["duration_s"], record["end"]["peak_mib"]) == ("ok", 5.0, 4242)


def test_an_attempt_that_ends_at_once_has_a_whole_record(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    writer.end(path, END)
    writer.flush()
    assert {"task", "end"} <= read_record(path).keys()


def test_an_adopted_attempt_keeps_the_header_of_the_engine_before(writer, errors, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    before = AttemptJsonWriter(errors)
    before.begin(path, header(fingerprint="abc"))
    before.close()
    writer.end(path, END)
    writer.flush()
    assert (read_record(path)["fingerprint"], read_record(path)["end"]["reason"]) == ("abc", "ok")


def test_an_end_that_is_told_again_keeps_what_was_used(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    writer.end(path, END)
    assert writer.flush()
    writer.end(path, END | {"peak_mib": None, "mean_util_percent": None})
    assert writer.flush()
    told = read_record(path)["end"]
    assert (told["peak_mib"], told["mean_util_percent"]) == (4242, 87.5)


def test_another_end_keeps_nothing_of_the_one_before(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    writer.end(path, END)
    assert writer.flush()
    writer.end(path, END | {"at": "1971", "peak_mib": None})
    assert writer.flush()
    assert read_record(path)["end"]["peak_mib"] is None


def test_where_a_cluster_runs_it_is_written_as_soon_as_that_is_known(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    writer.placed(path, {"host": "", "job": "12_3", "nodes": []})
    assert writer.flush()
    waiting = read_record(path)
    assert (waiting["job"], waiting["nodes"], waiting["host"]) == ("12_3", [], "")
    writer.placed(path, {"host": "n1", "job": "12_3", "nodes": ["n1", "n2"], "start": "1972"})
    assert writer.flush()
    running = read_record(path)
    assert (running["job"], running["nodes"], running["host"]) == ("12_3", ["n1", "n2"], "n1")
    assert running["start"] != waiting["start"]
    writer.end(path, END)
    assert writer.flush()
    assert read_record(path)["nodes"] == ["n1", "n2"]


def test_where_an_adopted_attempt_runs_is_added_to_its_record(writer, errors, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header())
    assert writer.flush()
    later = AttemptJsonWriter(errors)
    later.placed(path, {"host": "n1", "job": "7", "nodes": ["n1"]})
    assert later.close()
    record = read_record(path)
    assert (record["task"], record["job"]) == ("train-1", "7")


def test_an_end_without_any_header_is_still_written(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.end(path, END)
    writer.flush()
    assert read_record(path)["end"]["exit_code"] == 0


def test_beginning_twice_writes_the_later_header(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header(fingerprint="old"))
    writer.flush()
    writer.begin(path, header(fingerprint="new"))
    writer.flush()
    assert read_record(path)["fingerprint"] == "new"


def test_nothing_temporary_is_left(writer, tmp_path):
    path = tmp_path / "attempt-1.json"
    (tmp_path / "attempt-1.json~").write_text("half, from a crash")
    writer.begin(str(path), header())
    writer.flush()
    writer.end(str(path), END)
    writer.flush()
    assert os.listdir(tmp_path) == ["attempt-1.json"]


def test_links_are_made(writer, tmp_path):
    writer.begin(str(tmp_path / "a.json"), header(), [Link(str(tmp_path / "gpu0.log"), "a.log")])
    writer.flush()
    assert os.readlink(tmp_path / "gpu0.log") == "a.log"


def test_of_two_links_of_one_name_the_later_wins(writer, tmp_path):
    for name in ("a", "b"):
        writer.begin(str(tmp_path / f"{name}.json"), header(), [Link(str(tmp_path / "gpu0.log"), f"{name}.log")])
    writer.flush()
    assert os.readlink(tmp_path / "gpu0.log") == "b.log"


def test_closing_writes_what_is_pending(errors, tmp_path):
    made = AttemptJsonWriter(errors)
    for number in range(500):
        made.begin(str(tmp_path / f"{number}.json"), header(attempt=number))
    assert made.close()
    assert len(os.listdir(tmp_path)) == 500


def test_nobody_waits_for_a_disk_that_hangs_and_nothing_is_dropped(errors, tmp_path):
    os.mkfifo(tmp_path / "hangs.json")
    made = AttemptJsonWriter(errors)
    made.end(str(tmp_path / "hangs.json"), END)  # to read what is there it waits until somebody writes
    for number in range(100):
        made.end(str(tmp_path / f"{number}.json"), END)
    os.close(os.open(tmp_path / "hangs.json", os.O_WRONLY))
    assert made.close()
    assert len(os.listdir(tmp_path)) == 101


def test_a_folder_that_vanished_is_reported_once(writer, errors, tmp_path):
    for number in range(3):
        writer.begin(str(tmp_path / f"gone/{number}.json"), header())
        writer.flush()
    assert len(errors.seen) == 1
    assert "gone/0.json" in errors.seen[0]


def test_a_trouble_that_comes_back_is_reported_again(writer, errors, tmp_path):
    for path in ("gone/a.json", "b.json", "gone/c.json"):
        writer.begin(str(tmp_path / path), header())
        writer.flush()
    assert ["gone/a.json" in errors.seen[0], "gone/c.json" in errors.seen[1]] == [True, True]


def test_after_an_error_the_writer_goes_on(writer, tmp_path):
    writer.begin(str(tmp_path / "gone/a.json"), header())
    writer.begin(str(tmp_path / "a.json"), header())
    writer.flush()
    assert read_record(str(tmp_path / "a.json"))["task"] == "train-1"


FULL_DISK = """
import resource, sys
from gpudeck.engine.attempts.writer import AttemptJsonWriter
from tests.fakes.small_disk import small_disk

errors = []
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
writer = AttemptJsonWriter(errors.append)
writer.end(sys.argv[1], {"at": "1970", "detail": "x" * 200})
writer.end(sys.argv[2], {"at": "1970", "detail": "x" * 200})
assert writer.close()
assert len(errors) == 1, errors
assert "File too large" in errors[0], errors
"""


def test_a_full_disk_leaves_the_old_record_whole_and_no_half_one(writer, tmp_path):
    old, new = str(tmp_path / "attempt-1.json"), str(tmp_path / "attempt-2.json")
    writer.begin(old, header())
    writer.flush()
    subprocess.run([sys.executable, "-c", FULL_DISK, old, new], timeout=60, check=True)
    assert read_record(old)["task"] == "train-1"
    assert os.listdir(tmp_path) == ["attempt-1.json"]


def test_the_writers_thread_does_not_hold_up_the_programs_end():
    code = (
        "from gpudeck.engine.attempts.writer import AttemptJsonWriter\n"
        "import threading\n"
        "AttemptJsonWriter(print)\n"
        "assert threading.active_count() == 2\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_closed_twice_is_closed(errors):
    made = AttemptJsonWriter(errors)
    assert made.close()
    assert made.close()


def test_names_that_are_not_utf8_are_written_as_escapes(writer, errors, tmp_path):
    path = str(tmp_path / "a.json")
    writer.begin(path, header(cwd=os.fsdecode(b"/data/\xff")))
    writer.flush()
    assert read_record(path)["cwd"] == os.fsdecode(b"/data/\xff")
    assert errors.seen == []


def test_stamps_of_outputs_come_back_as_they_were(writer, tmp_path):
    stamps = {"/out/a.pt": OutputStamp(5, 6, 1_700_000_000_123_456_789)}
    writer.begin(str(tmp_path / "a.json"), header(outputs_before=stamps))
    writer.flush()
    assert stamps_in(read_record(str(tmp_path / "a.json")), "") == stamps


def test_a_record_is_indented_json_for_people(writer, tmp_path):
    writer.begin(str(tmp_path / "a.json"), header())
    writer.flush()
    text = (tmp_path / "a.json").read_text()
    assert text.startswith('{\n  "task": "train-1",\n')
    assert json.loads(text)["cwd"] == "/"


@pytest.mark.parametrize("text", ["", "{", "[]", "\0\0\0"])
def test_a_damaged_record_reads_as_empty(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert read_record(str(tmp_path / "a.json")) == {}


def test_stamps_of_a_damaged_record_are_none():
    assert stamps_in({"outputs_before": {"/a": 3}}, "") == {}


def test_commit_and_dirty_flag_are_in_the_record(writer, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    writer.begin(str(tmp_path / "a.json"), header(cwd=str(tmp_path)))
    writer.flush()
    record = read_record(str(tmp_path / "a.json"))
    assert (len(record["git"]["commit"]), record["git"]["dirty"], record["git"]["branch"]) == (40, False, "main")


def test_an_end_that_met_a_full_disk_is_written_when_there_is_space(writer, errors, tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "_RETRY_S", 0.05)
    ended = threading.Event()
    writer.on_ended = lambda _: ended.set()
    with small_disk(tmp_path / "small") as disk:
        path = str(disk.path / "attempt-1.json")
        writer.begin(path, header())
        writer.flush()
        disk.fill()
        writer.end(path, END)
        writer.flush()
        assert "end" not in read_record(path)
        disk.empty()
        assert ended.wait(30)
        assert read_record(path)["end"]["exit_code"] == 0
    assert len(errors.seen) == 1


def test_an_adopted_attempt_without_a_header_gets_one(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.adopt(path, header())
    writer.end(path, END)
    writer.flush()
    record = read_record(path)
    assert (record["task"], record["end"]["exit_code"]) == ("train-1", 0)


def test_what_an_earlier_engine_wrote_of_an_adopted_attempt_stays(writer, tmp_path):
    path = str(tmp_path / "attempt-1.json")
    writer.begin(path, header(command=("python", "before.py")))
    writer.flush()
    writer.end(path, END)
    writer.flush()
    writer.adopt(path, header(command=("python", "after.py")))
    writer.flush()
    assert read_record(path)["command"] == ["python", "before.py"]


def test_nothing_is_written_of_an_attempt_that_was_stopped_before_anything_of_it_was_made(writer, errors, tmp_path):
    path = str(tmp_path / "never" / "attempt-1.json")
    writer.adopt(path, header(), [Link(str(tmp_path / "never" / "latest.log"), "attempt-1.log")])
    writer.end(path, END)
    writer.flush()
    assert errors.seen == []
    assert not (tmp_path / "never").exists()
