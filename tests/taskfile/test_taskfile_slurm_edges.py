"""Keys that say nothing on Slurm, where the command line says them too."""

from __future__ import annotations

from pathlib import Path

from tests.inside.taskfile import RunOptions, load


def test_a_key_that_the_command_line_says_too_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text('[deck]\nbackend = "slurm"\ngpus = "sim:2"\n[[task]]\nname = "a"\ncommand = "x"\n')
    file = load(str(path), RunOptions(gpus="0"), environ={"PATH": "/bin"})
    assert [line.rpartition(": ")[2] for line in file.warnings] == ["--gpus"]
