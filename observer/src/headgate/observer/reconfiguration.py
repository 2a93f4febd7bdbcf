"""A changed configuration while clients are served: what can change does, what cannot is logged.

Every part of the observer names the keys that it can change and how. All parts look at the new
configuration before any of them changes anything, so that one they cannot use changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import structlog

from headgate.observer.config import ObserverConfig, check_config
from headgate.settings import ConfigurationError

_log = structlog.get_logger("headgate.observer.reconfiguration")

Apply = Callable[[], None]
Prepare = Callable[[ObserverConfig, ObserverConfig], Apply]
"""Takes the old and the new configuration; returns what makes the change, which cannot fail.

It is also called when none of its keys has changed: files that they name may have. It raises
ConfigurationError when the new configuration cannot be used.
"""


class Reconfiguration:
    """The configuration in effect, and the parts that can take another."""

    def __init__(self, config: ObserverConfig) -> None:
        """Begin with what was read at start."""
        self.config = config
        self._live: list[str] = []
        self._parts: list[Prepare] = []

    def at(self, *keys: str, prepare: Prepare | None = None) -> None:
        """Let keys change live; ``limits`` stands for ``limits.connections`` too.

        Without ``prepare`` the key's value is looked up in the configuration whenever it is needed.
        """
        self._live += keys
        if prepare is not None:
            self._parts.append(prepare)

    def take(self, wanted: ObserverConfig) -> ObserverConfig:
        """Change to another configuration, but for the keys that need a restart; return it.

        Raises:
            ConfigurationError: it cannot be used; nothing has changed.
        """
        old, new = _content(self.config), _content(wanted)
        changed: list[str] = []
        refused: list[str] = []
        for path in _differences(old, new, ()):
            key = ".".join(path)
            if self._is_live(key):
                changed.append(key)
            else:
                refused.append(key)
                _keep(old, new, path)
        config = msgspec.convert(new, ObserverConfig)
        if refused:
            # Neither the old file nor the new one says this: nobody has checked it yet.
            check_config(config, f"the new configuration with the old {', '.join(refused)}")
        applies = [prepare(self.config, config) for prepare in self._parts]
        for apply in applies:
            apply()
        self.config = config
        for key in refused:
            _log.error("a key was changed that needs a restart: its old value stays", key=key)
        _log.info("configuration reloaded", changed=changed)
        return config

    def _is_live(self, key: str) -> bool:
        return any(key == live or key.startswith(f"{live}.") for live in self._live)

    def reload(self, load: Callable[[], ObserverConfig]) -> ObserverConfig | None:
        """Change to what ``load`` returns; if it cannot be used, log why and return None."""
        try:
            return self.take(load())
        except ConfigurationError as error:
            _log.error("configuration not reloaded: the old one stays", reason=str(error))
            return None


def _content(config: ObserverConfig) -> dict[str, Any]:
    return dict(msgspec.to_builtins(config))


def _differences(
    old: dict[str, Any], new: dict[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    for key in old | new:
        one, other = old.get(key), new.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _differences(one, other, (*path, key))
        elif one != other:
            yield (*path, key)


def _keep(old: dict[str, Any], new: dict[str, Any], path: tuple[str, ...]) -> None:
    for part in path[:-1]:
        old, new = old[part], new[part]
    if path[-1] in old:
        new[path[-1]] = old[path[-1]]
    else:
        del new[path[-1]]
