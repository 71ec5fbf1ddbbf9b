"""Searching a whole log: in both directions, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.opened_logs import closing_logs, opened
from tests.inside.tui import (
    ERRORS,
    NEEDLES,
    Hits,
    LogFile,
    Matcher,
    Query,
    Told,
    log_finder,
    needles_in,
    proc,
    search,
    tells_an_error,
)
from tests.inside.tui import query_parse as parse

SAMPLES = Path(__file__).parents[1] / "logs" / "samples"


@pytest.fixture(autouse=True)
def files_are_closed() -> Iterator[None]:
    with closing_logs():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("searched")


def hit_lines(text: bytes, query: str) -> list[bytes]:
    block = text if text.endswith(b"\n") else text + b"\n"
    return [block[at : block.find(b"\n", at)] for at in Matcher(parse(query)).lines(block)]


# -- what is a hit ----------------------------------------------------------------------------------------------------


def test_plain_text_ignores_the_case_of_ascii_letters() -> None:
    assert hit_lines(b"Epoch 1\nepoch 2\nother\nEPOCH 3", "ePoch") == [b"Epoch 1", b"epoch 2", b"EPOCH 3"]


def test_plain_text_is_no_expression() -> None:
    assert hit_lines(b"a.b*\naxb\n[x]", "a.b*") == [b"a.b*"]


def test_an_expression_stands_between_slashes() -> None:
    assert hit_lines(b"loss=0.5\nloss=nan\nLOSS=1", "/loss=\\d/") == [b"loss=0.5"]
    assert hit_lines(b"loss=0.5\nloss=nan\nLOSS=1", "/loss=\\d/i") == [b"loss=0.5", b"LOSS=1"]


def test_an_expression_sees_one_line_at_a_time() -> None:
    assert hit_lines(b"a\nb\nab", "/a[^x]*b/") == [b"ab"]
    assert hit_lines(b"one\n\ntwo", "/^$/") == [b""]


@pytest.mark.parametrize("text", ["/(/", "/[/", "/a{99999999999}/", "/*/"])
def test_what_is_no_expression_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="no regular expression: "):
        parse(text)


@pytest.mark.parametrize("text", ["/", "//", "a/b/", "/usr/lib"])
def test_paths_and_single_slashes_are_plain_text(text: str) -> None:
    assert parse(text).kind == "plain"


def test_text_is_found_across_colours() -> None:
    line = b"\x1b[31mValue\x1b[0mError: \x1b[1mbad\x1b[0m"
    assert hit_lines(b"x\n" + line + b"\ny", "valueerror: bad") == [line]
    assert hit_lines(b"x\n" + line + b"\ny", "/^ValueError: bad$/") == [line]


def test_only_the_frame_that_is_shown_counts() -> None:
    line = b" 10%|#\r 20%|##\r 30%|###"
    assert hit_lines(line, "10%") == []
    assert hit_lines(line, "30%") == [line]


def test_what_is_in_an_escape_is_not_found() -> None:
    assert hit_lines(b"a\x1b]0;title\x07b", "title") == []


# -- the whole file ---------------------------------------------------------------------------------------------------


def steps(file: LogFile, origin: int, *, most: int = 10**6) -> tuple[list[int], list[int]]:
    matcher = Matcher(parse("hit"))
    later = [at for step in log_finder.after(file, matcher, origin, most) for at in step.hits]
    earlier = [at for step in log_finder.before(file, matcher, origin, most) for at in step.hits]
    return later, earlier


@given(
    st.lists(st.sampled_from([b"hit", b"", b"miss", b"a hit " + b"x" * 50, b"\x1b[1mhi\x1b[mt"]), max_size=40),
    st.data(),
)
def test_each_line_is_found_once_whatever_the_blocks(folder: Path, lines: list[bytes], data: st.DataObject) -> None:
    raw = b"\n".join(lines)
    path = folder / "log"
    path.write_bytes(raw)
    file = opened(path)
    begins = [0, *(at + 1 for at, byte in enumerate(raw) if byte == 10)]
    wanted = [at for at, line in zip(begins, lines or [b""], strict=True) if b"hi" in line]
    origin = data.draw(st.sampled_from(begins))
    size = data.draw(st.sampled_from([16, 23, 64, 4096]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_finder, "BLOCK_BYTES", size)
        later, earlier = steps(file, origin)
    file.close()
    assert later == [at for at in wanted if at >= origin]
    assert earlier == [at for at in reversed(wanted) if at < origin]


def test_a_search_that_stopped_at_its_most_can_go_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"hit\nmiss\n" * 1000)
    file = opened(path)
    matcher = Matcher(parse("hit"))
    found: list[int] = []
    at = 0
    for _ in range(4):
        for step in log_finder.after(file, matcher, at, 300):
            found += step.hits
            at = step.reached
    assert found == list(range(0, 9000, 9))
    found, at = [], file.size
    for _ in range(4):
        for step in log_finder.before(file, matcher, at, 300):
            found += step.hits
            at = step.reached
    assert found == list(range(8991, -1, -9))


def test_a_line_that_still_grows_is_searched_again_later(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\nhi")
    file = opened(path)
    (step,) = log_finder.after(file, Matcher(parse("hit")), 0)
    assert (step.hits, step.reached) == ([], 4)


# -- hits -------------------------------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 50)), st.integers(0, 50), st.integers(-1, 51))
def test_next_and_previous_and_numbers_are_those_of_the_sorted_hits(found: set[int], origin: int, offset: int) -> None:
    hits = Hits(origin)
    before = sorted((at for at in found if at < origin), reverse=True)
    after = sorted(at for at in found if at >= origin)
    hits.take(Told(after, before, {"after": (51, True, False), "before": (0, True, False)}, ended=True))
    everything = sorted(found)
    assert hits.next(offset) == next((at for at in everything if at > offset), None)
    assert hits.previous(offset) == next((at for at in reversed(everything) if at < offset), None)
    assert (offset in hits) == (offset in found)
    assert hits.number(offset) == (everything.index(offset) + 1 if offset in found else None)
    assert (hits.first, hits.last) == ((everything[0], everything[-1]) if everything else (None, None))
    assert (hits.whole, len(hits)) == (True, len(found))


def test_the_number_of_a_hit_is_not_told_before_all_before_it_are_known() -> None:
    hits = Hits(10)
    hits.take(Told([12], [], {"after": (20, True, False)}))
    assert hits.number(12) is None


# -- the process ------------------------------------------------------------------------------------------------------


def searched(path: Path, query: Query, origin: int = 0) -> tuple[Hits, str]:
    hits = Hits(origin)

    async def hear() -> None:
        async for told in search(str(path), query, origin):
            hits.take(told)

    asyncio.run(asyncio.wait_for(hear(), 30))
    return hits, hits.problem


def test_a_search_tells_all_hits_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"hit\nmiss\n" * 1000)
    hits, problem = searched(path, parse("hit"), 4500)
    assert (len(hits), problem, hits.whole, hits.running) == (1000, "", True, False)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert searched(tmp_path / "none", parse("x"))[1] == "it is not there"


async def test_a_search_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 60 + b"\n")
    others = set(proc.children(os.getpid()))

    async def hear() -> None:
        async for _ in search(str(path), parse("/(a+)+$/"), 0):
            pass

    hearing = asyncio.create_task(hear())
    while not (processes := set(proc.children(os.getpid())) - others):
        await asyncio.sleep(0.01)
    hearing.cancel()
    while processes & set(proc.children(os.getpid())):
        await asyncio.sleep(0.01)


def test_an_expression_that_never_ends_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 60 + b"b\n")
    order = {
        "path": str(path),
        "query": {"kind": "regex", "text": "(a+)+$", "ignore_case": False},
        "origin": 0,
        "direction": "both",
    }
    code = "import gpudeck.tui.logs.finder as f, signal, sys; f.STUCK_S = 1; signal.alarm(1); sys.exit(f.main())"
    done = subprocess.run(
        (sys.executable, "-P", "-c", code, json.dumps(order)), capture_output=True, check=False, timeout=60
    )
    assert done.returncode < 0


def test_the_searching_process_imports_nothing_heavy() -> None:
    command = (sys.executable, "-P", "-X", "importtime", "-c", "import gpudeck.tui.logs.finder")
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ).stderr.splitlines()
    modules = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines if "|" in line}
    assert modules & {"textual", "rich", "asyncio", "msgspec", "psutil", "watchfiles"} == set()


# -- errors -----------------------------------------------------------------------------------------------------------


def errors_in(text: bytes) -> list[bytes]:
    return [text[at : text.find(b"\n", at)] for at in Matcher(ERRORS).lines(text)]


TOLD = [
    "Traceback (most recent call last):",
    "[rank0]: Traceback (most recent call last):",
    "ValueError: bad rate",
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "KeyError",
    "2026-01-01 12:00:00 ERROR trainer: no data",
    "train.py: error: unrecognized arguments: --x",
    "Fatal Python error: Segmentation fault",
    "Killed",
    "bash: line 1: nosuch: command not found",
    "terminate called after throwing an instance of 'c10::Error'",
    "Assertion `t >= 0 && t < n_classes` failed.",
    "slurmstepd: error: Detected 1 oom-kill event(s)",
    "Segmentation fault (core dumped)",
    "fatal error: cuda.h: No such file or directory",
    "RuntimeError: CUDA error: device-side assert triggered",
]
NOT_TOLD = [
    "epoch 3 error: 0.123", "MSError: 0.5", "val_error=0.2 train_error 0.1", "0 errors, 3 warnings",
    "UserWarning: this may fail later", "memory: 12 GiB of memory used", "Exceptional results",
    "ERROR: 0.25 (lower is better)", "terror: movie review", "loss 0.3 Error rate 12 %", "Epoch 1: skilled workers",
]  # fmt: skip


@pytest.mark.parametrize("line", TOLD)
def test_a_line_that_tells_of_an_error_is_found_by_its_bytes_too(line: str) -> None:
    raw = line.encode()
    assert tells_an_error(line)
    assert errors_in(b"fine\n" + raw + b"\nfine\n") == [raw]


@pytest.mark.parametrize("line", NOT_TOLD)
def test_a_metric_or_a_warning_is_no_error(line: str) -> None:
    assert not tells_an_error(line)


def failed_samples() -> Iterable[str]:
    return sorted(path.name for path in SAMPLES.glob("*.err"))


@pytest.mark.parametrize("name", failed_samples())
def test_an_error_is_found_in_the_output_of_every_real_failure(name: str) -> None:
    assert errors_in((SAMPLES / name).read_bytes()) != []


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("tqdm-*.txt")))
def test_bars_have_no_errors(name: str) -> None:
    assert errors_in((SAMPLES / name).read_bytes()) == []


# -- needles ----------------------------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [*NEEDLES, b"\n", b"\r", b" ", b"epoch 1/3 ", b"\x1b[0m", "█".encode(), b"0.5", b"rror", b"Err"]
)


@given(st.lists(_PIECES).map(b"".join))
def test_every_needle_of_a_block_is_named(block: bytes) -> None:
    assert {needle for needle in NEEDLES if needle in block} <= set(needles_in(block))


def test_lines_that_differ_in_numbers_alone_have_nothing_to_be_searched_for() -> None:
    block = b"".join(b"epoch %d step %d loss=%.3f\n" % (step // 9, step, step / 7) for step in range(2000))
    assert not list(needles_in(block))


def test_of_a_line_that_looks_like_an_error_only_its_words_are_searched_for() -> None:
    assert list(needles_in(b"epoch 1\nUserWarning: cache not found\n")) == [b"not found"]
