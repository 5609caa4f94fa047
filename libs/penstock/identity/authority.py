"""The certificate authority of a cell. Makes certificates; reads and writes no files.

Keys are on the curve P-256. A certificate names its process as `penstock://<cell>/<role>[/<container>]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.control.errors import TerminalError
from penstock.identity.roles import Caller, caller_in, uri_of

AUTHORITY_DAYS = 3650.0
CERTIFICATE_DAYS = 90.0
# Clocks of machines differ a little.
_BEFORE = timedelta(minutes=5)


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Issued:
    """What a certificate says. `hosts`: its DNS names and IP addresses. `caller` None: it names no process."""

    caller: Caller | None
    hosts: tuple[str, ...]
    expires_at: datetime
    authority: str


def new_authority(cell: str, now: datetime, *, days: float = AUTHORITY_DAYS) -> Pair:
    """An authority of its own for a cell. `now` has a time zone."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(cell), _name(cell), key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: Pair, caller: Caller, hosts: Iterable[str], now: datetime, *, days: float = CERTIFICATE_DAYS
) -> Pair:
    """A certificate for a process that is reached at `hosts` (DNS names, IP addresses)."""
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signing_key, ec.EllipticCurvePrivateKey):
        raise TerminalError("the key of the authority is not on an elliptic curve")
    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri_of(cell_of(authority.certificate), caller))]
    names += [_host(host) for host in dict.fromkeys(hosts)]
    builder = _builder(_name(str(caller)[:64]), signer.subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    signer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = builder.add_extension(signer_key, critical=False)
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def cell_of(authority: bytes) -> str:
    """The name of the cell of an authority's certificate (of the first in a bundle). Raises TerminalError."""
    try:
        subject = x509.load_pem_x509_certificate(authority).subject
        return str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    except (ValueError, IndexError) as error:
        raise TerminalError(f"the certificate of the authority cannot be read: {error}") from error


def key_of(authority: bytes) -> str:
    """Identifies the key of an authority, as `Issued.authority` does."""
    found = x509.load_pem_x509_certificate(authority)
    return found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest.hex()


def read(certificate: bytes, cell: str) -> Issued:
    """What a certificate (PEM) says. Raises TerminalError when it cannot be read."""
    found = _loaded(certificate)
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound) as error:
        raise TerminalError(f"the certificate cannot be read: {error}") from error
    hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    identifier = found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""
    return Issued(caller_in(uris, cell), tuple(hosts), found.not_valid_after_utc, identifier.hex())


def end_of(certificate: bytes) -> datetime:
    """Until when a certificate (PEM) is good. Raises TerminalError when it cannot be read."""
    return _loaded(certificate).not_valid_after_utc


def is_issued_by(certificate: bytes, authorities: bytes) -> bool:
    """Whether one of the authorities (PEM, any number) has signed it. Raises TerminalError when one cannot be read."""
    return is_issued_by_one_of(_loaded(certificate), certificates_in(authorities))


def is_issued_by_one_of(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> bool:
    """Whether one of the authorities has signed it."""
    return any(_has_signed(each, certificate) for each in authorities)


def certificates_in(authorities: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates of a bundle (PEM). Raises TerminalError when one cannot be read."""
    try:
        return tuple(x509.load_pem_x509_certificates(authorities))
    except ValueError as error:
        raise TerminalError(f"the certificates of the authorities cannot be read: {error}") from error


def fits(certificate: bytes, key: bytes) -> bool:
    """Whether a key is that of a certificate, both PEM. Raises TerminalError when one of them cannot be read."""
    try:
        found = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise TerminalError(f"the key cannot be read: {error}") from error
    return found.public_key() == _loaded(certificate).public_key()


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _loaded(certificate: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise TerminalError(f"the certificate cannot be read: {error}") from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), encoded)
