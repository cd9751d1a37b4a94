"""afk: drains a queue of issues while nobody is at the keyboard."""

__version__ = "0.1.0"
