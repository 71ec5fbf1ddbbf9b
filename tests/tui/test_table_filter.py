"""The filter's words, and that selectors mean what they mean to the engine."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core.selector import parse_selector
from gpudeck.engine.errors import UsageError
from tests.inside.tui import filtering_parse as parse
from tests.inside.tui import subject
from tests.tui.table_rig import row, running

UUIDS = {0: "GPU-aaaa", 1: "GPU-bbbb"}
ROWS = (
    row(0, "failed", "train-sym-0.5", reason="exit 1: ValueError: bad rate", kind="exit", tags=("large",), gpus=(1,),
        params={"noise": "sym", "rate": "0.50"}, round=1, group="g"),
    running(1, "train-asym-0.5", params={"noise": "asym", "rate": "0.5"}, held=True),
    row(2, "succeeded", "gather", entry="gather", changed=True, round=2, kind="ok"),
    row(3, "failed", "eval[1]", reason="oom: CUDA out of memory", kind="oom", left_out=True, gone=True),
)  # fmt: skip


def names(text: str) -> list[str]:
    wanted = parse(text)
    return [each.name for each in ROWS if wanted.matches(each, UUIDS)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [each.name for each in ROWS]),
        ("SYM", ["train-sym-0.5", "train-asym-0.5"]),
        ("train sym-", ["train-sym-0.5", "train-asym-0.5"]),
        ("valueerror", ["train-sym-0.5"]),
        ("noise=asym", ["train-asym-0.5"]),
        ("noise=", ["train-sym-0.5", "train-asym-0.5"]),
        ("rate=0.5", ["train-sym-0.5", "train-asym-0.5"]),
        ("large", ["train-sym-0.5"]),
        ("state:failed", ["train-sym-0.5", "eval[1]"]),
        ("state:failed,running", ["train-sym-0.5", "train-asym-0.5", "eval[1]"]),
        ("state:held", ["train-asym-0.5"]),
        ("state:gone", ["eval[1]"]),
        ("state:left-out", ["eval[1]"]),
        ("-state:failed", ["train-asym-0.5", "gather"]),
        ("reason:oom", ["eval[1]"]),
        ("tag:large", ["train-sym-0.5"]),
        ("gpu:0", ["train-asym-0.5"]),
        ("gpu:0,1", ["train-sym-0.5", "train-asym-0.5"]),
        ("gpu:GPU-bb", ["train-sym-0.5"]),
        ("entry:gather", ["gather"]),
        ("group:g", ["train-sym-0.5"]),
        ("round:1,2", ["train-sym-0.5", "gather"]),
        ("train-*", ["train-sym-0.5", "train-asym-0.5"]),
        ("eval[1]", ["eval[1]"]),
        ('"bad rate"', ["train-sym-0.5"]),
        ('-"bad rate" state:failed', ["eval[1]"]),
        ('"state:failed"', []),
        ("-", [each.name for each in ROWS]),
    ],
)
def test_words_find(text: str, found: list[str]) -> None:
    assert names(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("state:faild", "did you mean state:failed?"),
        ("state:", "nothing after the colon"),
        ("state:failed,nonsense", "state:nonsense"),
        ("reason:nonsense", "it knows"),
    ],
)
def test_what_can_match_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why.replace("?", r"\?")):
        parse(text)


def test_a_word_with_a_colon_that_is_no_selector_is_a_word() -> None:
    assert names("1: value") == ["train-sym-0.5"]


@pytest.mark.parametrize(
    "text",
    [
        "state:failed", "state:f*", "reason:oom", "tag:l*", "gpu:1", "rate=0.5", "noise=?sym", "train-*", "gather",
        "train-* gath*", "train-* rate=0.5 -noise=sym", "noise=sym,asym", "-train-*", "state:gone", "-state:left-out",
        "entry:gather round:2", "gpu:0,1 group:g",
    ],
)  # fmt: skip
def test_selectors_mean_what_they_mean_to_commands(text: str) -> None:
    selector = parse_selector([text])
    assert names(text) == [each.name for each in ROWS if selector.matches(subject(each, UUIDS))]


@given(st.text(max_size=30))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        wanted = parse(text)
        for each in ROWS:
            wanted.matches(each, UUIDS)
