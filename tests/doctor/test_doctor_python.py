"""What a task's Python can do, told by scripts that really run in one; torch is stood in for by a small package."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from tests.inside.doctor import (
    Finding,
    Interpreter,
    Place,
    Wanted,
    check_isolation,
    check_python,
    has_torch,
    look_from_each,
    look_inside,
)

TORCH = """
    import os
    class _Cuda:
        class nccl:
            version = staticmethod(lambda: (2, 21, 5))
        def is_available(self): return bool(COUNT)
        def device_count(self): return COUNT
        def get_device_capability(self, index): return CAPABILITY
        def get_device_properties(self, index):
            return type("Properties", (), {{"uuid": os.environ["CUDA_VISIBLE_DEVICES"].removeprefix("GPU-")}})
    class version:
        cuda, hip = "12.6", None
    COUNT, CAPABILITY = {count}, {capability}
    cuda, __version__ = _Cuda(), "2.6.0"
"""
DISTRIBUTED = "def is_available(): return True\ndef is_nccl_available(): return {nccl}\n"


@pytest.fixture
def python(tmp_path: Path) -> Interpreter:
    """An interpreter whose modules come from a folder of the test."""
    unkept = {"PYTHONDONTWRITEBYTECODE": "1"}  # a module is written anew within a second
    return Interpreter(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path), **unkept}, str(tmp_path))


def module(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))


def torch(
    tmp_path: Path, count: int | str, *, capability: tuple[int, int] = (8, 6), nccl: bool = True, cuda: str = "12.6"
) -> None:
    text = TORCH.format(count=count, capability=capability).replace('"12.6"', repr(cuda))
    module(tmp_path, "torch/__init__", text)
    module(tmp_path, "torch/distributed", DISTRIBUTED.format(nccl=nccl))


def told(python: Interpreter, wanted: Wanted | None = None, imports: tuple[str, ...] = ()) -> dict[str, Finding]:
    ended = look_inside(python, imports, {"lr": "0.1"})
    return {each.check: each for each in check_python(python, ended, wanted or Wanted(), imports)}


def test_a_torch_that_sees_the_gpus_is_all_right_down_to_nccl(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 2)
    found = told(python, Wanted(gpus=2, gangs=True))
    assert {each.level for each in found.values()} == {"ok"}
    assert found["torch"].text == "CUDA: True, Devices: 2; torch 2.6.0 for CUDA 12.6"
    assert found["NCCL"].text == "2.21.5"
    assert found["bf16"].text == "supported (compute capability 8.6)"
    assert found["serialization"].text.startswith("Serialization OK")


@pytest.mark.parametrize(("count", "cuda"), [(0, ""), (0, "12.6"), (1, "12.6")])
def test_a_torch_that_does_not_see_all_gpus_fails(tmp_path: Path, python: Interpreter, count: int, cuda: str):
    torch(tmp_path, count, cuda=cuda)
    found = told(python, Wanted(gpus=2))
    assert found["torch"].level == "fail"
    assert ("this build knows no GPU" in found["torch"].remedy) is (cuda == "")


def test_without_gpus_it_does_not_matter_what_torch_sees(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 0, cuda="")
    assert told(python)["torch"].level == "ok"


def test_of_mig_instances_cuda_shows_one(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 1)
    assert told(python, Wanted(gpus=3, mig=True))["torch"].level == "ok"


def test_old_gpus_have_no_bf16_and_a_torch_without_nccl_fails_only_gangs(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 2, capability=(7, 0), nccl=False)
    assert told(python, Wanted(gpus=2))["bf16"].level == "warn"
    assert told(python, Wanted(gpus=2))["NCCL"].level == "ok"
    assert told(python, Wanted(gpus=2, gangs=True))["NCCL"].level == "fail"


def test_a_torch_that_cannot_be_imported_fails_with_the_reason(tmp_path: Path, python: Interpreter):
    module(tmp_path, "torch/__init__", 'raise OSError("libcudart.so.12: cannot open shared object file")')
    found = told(python)
    assert found["torch"].level == "fail"
    assert "libcudart.so.12" in found["torch"].text
    module(tmp_path, "torch/__init__", "import numpy_that_is_not_there")
    assert "numpy_that_is_not_there" in told(python)["torch"].text
    assert not has_torch(look_inside(python, (), {}))


def test_a_crash_keeps_what_was_seen_before_it(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 0)
    module(tmp_path, "crashes", "import os; os.abort()")
    found = told(python, imports=("json", "crashes"))
    assert found["torch"].level == "ok"
    assert found["python"].level == "fail"
    assert found["python"].text.startswith("its check broke off at import of crashes: killed by SIGABRT")


def test_modules_that_tasks_can_do_without_are_a_warning_when_they_are_missing(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 0)
    module(tmp_path, "talks", "print('GPUDECK is not JSON'); print('hello')")
    found = told(python, imports=("talks", "not_there"))
    assert (found["imports"].level, found["imports"].text[:16]) == ("warn", "import not_there")
    assert told(python, imports=("json", "talks"))["imports"].text == "Imports OK: json, talks"


def test_an_interpreter_that_does_not_start_fails(tmp_path: Path):
    missing = Interpreter(str(tmp_path / "bin" / "python"), {}, str(tmp_path))
    (found,) = told(missing).values()
    assert (found.level, found.check) == ("fail", "python")


# -- isolation --------------------------------------------------------------------------------------------------------


def isolation(python: Interpreter, *places: Place) -> list[Finding]:
    return list(check_isolation(look_from_each(python, places)))


GPUS = (Place("GPU 0", "GPU-a", "GPU-a", "look"), Place("GPU 1", "GPU-b", "GPU-b", "look"))


def test_processes_run_at_the_same_time_each_with_its_own_gpu(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 1)
    together, assigned = isolation(python, *GPUS)
    assert (together.level, assigned.level) == ("ok", "ok")
    assert together.text.startswith("2 processes at the same time, PIDs ")
    assert len(set(together.text.rpartition("PIDs ")[2].split(", "))) == 2
    assert assigned.text == (
        "GPU 0: CUDA_VISIBLE_DEVICES=GPU-a; GPU 1: CUDA_VISIBLE_DEVICES=GPU-b; each sees one device, the right one"
    )


def test_without_real_gpus_it_is_said_that_the_environment_alone_was_checked(python: Interpreter):
    _, assigned = isolation(python, Place("SIM 0", "0"), Place("SIM 1", "1"))
    assert assigned.level == "ok"
    assert assigned.text.endswith("only the environment was checked, no real GPU is in use")


def test_a_python_that_changes_what_is_visible_fails(tmp_path: Path, python: Interpreter):
    module(tmp_path, "sitecustomize", 'import os; os.environ["CUDA_VISIBLE_DEVICES"] = "7"')
    _, assigned = isolation(python, Place("SIM 0", "0"), Place("SIM 1", "1"))
    assert assigned.level == "fail"
    assert "SIM 0: CUDA_VISIBLE_DEVICES is '7' instead of '0'" in assigned.text


def test_a_process_that_sees_two_devices_or_another_gpu_fails(tmp_path: Path, python: Interpreter):
    torch(tmp_path, 2)
    assert "sees 2 devices instead of one" in isolation(python, *GPUS)[1].text
    torch(tmp_path, 1)
    assert "sees the GPU a instead of GPU-x" in isolation(python, Place("GPU 0", "GPU-a", "GPU-x", "look"))[1].text


def test_a_process_that_dies_or_breaks_is_named_and_keeps_no_other_from_telling(tmp_path: Path, python: Interpreter):
    torch(tmp_path, '(1 if os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a" else os._exit(9))')
    first, assigned = isolation(python, *GPUS)
    assert (first.level, first.text) == ("fail", "GPU 1: exit code 9")
    assert assigned.level == "ok"
    torch(tmp_path, '1 / (os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a")')
    assert "GPU 1: ZeroDivisionError: division by zero" in isolation(python, *GPUS)[1].text
