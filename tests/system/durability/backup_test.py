"""Backups made while turns run: a server on one has everything that was acknowledged before the backup was requested.

    scripts/python -m pytest tests/system/durability/backup_test.py
"""

import asyncio
import os
import shutil
import subprocess

import pytest
from conversation import Conversation
from server_process import PATIENCE_S, ROOT, run, server_path
from wire import Http

TALKS = 4


def ringside():
    return os.environ.get("RINGSIDE_CLIENT") or str(ROOT / "build/cpu/bin/ringside")


def backup(server, *flags):
    return subprocess.run([ringside(), "backup", "--url", f"http://127.0.0.1:{server.port}", *flags], capture_output=True, text=True, timeout=PATIENCE_S)


async def talk_on(server, acknowledged, stop):
    """Runs turns of one conversation and records each one after its terminal event."""
    async with Conversation(server.port) as talk:
        acknowledged[talk.id] = []
        while not stop.is_set():
            response = await talk.ask(f"Turn {len(acknowledged[talk.id])}.", max_output_tokens=5, ignore_eos=True)
            acknowledged[talk.id].append((response["id"], "".join(part["text"] for item in response["output"] for part in item["content"])))


async def under_load(server, backups):
    """Makes `backups` backups under load; returns each one's name and the turns acknowledged before it."""
    acknowledged, stop, made = {}, asyncio.Event(), []
    talks = [asyncio.create_task(talk_on(server, acknowledged, stop)) for _ in range(TALKS)]
    for i in range(backups):
        while len(acknowledged) < TALKS or any(len(turns) <= 2 * i for turns in acknowledged.values()):
            await asyncio.sleep(0.01)
        before = {id: list(turns) for id, turns in acknowledged.items()}
        done = await asyncio.to_thread(backup, server)
        assert done.returncode == 0, done.stderr
        made.append((done.stdout.strip(), before))
    stop.set()
    await asyncio.gather(*talks)
    return made


async def check(server, before):
    """Checks that the backup has all turns of `before`, and that each conversation continues."""
    http = Http(server.port)
    for id, turns in before.items():
        items = await http.items(id)
        assert [text for role, text in items if role == "assistant"][:len(turns)] == [text for _, text in turns]
        assert [text for role, text in items if role == "user"][:len(turns)] == [f"Turn {i}." for i in range(len(turns))]
        for response, _ in turns:
            assert (await http.call("GET", f"/v1/responses/{response}"))[0] == 200
        async with Conversation(server.port, id) as talk:
            await talk.ask("On it goes.", max_output_tokens=3, ignore_eos=True)
    http.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_backup_under_load_restores_acknowledged_data(start, store, tmp_path, encrypted):
    flags = []
    if encrypted:
        key = tmp_path / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o400)
        flags = ["--encryption-key-file", key]
    server = start("--store-path", store, "--backup-path", tmp_path / "backups", *flags)
    made = run(under_load(server, 3))
    assert server.metrics()["ringside_backup_last_success_timestamp_seconds"] > 0
    export_key = (store / "export.key").read_bytes()
    server.kill()
    shutil.rmtree(store)  # files that a backup shares with the store survive
    names = [name for name, _ in made]
    assert sorted(names) == names == sorted(os.listdir(tmp_path / "backups")) and len(set(names)) == 3
    for name, before in made:
        folder = tmp_path / "backups" / name
        assert {path.stat().st_mode & 0o077 for path in [folder, *folder.rglob("*")]} == {0}, "for the server's own eyes"
        assert (folder / "export.key").read_bytes() == export_key
        with start("--store-path", folder, "--verify", *flags) as restored:
            run(check(restored, before))
            assert restored.metrics()["ringside_journal_damaged_sessions"] == 0
            restored.stop()


def test_backup_requires_admin_and_a_valid_folder(start, store, tmp_path):
    keys = tmp_path / "keys.json"
    add = lambda scopes: subprocess.run([server_path(), "keys", "add", "--file", keys, "--owner", "o", "--scopes", scopes],
                                        capture_output=True, text=True, check=True).stdout.strip()
    chat, admin = add("chat,metrics"), add("admin")
    backups = tmp_path / "backups"
    server = start("--store-path", store, "--backup-path", backups, "--keys-file", keys)
    for key in (None, chat):
        refused = backup(server, *(["--api-key", key] if key else []))
        assert refused.returncode == 1 and os.listdir(backups) == [], refused
    assert "nothing at" in backup(server, "--api-key", chat).stderr  # same error as for an unknown route
    (backups / ".being-made").mkdir()  # left by a server that died
    (backups / ".being-made" / "log").mkdir()
    done = backup(server, "--api-key", admin)
    assert done.returncode == 0 and os.listdir(backups) == [done.stdout.strip()], done.stderr
    for i in range(63):
        (backups / f"backup-{i}").mkdir()
    full = backup(server, "--api-key", admin)
    assert full.returncode == 1 and "64 backups" in full.stderr
    server.stop()


def test_backup_requires_a_folder(start, store, tmp_path):
    server = start("--store-path", store)
    refused = backup(server)
    assert refused.returncode == 1 and "--backup-path" in refused.stderr
    server.stop()
    for flags in (["--backup-path", tmp_path / "b"], ["--store-path", store, "--backup-path", tmp_path / "server.log"]):
        server = start(*flags, ready=False)
        assert server.wait() == 78 and "--backup-path" in server.tail()


def test_the_newest_backup_is_known_after_a_restart(start, store, tmp_path):
    flags = ["--store-path", store, "--backup-path", tmp_path / "backups"]
    server = start(*flags)
    name = "ringside_backup_last_success_timestamp_seconds"
    assert server.metrics()[name] == 0
    assert backup(server).returncode == 0
    made_at = server.metrics()[name]
    server.stop()
    server = start(*flags)
    assert abs(server.metrics()[name] - made_at) < 60
    server.stop()
