"""The console's certificate, if it has one: without it, whoever is on the way reads the tokens that readers show."""

from __future__ import annotations

import ssl
from pathlib import Path


class BadCertificate(ValueError):
    """The files cannot be used. The message names them and says what to give."""


def serving_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """None without files. Raises BadCertificate."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadCertificate("--metrics-cert-file and --metrics-key-file go together; give both")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise BadCertificate(
            f"the TLS files of the metrics ({certificate}, {key}) cannot be used: {error}"
        ) from error
    return context
