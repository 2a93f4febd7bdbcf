"""``headgate flow``: dataflow files, and the dataflows that agents run."""

from headgate.cli.flow.commands import app

__all__ = ["app"]
