"""Scripts that run in the task's own Python, which need not have gpudeck: the standard library of Python 3.8 and,
where there is one, torch. Each writes a line of JSON for every step, so that what was seen before a crash is known."""
