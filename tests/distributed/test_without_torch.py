"""What needs no torch works without it; what needs torch needs nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gpudeck.distributed as gd
from gpudeck.distributed.task import Task, line, load_task
from tests.distributed.ranks import clean_environment
from tests.inside.distributed import said_in

_ALONE = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
import gpudeck.distributed as gd
{body}
"""
_REST_OF_GPUDECK = ["textual", "msgspec", "psutil", "pynvml", "watchfiles", "tomli_w", "argcomplete", "rich"]


def run(blocked: list[str], body: str) -> str:
    script = _ALONE.format(blocked=blocked, body=body)
    done = subprocess.run(
        (sys.executable, "-c", script), env=clean_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout


def test_reporting_and_the_task_need_no_torch() -> None:
    said = run(["torch"], "gd.report(1, 2, loss=0.5); gd.print0(gd.is_main(), gd.load_task().attempt)")
    assert said == "::gpudeck progress=1/2 loss=0.5\nTrue 1\n"


def test_the_import_brings_no_torch_and_no_engine() -> None:
    body = "print([name for name in sys.modules if name.startswith(('torch', 'gpudeck.engine', 'gpudeck.tui'))])"
    assert run([], body) == "[]\n"


def test_with_torch_alone_every_name_is_there() -> None:
    assert run(_REST_OF_GPUDECK, "print(all(getattr(gd, name) for name in gd.__all__))") == "True\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'wrapp'"):
        _ = gd.wrapp  # type: ignore[attr-defined]


def test_gpudeck_reads_what_report_prints() -> None:
    share, metrics = said_in(line(3, 100, {"loss": 0.125, "lr": 1e-5, "seen": 4096, "acc": float("nan")}))
    assert share == 0.03
    assert str(metrics) == str({"loss": 0.125, "lr": 1e-5, "seen": 4096.0, "acc": float("nan")})


@pytest.mark.parametrize(
    ("step", "total", "metrics"),
    [(4, 3, {}), (0, 0, {}), (1, 2, {"val loss": 1}), (1, 2, {"progress": 1}), (1, 2, {"1st": 1})],
)
def test_what_gpudeck_would_misread_is_refused(step: int, total: int, metrics: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"step|name of a metric"):
        line(step, total, metrics)


def test_a_task_knows_what_gpudeck_says_of_it() -> None:
    environ = {
        "GPUDECK_TASK": "train-a",
        "GPUDECK_ATTEMPT": "2",
        "GPUDECK_DECK": "sweep",
        "GPUDECK_LOG": "/logs/train-a/attempt-2.log",
        "GPUDECK_RUN_DIR": "/logs/train-a",
        "GPUDECK_GPU_MEM_MIB": "81920",
        "GPUDECK_SHARD": "1",
        "GPUDECK_SHARDS": "4",
    }
    assert load_task(environ) == Task(
        "train-a", 2, "sweep", "/logs/train-a/attempt-2.log", "/logs/train-a", 81920, 1, 4
    )
    assert load_task({}) == Task()
