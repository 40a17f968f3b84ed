"""Version of the package, the only place of it."""

__version__ = "0.1.0"
