"""`gpudeck run`: single commands on the GPUs of the box, as tasks of a small deck of their own beside each folder."""
