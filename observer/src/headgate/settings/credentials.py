"""Certificates and keys: TLS contexts made of files, and made anew when the files change."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from headgate.settings.certificates import (
    certificates_in,
    expiry_of,
    lists_in,
    next_update_of,
)
from headgate.settings.places import ConfigurationError

_NOT_THERE: Final = (-1, -1, -1)
_State = tuple[tuple[int, int, int], ...]


class ServerTls(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS to clients; files are PEM and are loaded again when they change."""

    certificate: str
    """The listener's own certificate first, then those between it and its authority."""
    key: str
    client_ca: str = ""
    """Authorities by which clients' certificates are known; empty: none is asked for."""
    require_client_certificate: bool = False
    client_crl: str = ""
    """The lists of revoked certificates of ``client_ca``; empty: none is looked up."""


class UpstreamTls(Struct, frozen=True, forbid_unknown_fields=True):
    """TLS to other servers; files are PEM and are loaded again when they change."""

    ca: str = ""
    """Authorities by which the servers are known; empty: those of the operating system."""
    certificate: str = ""
    """Shown to the servers; empty: none is."""
    key: str = ""
    server_name: str = ""
    """What the servers' certificates are for; empty: the host of each address."""


class CredentialsError(ConfigurationError):
    """Certificates or keys that cannot be used; the message names key, file and cure."""


class Loaded(Struct, frozen=True):
    """A context, with when each kind of certificate in it expires (Unix seconds), by its key."""

    context: ssl.SSLContext
    expiries: dict[str, float]


class Credentials:
    """The certificates of one side of a listener.

    Attributes:
        listener: its name.
        server_name: what upstreams' certificates are for; empty: each for its host.
        context: for new connections; connections that are there keep what they began with.
        expiries: when each kind of certificate expires (Unix seconds), by its key.
    """

    def __init__(
        self,
        listener: str,
        files: Iterable[str],
        load: Callable[[], Loaded],
        server_name: str = "",
    ) -> None:
        """Load them.

        Raises:
            CredentialsError: they cannot be used.
        """
        self.listener = listener
        self.server_name = server_name
        self._files = tuple(Path(file) for file in files if file)
        self._load = load
        self._seen = self._state()
        loaded = load()
        self.context = loaded.context
        self.expiries = loaded.expiries

    def adopt(self, other: Credentials) -> None:
        """Go on with the files of others, for new connections."""
        self._files, self._load, self._seen = other._files, other._load, other._seen
        self.server_name = other.server_name
        self.context, self.expiries = other.context, other.expiries

    def _state(self) -> _State:
        return tuple(_file_state(file) for file in self._files)

    def changed(self) -> bool:
        """Return whether a file is another than when it was last looked at. Reads the disk."""
        return self._state() != self._seen

    def reload(self) -> None:
        """Load the files again; what cannot be used is logged, and what was there stays."""
        import structlog  # takes a third of a start, which programs without a log can do without

        log = structlog.get_logger("headgate.settings.credentials")
        self._seen = self._state()
        try:
            loaded = self._load()
        except CredentialsError as error:
            log.error(  # noqa: TRY400 - the reason says it all
                "certificates not reloaded: new connections keep the old ones",
                listener=self.listener,
                reason=str(error),
            )
            return
        self.context = loaded.context
        self.expiries = loaded.expiries
        log.info(
            "certificates reloaded",
            listener=self.listener,
            files=", ".join(str(file) for file in self._files),
        )


def client_side(listener: str, tls: ServerTls, table: str = "") -> Credentials:
    """Return what a listener shows to its clients, and by what it knows them.

    ``table`` is the configuration's, where it is not the listener's own.

    Raises:
        CredentialsError: it cannot be used.
    """
    table = table or f"{listener}.tls"

    def load() -> Loaded:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        expiries = {"server": _load_pair(context, table, tls.certificate, tls.key)}
        if tls.client_ca:
            expiries["client_ca"] = _load_authorities(context, f"{table}.client_ca", tls.client_ca)
            required = tls.require_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
            if tls.client_crl:
                due = _load_revoked(context, f"{table}.client_crl", tls.client_crl)
                if due is not None:
                    expiries["client_crl"] = due
            # A resumed session would not look at the client's certificate again.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return Loaded(context, expiries)

    return Credentials(listener, (tls.certificate, tls.key, tls.client_ca, tls.client_crl), load)


