"""Client certificates: whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from headgate.agent.api.access.roles import Caller, Role


class CertificateGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose a client's certificate is; exactly one of the last three says which ones are meant."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{1,100}$")]
    role: Role
    common_name: str = ""
    dns: str = ""
    uri: str = ""

    @property
    def patterns(self) -> tuple[tuple[str, str], ...]:
        """What is said of the certificate, each with its kind."""
        named = (("commonName", self.common_name), ("DNS", self.dns), ("URI", self.uri))
        return tuple((kind, value) for kind, value in named if value)


def caller_by(certificate: Mapping[str, Any], grants: Iterable[CertificateGrant]) -> Caller | None:
    """Return whose a certificate is; None where no grant fits.

    Args:
        certificate: a verified one, as ``ssl.SSLSocket.getpeercert`` returns it.
        grants: the first one that fits counts.
    """
    names = {pair for part in certificate.get("subject", ()) for pair in part}
    names |= set(certificate.get("subjectAltName", ()))
    for grant in grants:
        if any(pattern in names for pattern in grant.patterns):
            return Caller(grant.name, grant.role)
    return None
