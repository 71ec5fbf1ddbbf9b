"""`gpudeck submit`: a deck as Slurm jobs that wait for each other, for people who want no engine to run."""
