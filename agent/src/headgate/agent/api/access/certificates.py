"""Client certificates: whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.agent.configuration import CertificateGrant
from headgate.agent.roles import Caller


def caller_by(certificate: Mapping[str, Any], grants: Iterable[CertificateGrant]) -> Caller | None:
    """Return whose a certificate is; None where no grant fits.

    Args:
        certificate: a verified one, as ``ssl.SSLSocket.getpeercert`` returns it.
        grants: the first one that fits counts.
    """
    names = {pair for part in certificate.get("subject", ()) for pair in part}
    # Names of hosts have no case.
    names |= {
        (kind, name.lower() if kind == "DNS" else name)
        for kind, name in certificate.get("subjectAltName", ())
    }
    for grant in grants:
        if any(pattern in names for pattern in grant.patterns):
            return Caller(grant.name, grant.role)
    return None
