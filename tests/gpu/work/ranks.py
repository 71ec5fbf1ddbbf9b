"""Under torchrun: each rank adds its number to those of all others over NCCL, and tells the sum and its card."""

import os

import torch
import torch.distributed as dist

rank, device = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(device)
dist.init_process_group("nccl")
total = torch.tensor([rank + 1.0], device="cuda")
dist.all_reduce(total)
card = getattr(torch.cuda.get_device_properties(device), "uuid", f"device {device}")
with open("ranks.txt", "a") as file:
    file.write(f"{rank} {dist.get_world_size()} {total.item():.0f} {card}\n")
dist.destroy_process_group()
