"""`gpudeck fit`: the largest value of a variable that a task runs with on a GPU, found by short trials."""
