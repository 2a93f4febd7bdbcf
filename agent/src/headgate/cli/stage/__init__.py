"""``headgate stage``: what stages of dataflows remember."""

from headgate.cli.stage.commands import app

__all__ = ["app"]
