"""A process vouches for the address of the browser for which it calls: signed with the key of its certificate. Pure.

`Penstock-Browser: <address> <seconds since 1970> <certificate> <signature>` (DER and ECDSA with SHA-256, both base64).
The signature covers method, target and the user's token too, so it is good for one user's call, for a minute. It needs
no TLS between the two, so a proxy may stand there.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha256
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from penstock.control.errors import Unauthenticated
from penstock.identity.statements import AHEAD_SECONDS, GOOD_SECONDS

HEADER = "Penstock-Browser"
_VERSION = "penstock-browser-1"
_LONGEST = 8192
_HASH = ec.ECDSA(hashes.SHA256())


class Call(NamedTuple):
    """The call for which an address is told. `target`: path and query as they are sent; `authorization`: the header."""

    method: str
    target: str
    authorization: str


def vouch(certificate: bytes, key: bytes, address: str, call: Call, now: float) -> str:
    """What the header says. `certificate`, `key`: PEM; `now`: seconds since 1970. Raises ValueError for another key."""
    signing = load_pem_private_key(key, None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of a process is of an elliptic curve")
    said = f"{address} {now:.3f}"
    shown = x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)
    return f"{said} {_text(shown)} {_text(signing.sign(_message(said, call), _HASH))}"


def vouched(text: str, call: Call, now: float, is_known: Callable[[x509.Certificate], bool]) -> str:
    """The address that a header tells, if `is_known` knows its certificate. Raises Unauthenticated."""
    parts = text.split(" ") if len(text) <= _LONGEST and text.isascii() else []
    try:
        address, at, shown, signature = parts
        certificate = x509.load_der_x509_certificate(b64decode(shown, validate=True))
        key, signed = certificate.public_key(), b64decode(signature, validate=True)
        is_now = -AHEAD_SECONDS <= now - float(at) <= GOOD_SECONDS
        told = str(ip_address(address))
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise _refused("is malformed") from error
    if not is_now:
        raise _refused(f"is not of the last {GOOD_SECONDS:g} s")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not is_known(certificate):
        raise _refused("is of nobody who may tell it")
    try:
        key.verify(signed, _message(f"{address} {at}", call), _HASH)
    except InvalidSignature as error:
        raise _refused("is not signed for this call") from error
    return told


def _message(said: str, call: Call) -> bytes:
    user = sha256(call.authorization.encode()).hexdigest()
    return "\n".join((_VERSION, said, call.method, call.target, user)).encode()


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the address of the browser {why}", field=HEADER, rule="signed")
