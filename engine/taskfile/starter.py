"""What `gpudeck init` writes where there are no commands to write."""

from __future__ import annotations

import os

import tomli_w

_STARTER = """\
# The tasks of this folder. `gpudeck check` says what is wrong with the file, `gpudeck plan` what would run where,
# `gpudeck --headless {file}` runs it. `gpudeck schema` and docs/taskfile.md tell all keys.

[deck]
{name}
# gpus = "0-3"          # default: all GPUs of this box; "none": CPU only; "sim:4": four pretended ones, to try things
# slots_per_gpu = 2     # tasks on one GPU at the same time
# log_dir = "logs"

[vars]
seeds = [1, 2, 3]

# Keys for every task; a task's own go before them.
[defaults]
{gpus}
# timeout = "6h"
# retries = 1           # also see retry_on and backoff
# watch.log_size = "20GiB"    # say so when the logs of one attempt have grown beyond it

# One task for each seed. Replace the command by yours: command = "python train.py --seed {{seed}}"
[[task]]
name = "hello-s{{seed}}"
command = ["{{python}}", "-c", "import sys; print('hello from seed', sys.argv[1])", "{{seed}}"]
matrix.seed = "{{seeds}}"
# outputs = ["out/model-{{seed}}.pt"]     # what success leaves behind; what is there already is not made again

# One more, when all of these have succeeded.
[[task]]
name = "summary"
needs = ["hello-s*"]
gpus = 0
command = "echo all seeds are done"
"""


def starter(path: str, name: str | None, gpus: int | None) -> str:
    """A task file that runs as it is, and says what to change."""
    return _STARTER.format(
        file=os.path.basename(path),
        name=_pair("name", name) if name is not None else '# name = "my-deck"     # default: the folder, or the file',
        gpus=f"gpus = {gpus}" if gpus is not None else "# gpus = 1              # that one task takes; 0: a CPU task",
    )


def head(path: str, name: str | None) -> str:
    """The beginning of a file whose tasks follow."""
    check = f"gpudeck check -f {os.path.basename(path)}"
    return f"# `{check}` says what is wrong with this file; docs/taskfile.md tells all keys.\n" + (
        f"\n[deck]\n{_pair('name', name)}\n" if name is not None else ""
    )


def _pair(key: str, value: str) -> str:
    return tomli_w.dumps({key: value}).rstrip("\n")
