"""The command ``headgate``."""

from headgate.cli.app import main

__all__ = ["main"]
