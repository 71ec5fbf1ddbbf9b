"""gpudeck runs ML training on the GPUs of one box: a task file, an engine that loses nothing, a screen."""

__version__ = "0.1.0"