def upstream_side(listener: str, tls: UpstreamTls, table: str = "") -> Credentials:
    """Return what is shown to a listener's upstreams, and by what they are known.

    ``table`` is the configuration's, where it is not the listener's own.

    Raises:
        CredentialsError: it cannot be used.
    """
    table = table or f"{listener}.upstream_tls"

    def load() -> Loaded:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if tls.server_name:
            _check_server_name(context, f"{table}.server_name", tls.server_name)
        expiries = {}
        if tls.ca:
            expiries["upstream_ca"] = _load_authorities(context, f"{table}.ca", tls.ca)
        else:
            context.load_default_certs()
        if tls.certificate:
            expiries["upstream_client"] = _load_pair(context, table, tls.certificate, tls.key)
        return Loaded(context, expiries)

    return Credentials(listener, (tls.ca, tls.certificate, tls.key), load, tls.server_name)


def _check_server_name(context: ssl.SSLContext, key: str, name: str) -> None:
    """Require a name that a connection can ask for; nothing is sent."""
    try:
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)
    except (ValueError, TypeError, ssl.SSLError) as error:
        raise CredentialsError(
            f"{key}: {name!r} is no host name ({error}); write the name that the servers' "
            "certificates are for, such as hbase.example.com"
        ) from error


class _PassPhraseWanted(Exception):
    """The key is encrypted."""


def _load_pair(context: ssl.SSLContext, table: str, certificate: str, key: str) -> float:
    text = _read(f"{table}.certificate", certificate)
    _read(f"{table}.key", key)
    found = certificates_in(text)
    if not found:
        raise CredentialsError(
            f"{table}.certificate: {certificate} holds no certificate; "
            "name a PEM file, which begins with -----BEGIN CERTIFICATE-----"
        )

    def refuse() -> str:
        raise _PassPhraseWanted

    try:
        context.load_cert_chain(certificate, key, refuse)
    except _PassPhraseWanted as error:
        raise CredentialsError(
            f"{table}.key: {key} is encrypted with a pass phrase, which nobody could type at a "
            "restart; store the key without one (openssl pkey -in KEY -out PLAIN), readable by the "
            "service's user alone"
        ) from error
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CredentialsError(
                f"{table}.key: {key} is not the key of the certificate in {certificate}; "
                "name the two that belong together, the server's own certificate first in its file"
            ) from error
        raise CredentialsError(
            f"{table}: {certificate} with {key} cannot be used ({_reason(error)}); both must be "
            "PEM files, with the server's own certificate first"
        ) from error
    return _expiry(f"{table}.certificate", certificate, found[:1])


def _load_authorities(context: ssl.SSLContext, key: str, file: str) -> float:
    found = certificates_in(_read(key, file))
    try:
        if found:
            context.load_verify_locations(cafile=file)
    except ssl.SSLError as error:
        raise CredentialsError(
            f"{key}: {file} cannot be used ({_reason(error)}); name a PEM file with the "
            "certificates of the authorities"
        ) from error
    if not found:
        raise CredentialsError(
            f"{key}: {file} holds no certificate; name a PEM file with the certificates of the "
            "authorities"
        )
    return _expiry(key, file, found)


def _load_revoked(context: ssl.SSLContext, key: str, file: str) -> float | None:
    """Return when the first of the file's lists is due to be replaced (Unix seconds), if ever."""
    cure = "name a PEM file, which begins with -----BEGIN X509 CRL-----"
    found = lists_in(_read(key, file))
    if not found:
        raise CredentialsError(f"{key}: {file} holds no list of revoked certificates; {cure}")
    try:
        due = [moment for each in found if (moment := next_update_of(each)) is not None]
        context.load_verify_locations(cafile=file)
    except (ValueError, ssl.SSLError) as error:
        reason = _reason(error) if isinstance(error, ssl.SSLError) else error
        raise CredentialsError(f"{key}: {file} cannot be used ({reason}); {cure}") from error
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return min(due, default=None)


def _expiry(key: str, file: str, certificates: list[str]) -> float:
    try:
        return min(expiry_of(certificate) for certificate in certificates)
    except ValueError as error:
        raise CredentialsError(
            f"{key}: {file} holds a certificate that cannot be read ({error}); make it anew"
        ) from error


def _read(key: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii", errors="backslashreplace")
    except OSError as error:
        raise CredentialsError(
            f"{key}: {file} cannot be read ({error.strerror or error}); "
            "name a file that the service's user may read"
        ) from error


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "no PEM").replace("_", " ").lower()


def _file_state(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return _NOT_THERE
    return found.st_mtime_ns, found.st_size, found.st_ino
