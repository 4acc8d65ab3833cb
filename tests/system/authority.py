"""Certificates for tests of TLS."""

import ssl
import subprocess


class Authority:
    """A private certificate authority, and certificates from it."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "ca.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
                     "-subj", "/CN=Test Authority", "-addext", "basicConstraints=critical,CA:TRUE")

    def openssl(self, *args):
        subprocess.run(["openssl", *args], cwd=self.folder, check=True, capture_output=True)

    def certificate(self, name, hosts="DNS:localhost,IP:127.0.0.1"):
        """Creates a certificate and key for these hosts in files of this name."""
        (self.folder / "ext").write_text("subjectAltName=" + hosts)
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "1", "-extfile", "ext")
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def context(self):
        return ssl.create_default_context(cafile=self.file)
