"""Records of starts that came to nothing."""

from __future__ import annotations

import os
from pathlib import Path

from tests.inside.decks import sweep_records

ENDED = "start 1.0 5\nend spawn-log 1.0\n"


def test_a_record_that_nobody_needs_goes_as_soon_as_its_wrapper_has_ended(tmp_path: Path) -> None:
    told = {"needed": ENDED, "ended": ENDED, "begun": "start 1.0 5\n", "forbidden": "void\n"}
    for name, text in told.items():
        (tmp_path / name).write_text(text)
    sweep_records(str(tmp_path), ["needed"])
    assert sorted(os.listdir(tmp_path)) == ["begun", "forbidden", "needed"]
