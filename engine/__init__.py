"""The engine: schedules tasks, runs them as processes, writes down what happened."""
