"""The certificates of all listeners of an observer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headgate.observer.config import ObserverConfig
from headgate.settings import Credentials, UpstreamTls, client_side, upstream_side


class Keyring:
    """The credentials of all listeners.

    Attributes:
        clients: by listener, what is shown to its clients.
        upstreams: by listener, what is shown to its upstreams.
    """

    def __init__(self, config: ObserverConfig) -> None:
        """Load what the configuration names.

        Raises:
            CredentialsError: it cannot be used.
        """
        self.clients: dict[str, Credentials] = {}
        self.upstreams: dict[str, Credentials] = {}
        for name, listener in (("thrift1", config.thrift1), ("thrift2", config.thrift2)):
            if listener is not None and listener.tls is not None:
                self.clients[name] = client_side(name, listener.tls)
            if listener is not None and listener.upstream_tls is not None:
                self.upstreams[name] = upstream_side(name, listener.upstream_tls)

    def __bool__(self) -> bool:
        """Return whether there is anything to keep up to date."""
        return bool(self.clients or self.upstreams)

    def _all(self) -> Iterator[Credentials]:
        yield from self.clients.values()
        yield from self.upstreams.values()

    def live_keys(self) -> Iterator[str]:
        """Yield the keys of the configuration that ``prepare`` can change."""
        for name in self.clients:
            for key in (
                "certificate",
                "key",
                "client_ca",
                "client_crl",
                "require_client_certificate",
            ):
                yield f"{name}.tls.{key}"
        for name in self.upstreams:
            yield from (f"{name}.upstream_tls.{key}" for key in UpstreamTls.__struct_fields__)

    def prepare(self, _old: ObserverConfig, new: ObserverConfig) -> Callable[[], None]:
        """Load everything again; return what makes new connections use it.

        Raises:
            CredentialsError: some of it cannot be used.
        """
        renewed = Keyring(new)

        def apply() -> None:
            for own, others in (
                (self.clients, renewed.clients),
                (self.upstreams, renewed.upstreams),
            ):
                for name, credentials in own.items():
                    credentials.adopt(others[name])

        return apply

    def reload_changed(self) -> None:
        """Load again what has changed on the disk. It blocks: call it in a thread."""
        for credentials in self._all():
            if credentials.changed():
                credentials.reload()

    def expiries(self) -> Iterator[tuple[tuple[str, str], float]]:
        """Yield listener, certificate and when it expires (Unix seconds)."""
        for credentials in self._all():
            for certificate, expiry in credentials.expiries.items():
                yield (credentials.listener, certificate), expiry
