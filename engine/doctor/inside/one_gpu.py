"""One of several processes that run at the same time, each on a GPU of its own: what does it see? Ends when its stdin
is closed. Argument: "touch" to compute something on the GPU, "look" to leave it alone, "environment" without torch."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def seen(how: str) -> dict[str, Any]:
    found: dict[str, Any] = {"pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
    if how == "environment":
        return found
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return found
    found["devices"] = int(torch.cuda.device_count())
    if found["devices"] == 1:
        found["uuid"] = str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))
        if how == "touch":
            found["sum"] = int(torch.ones(1024, device="cuda").sum().item())
    return found


def main() -> None:
    try:
        told = seen(sys.argv[1])
    except BaseException as error:  # whatever a driver or torch raises is what is to be told
        told = {"pid": os.getpid(), "error": f"{type(error).__name__}: {(str(error) or '?').splitlines()[0]}"}
    print("GPUDECK " + json.dumps(told), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
