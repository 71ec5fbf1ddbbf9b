"""What finished tasks came to, and tables of it."""
