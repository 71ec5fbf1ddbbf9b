"""`gpudeck run`: single commands on the GPUs of the box, as tasks of a deck of their own."""
