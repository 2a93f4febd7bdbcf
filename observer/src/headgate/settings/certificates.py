"""How long certificates and lists of revoked ones are valid, read from their DER (RFC 5280)."""

from __future__ import annotations

import ssl
from base64 import b64decode
from datetime import UTC, datetime
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_BEGIN_LIST: Final = "-----BEGIN X509 CRL-----"
_END_LIST: Final = "-----END X509 CRL-----"
_INTEGER: Final = 0x02
_SEQUENCE: Final = 0x30
_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_LONG_LENGTH: Final = 0x80
_TURN_OF_CENTURY: Final = "50"  # RFC 5280, section 4.1.2.5.1: two digits from here on are 19xx


def certificates_in(pem: str) -> list[str]:
    """Return the PEM blocks of the certificates in a text, in their order."""
    return [_BEGIN + part.partition(_END)[0] + _END for part in pem.split(_BEGIN)[1:]]


def expiry_of(certificate: str) -> float:
    """Return when a certificate in PEM ends to be valid, as Unix time in seconds.

    Raises:
        ValueError: the block is no certificate.
    """
    try:
        return _not_after(ssl.PEM_cert_to_DER_cert(certificate))
    except IndexError as error:
        raise ValueError("it is cut short") from error


def _not_after(der: bytes) -> float:
    _, at, _ = _element(der, 0, _SEQUENCE)
    _, at, _ = _element(der, at, _SEQUENCE)
    if der[at] == _VERSION:
        at = _element(der, at)[2]
    for _ in range(3):  # serial number, algorithm of the signature, issuer
        at = _element(der, at)[2]
    _, at, _ = _element(der, at, _SEQUENCE)
    _, _, at = _element(der, at)
    return _time(der, at)


def lists_in(pem: str) -> list[str]:
    """Return the contents of the PEM blocks of the lists of revoked certificates in a text."""
    return [part.partition(_END_LIST)[0] for part in pem.split(_BEGIN_LIST)[1:]]


def next_update_of(revoked: str) -> float | None:
    """Return when the next list is due, as Unix time in seconds; None where it does not say.

    A list that is older than that is no good (RFC 5280, section 5.1.2.5).

    Args:
        revoked: content of the PEM block of a list of revoked certificates.

    Raises:
        ValueError: the block is no such list.
    """
    try:
        der = b64decode(revoked)
        _, at, _ = _element(der, 0, _SEQUENCE)
        _, at, end = _element(der, at, _SEQUENCE)
        if der[at] == _INTEGER:
            at = _element(der, at)[2]
        for _ in range(3):  # algorithm of the signature, issuer, when it was made
            at = _element(der, at)[2]
        return _time(der, at) if at < end and der[at] in (_UTC_TIME, _GENERALIZED_TIME) else None
    except IndexError as error:
        raise ValueError("it is cut short") from error


def _time(der: bytes, at: int) -> float:
    kind, start, end = _element(der, at)
    text = der[start:end].decode("ascii")
    if kind == _UTC_TIME:
        text = ("19" if text[:2] >= _TURN_OF_CENTURY else "20") + text
    elif kind != _GENERALIZED_TIME:
        raise ValueError(f"the end of the validity has the unknown type {kind:#x}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int, wanted: int | None = None) -> tuple[int, int, int]:
    """Return type, start and end of the content of the element at a position."""
    kind, length, start = der[at], der[at + 1], at + 2
    if wanted is not None and kind != wanted:
        raise ValueError(f"it has type {kind:#x} where {wanted:#x} belongs")
    if length >= _LONG_LENGTH:
        width = length - _LONG_LENGTH
        length = int.from_bytes(der[start : start + width], "big")
        start += width
    if start + length > len(der):
        raise ValueError("it is cut short")
    return kind, start, start + length
