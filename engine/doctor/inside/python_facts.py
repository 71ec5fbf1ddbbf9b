"""What a task's Python can do. Input: JSON on stdin, {"imports": [names], "values": anything}."""

from __future__ import annotations

import copy
import importlib
import json
import multiprocessing
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def tell(step: str, **facts: Any) -> None:
    print("GPUDECK " + json.dumps({"step": step, **facts}), flush=True)


def words(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def torch_facts() -> None:
    try:
        torch: Any = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        tell("torch", missing=error.name == "torch", error="" if error.name == "torch" else words(error))
        return
    except BaseException as error:  # a broken installation may raise anything, SystemExit too
        tell("torch", missing=False, error=words(error))
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        devices = int(torch.cuda.device_count())
    said = [str(each.message).splitlines()[0] for each in caught]
    tell(
        "torch", missing=False, error="", version=str(torch.__version__), cuda=torch.version.cuda or "",
        hip=getattr(torch.version, "hip", None) or "", available=available, devices=devices, warnings=said,
    )  # fmt: skip
    if available:
        cuda_facts(torch)


def cuda_facts(torch: Any) -> None:
    try:
        supported = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
        tell(
            "cuda", bf16=all(major >= 8 for major, _ in supported), kinds=sorted({list_of(each) for each in supported})
        )
    except Exception as error:  # a driver's trouble comes as RuntimeError, AssertionError, a class of torch's own
        tell("cuda", error=words(error))
    try:
        distributed: Any = importlib.import_module("torch.distributed")
        has_nccl = bool(distributed.is_available() and distributed.is_nccl_available())
        tell("nccl", version=".".join(str(part) for part in torch.cuda.nccl.version()) if has_nccl else "")
    except Exception as error:  # the same, and what a half-installed torch raises when it is imported
        tell("nccl", version="", error=words(error))


def list_of(capability: Any) -> str:
    return f"{capability[0]}.{capability[1]}"


def import_each(names: list[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
            tell("import", name=name, error="")
        except BaseException as error:  # a module may raise anything, SystemExit too
            tell("import", name=name, error=words(error))


def send_to_a_worker(values: Any) -> None:
    """As a data loader does: the values go to a fresh process and come back."""
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            came = pool.submit(copy.deepcopy, values).result(timeout=30)
        tell("serialization", error="" if came == values else "the values came back changed")
    except Exception as error:  # the values' own classes may raise anything when they are pickled or compared
        tell("serialization", error=words(error))


def main() -> None:
    asked = json.loads(sys.stdin.read())
    tell("python", version=sys.version.split()[0], executable=sys.executable)
    send_to_a_worker(asked["values"])
    torch_facts()
    import_each(asked["imports"])


if __name__ == "__main__":
    main()
