"""python -m tests.random_use: decks used at random for as long as is asked for."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .drive import FoundError, carry_out
from .plan import Act, plan, read, said
from .reduce import reduced


def main() -> int:
    """Exit code 1: something was found."""
    args = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # under nohup, or with &, they would leave engines and a mount
        signal.signal(number, signal.default_int_handler)
    end = time.monotonic() + args.minutes * 60
    seed, found = args.seed, 0
    while True:
        chosen = read(args.acts) if args.acts else plan(seed, args.count)
        began = time.monotonic()
        error = _find(chosen, _say if args.verbose else lambda _: None)
        told = f"seed {seed}: {len(chosen)} acts, {time.monotonic() - began:.0f} s"
        print(f"{told}, {'as it should be' if error is None else f'FOUND {error}'}", flush=True)
        if error is not None:
            found += 1
            if args.reduce:
                print(f"reduced: {said(_reduced(error))}\n", flush=True)
        seed += 1
        if time.monotonic() > end:
            return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.random_use", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="go on with the next seeds for so long")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("GPUDECK_RANDOM_SEED", "1")))
    parser.add_argument("--count", type=int, default=40, help="acts for each seed")
    parser.add_argument("--acts", default=os.environ.get("GPUDECK_RANDOM_ACTS"), help="these acts instead, as printed")
    parser.add_argument("--reduce", action="store_true", help="look for fewer acts that find the same (slow)")
    parser.add_argument("-v", "--verbose", action="store_true", help="say each act")
    return parser.parse_args()


def _find(chosen: Sequence[Act], tell: Callable[[str], None] = lambda _: None) -> FoundError | None:
    with tempfile.TemporaryDirectory(prefix="gd-random-") as folder:
        try:
            carry_out(Path(folder) / "deck", chosen, tell)
        except FoundError as error:
            return error
    return None


def _reduced(error: FoundError) -> Sequence[Act]:
    def finds(fewer: Sequence[Act]) -> bool:
        again = _find(fewer)
        return again is not None and _gist(again) == _gist(error)

    return reduced(error.done, finds)


def _gist(error: FoundError) -> str:
    """What was found, whatever the numbers and names."""
    return re.sub(r"\d+|\([^)]*\)", "", error.why.partition("\n")[0])[:60]


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
