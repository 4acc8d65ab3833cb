"""A shared store over TLS: the server verifies the database's certificate and name, and refuses another.

    scripts/python -m pytest tests/cluster/tls_test.py
"""

import os
import shutil
import socket

import pytest
from authority import Authority
from postgres_cluster import PostgresNode, programs, unprivileged
from server_process import ServerProcess, run
from wire import Http

pytestmark = pytest.mark.skipif(programs() is None or shutil.which("openssl") is None, reason="PostgreSQL or openssl is not installed")
STORAGE_FAILED = 75


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def database(authority, tmp_path_factory):
    """A database that accepts nothing but TLS, as `localhost`."""
    folder = tmp_path_factory.mktemp("database")
    for place in (folder, *folder.parents[:2]):
        place.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        node = PostgresNode("tls", folder, port=free.getsockname()[1], in_memory=False)
    node.initialize()
    _, user, group = unprivileged()
    for file, name in zip(authority.certificate("database", hosts="DNS:localhost"), ("server.crt", "server.key")):
        shutil.copy(file, node.data / name)
        (node.data / name).chmod(0o600)
        os.chown(node.data / name, user, group)
    (node.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
    node.start(ssl="on", synchronous_standby_names="")
    node.wait_until_ready()
    with node.connect() as connection:
        connection.execute("create database ringside")
    yield node
    node.kill()


def url(node, host="localhost", **options):
    words = "&".join(f"{name}={value}" for name, value in options.items())
    return f"postgresql://postgres@{host}:{node.port}/ringside?{words}"


def refusal(tmp_path, model, place):
    """Starts a server that must end at once; returns its exit status and its last lines."""
    server = ServerProcess(model, "--store-url", place, folder=tmp_path)
    return server.wait(), server.tail()


def test_every_connection_is_verified_and_encrypted(database, authority, model, tmp_path):
    place = url(database, sslmode="verify-full", sslrootcert=authority.file)
    with ServerProcess(model, "--store-url", place, folder=tmp_path).wait_until_ready() as server:
        async def talk():
            http = Http(server.port)
            status, answer = await http.call("POST", "/v1/responses", {"model": "tiny", "input": "Hi", "max_output_tokens": 4})
            assert status == 200 and answer["status"] in ("completed", "incomplete"), answer
            http.close()

        run(talk())
        encrypted = database.query("select ssl, version from pg_stat_ssl join pg_stat_activity using (pid) where application_name like 'ringside%'")
        assert len(encrypted) >= 2 and all(ssl and version >= "TLSv1.2" for ssl, version in encrypted), encrypted


def test_another_authority_is_refused(database, model, tmp_path):
    other = Authority(tmp_path)
    status, said = refusal(tmp_path, model, url(database, sslmode="verify-full", sslrootcert=other.file))
    assert status == STORAGE_FAILED and "certificate verify failed" in said, (status, said)


def test_another_name_is_refused(database, authority, model, tmp_path):
    status, said = refusal(tmp_path, model, url(database, host="127.0.0.1", sslmode="verify-full", sslrootcert=authority.file))
    assert status == STORAGE_FAILED and "does not match host name" in said, (status, said)


def test_a_database_that_demands_tls_refuses_plain_connections(database, model, tmp_path):
    status, said = refusal(tmp_path, model, url(database, sslmode="disable"))
    assert status == STORAGE_FAILED and "no encryption" in said, (status, said)
