"""Writing an instance's configuration from the templates in ``hbase-conf``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

from headgate.local.errors import ConfigurationMissingError

TEMPLATES = (
    "hadoop-metrics2-hbase.properties",
    "hbase-site.xml",
    "log4j.properties",
    "log4j2.properties",
    "server.properties",
)


def render(source: Path, target: Path, values: Mapping[str, str]) -> None:
    """Fill in every template of ``source`` and write it into ``target``.

    Args:
        source: The folder ``hbase-conf``.
        target: The instance's folder of configuration.
        values: What stands for each ``${name}``.

    Raises:
        ConfigurationMissingError: If a template is missing or names an unknown value.
    """
    for name in TEMPLATES:
        try:
            template = Template((source / name).read_text(encoding="utf-8"))
            text = template.substitute(_escaped(name, values))
        except (OSError, KeyError, ValueError) as error:
            raise ConfigurationMissingError(
                f"the template {source / name} cannot be filled in: {error!r}; restore it"
            ) from error
        write_whole(target / name, text)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that readers and crashes find the old text or the new one, never a part."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _escaped(name: str, values: Mapping[str, str]) -> dict[str, str]:
    if name.endswith(".xml"):
        return {key: escape(value) for key, value in values.items()}
    # A backslash begins an escape in Java's properties.
    return {key: value.replace("\\", "\\\\") for key, value in values.items()}
