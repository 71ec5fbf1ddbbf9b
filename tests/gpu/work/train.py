"""train.py UNTIL MIB [CODE]: train a tiny model beside so much memory, for UNTIL seconds or until a file of that name
is there; exit code CODE."""

import os
import sys
import time

import torch

until, mib = sys.argv[1], int(sys.argv[2])
seconds = float(until) if until[0].isdigit() else 120.0  # whatever became of who would write it
beside = torch.empty(mib << 20, dtype=torch.uint8, device="cuda").fill_(1)
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
begun = told = time.monotonic()
while time.monotonic() < begun + seconds and not os.path.exists(until):
    loss = (model(torch.ones(64, 256, device="cuda")) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if time.monotonic() > told + 0.5:
        told = time.monotonic()
        print(f"{told - begun:.1f} s, loss {loss.item():.4f}", flush=True)
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
