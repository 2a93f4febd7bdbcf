"""A Java that the local stack runs on."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.local.errors import JavaUnfitError
from headgate.settings import Java, UnfitJava, installed_java


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Return the first fit Java of ``JAVA_HOME``, ``PATH`` and the usual places, in this order.

    Args:
        environment: Where the variables are read from; by default the process's own.

    Raises:
        JavaUnfitError: If there is none; the message says what was found and what to install.
    """
    try:
        return installed_java(environment)
    except UnfitJava as error:
        raise JavaUnfitError(str(error)) from error
