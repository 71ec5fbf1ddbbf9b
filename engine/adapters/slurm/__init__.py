"""Attempts as jobs of a Slurm cluster."""
