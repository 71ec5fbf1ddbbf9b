"""burn.py UNTIL: keep the card as busy as it can be until a file UNTIL is there, for two minutes at most."""

import os
import sys
import time

import torch

one = torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)
begun = time.monotonic()
while not os.path.exists(sys.argv[1]) and time.monotonic() < begun + 120:
    for _ in range(10):
        one @ one
    torch.cuda.synchronize()
