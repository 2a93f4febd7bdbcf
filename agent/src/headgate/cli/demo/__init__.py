"""``headgate demo``: whole examples, from nothing to a report."""

from headgate.cli.demo.commands import app

__all__ = ["app"]
