"""A Slurm job of several nodes that gpudeck itself was started in: its GPUs, and steps on them."""
