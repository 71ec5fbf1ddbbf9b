"""GPUs as the NVIDIA driver tells of them."""
