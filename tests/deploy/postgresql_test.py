"""The database's files against a real PostgreSQL: roles have the rights that they need and no others, the settings and the
access rules are accepted, and commits wait for a standby.

    scripts/python -m pytest tests/deploy/postgresql_test.py
"""

import concurrent.futures
import json
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import DEPLOY
from server_process import wait_for

FOLDER = DEPLOY / "postgresql"
PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), default=None, key=lambda path: int(path.parts[-3]))
needs_postgresql = pytest.mark.skipif(PROGRAMS is None, reason="postgresql is not installed")


def primary_settings():
    return dict(re.findall(r"(?m)^(\w+) = '?([^'\n]*)'?$", (FOLDER / "primary.conf").read_text()))


class Database:
    """A cluster in a temporary folder, on a Unix socket only; root runs it as the user postgres."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data"
        self.as_user = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
            for above in folder.parents:  # pytest's folders are private
                if above.is_relative_to("/tmp") and above != Path("/tmp"):
                    above.chmod(above.stat().st_mode | 0o055)
            self.as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "--no-sync")

    def run(self, program, *arguments, check=True):
        done = subprocess.run([*self.as_user, PROGRAMS.parent / program, *arguments], capture_output=True, text=True, cwd="/", timeout=120)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done

    def start(self):
        flags = f"-c listen_addresses='' -k {self.folder} -c fsync=off"
        self.run("pg_ctl", "-D", self.data, "-o", flags, "-l", self.folder / "log", "-w", "start")

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False)

    def sql(self, text, user="postgres", database="ringside"):
        """Returns psql's output, or its error."""
        done = self.run("psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U", user, "-d", database, "-c", text, check=False)
        return (done.stdout + done.stderr).strip()


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    started = Database(tmp_path_factory.mktemp("pg"))
    try:
        started.start()
        for _ in range(2):  # running it again changes nothing
            shutil.copy(FOLDER / "roles.sql", started.folder / "roles.sql")
            (started.folder / "roles.sql").chmod(0o644)
            started.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", started.folder, "-U", "postgres", "-f", started.folder / "roles.sql")
        yield started
    finally:
        started.stop()


@needs_postgresql
def test_servers_role_reads_and_writes_rows_only(database):
    assert database.sql("create table record (seq bigserial primary key, payload text)", "ringside_owner") == ""
    write = "insert into record (payload) values ('a'); update record set payload = 'b'; delete from record where seq = 0; select payload from record"
    assert database.sql(write, "ringside_app") == "b"
    assert database.sql("listen released; notify released", "ringside_app").startswith("Asynchronous notification")
    for forbidden in ("drop table record", "truncate record", "alter table record add column x int", "create table other (x int)", "create schema other",
                      "create role other", "create temporary table other (x int)"):
        assert re.search("permission denied|must be owner", database.sql(forbidden, "ringside_app")), forbidden


@needs_postgresql
def test_others_cannot_connect(database):
    database.sql("create role stranger login")
    assert "permission denied" in database.sql("select 1", "stranger")
    assert "permission denied" not in database.sql("alter table record add column more int", "ringside_owner")


@needs_postgresql
def test_commits_of_the_servers_wait_for_a_standby(database):
    """There is none here, so that a commit waits for ever, although the cluster's default is not to."""
    database.sql("alter system set synchronous_commit = 'off'")
    database.sql(f"alter system set synchronous_standby_names = '{primary_settings()['synchronous_standby_names']}'")
    database.sql("select pg_reload_conf()")
    database.sql("create table turn (id int); grant insert on turn to ringside_app")
    waiting = "select pid from pg_stat_activity where wait_event = 'SyncRep' and usename = 'ringside_app'"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        # Until the settings are in force a commit returns at once, and without output.
        inserted = pool.submit(lambda: next(filter(None, iter(lambda: database.sql("insert into turn values (1)", "ringside_app"), None))))
        pid = wait_for(lambda: database.sql(waiting), "the commit to wait")
        assert database.sql(f"select pg_cancel_backend({pid})") == "t"
        assert "canceling wait for synchronous replication" in inserted.result(), "its outcome is unknown to the server"
    database.sql("alter system reset all")
    database.sql("select pg_reload_conf()")


@needs_postgresql
def test_settings_are_accepted(database):
    settings = primary_settings()
    assert settings["synchronous_standby_names"] == "ANY 1 (b, c)" and settings["synchronous_commit"] == "on"
    shown = database.run("postgres", "-D", database.data, *[word for name, value in settings.items() for word in ("-c", f"{name}={value}")], "-C",
                         "synchronous_standby_names", check=False)
    assert shown.stdout.strip() == "ANY 1 (b, c)" and not re.search("FATAL|ERROR|WARNING", shown.stderr), shown.stderr


@needs_postgresql
def test_access_rules_are_accepted(database):
    rules = database.data / "pg_hba.conf"
    before = rules.read_text()
    try:
        rules.write_text((FOLDER / "pg_hba.conf").read_text())
        told = database.sql("select type, error from pg_hba_file_rules").splitlines()
        assert set(told) == {"local|", "hostssl|hostssl record cannot match because SSL is disabled"}, "this cluster has no certificate"
        assert len(told) == len(re.findall(r"(?m)^(?:local|hostssl) ", rules.read_text()))
    finally:
        rules.write_text(before)


def test_patroni_agrees_with_the_other_files():
    patroni = yaml.safe_load((FOLDER / "patroni.yml").read_text())
    dynamic, local = patroni["bootstrap"]["dcs"], patroni["postgresql"]
    assert dynamic["synchronous_mode"] is dynamic["synchronous_mode_strict"] is True and dynamic["synchronous_node_count"] == 1
    assert dynamic["loop_wait"] + 2 * dynamic["retry_timeout"] <= dynamic["ttl"], "Patroni's own condition"
    parameters = dynamic["postgresql"]["parameters"] | local["parameters"]
    assert "synchronous_standby_names" not in parameters, "Patroni writes it"
    settings = primary_settings()
    for name in set(settings) & set(parameters):
        assert str(parameters[name]) == settings[name], name
    assert len(set(settings) & set(parameters)) > 8
    rules = [line.split() for line in (FOLDER / "pg_hba.conf").read_text().splitlines() if line and not line.startswith("#")]
    assert [rule.split() for rule in local["pg_hba"]] == rules
    assert patroni["watchdog"]["mode"] == "required" and '"password":' not in json.dumps(patroni)
