"""One attempt of a task: started, what it was started with, how it ended, what is written of it."""
