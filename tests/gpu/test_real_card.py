"""`make gpu`: what gpudeck does on the cards of this machine, in eight minutes at most.

checks.py has what is asked, docs/dev/gpus-seen/ what came of it.
"""

from __future__ import annotations

import pytest

from tests.gpu.checks import CHECKS, Check
from tests.gpu.conftest import Session

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_on_this_machine(gpu_session: Session, check: Check) -> None:
    lines = gpu_session.ask(check)
    assert lines.broken == []
    if not any(line.verdict == "held" for line in lines.lines):
        pytest.skip("; ".join(line.seen for line in lines.lines))
