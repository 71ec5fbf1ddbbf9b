"""`gpudeck doctor`: what of a box, a driver, a Python and a task file would keep training from running."""
