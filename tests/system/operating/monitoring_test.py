"""Monitoring against a real server: rules and dashboard query existing metrics, and every alert links to a page.

    scripts/python -m pytest tests/system/operating/monitoring_test.py
"""

import json
import re
import socket
import subprocess
import sys

import pytest
import yaml
from conversation import Conversation
from server_process import PATIENCE_S, ROOT, ServerProcess, run

FOLDER = ROOT / "scripts/monitoring"
RULES = FOLDER / "ringside.rules.yml"
DASHBOARD = FOLDER / "ringside.dashboard.json"
# Names in PromQL that are not metrics: functions, operators, labels after by (...).
SERIES = re.compile(r"\b(ringside:[\w:]+|ringside_\w+|process_\w+)(?:\{([^}]*)\})?")
# Labels with a small value set that the server or its operator chooses.
LABELS = {"le", "cause", "source", "tier", "to", "from", "reason", "code", "status", "finished_reason", "version", "model_name", "state", "model"}


def promtool(*args, text=None):
    """Runs promtool, which must succeed; returns its output."""
    tool = subprocess.run([ROOT / "scripts/extract", "promtool"], capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run([tool, *map(str, args)], input=text, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard_queries():
    return [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", [])]


@pytest.fixture(scope="module")
def scrape(model, tmp_path_factory):
    """The metrics of a server after two turns of one conversation."""
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(model, "--threads", 1, "--store-path", folder / "store", "--backup-path", folder / "backups", folder=folder) as server:
        server.wait_until_ready()

        async def ask():
            async with Conversation(server.port) as talk:
                for _ in range(2):
                    await talk.ask("Hello.", max_output_tokens=3, ignore_eos=True)

        run(ask())
        yield server.get("/metrics")[1]


@pytest.fixture(scope="module")
def models_scrape(model, tmp_path_factory):
    """The metrics of a server of several models after a turn."""
    folder = tmp_path_factory.mktemp("models server")
    (folder / "models").mkdir()
    (folder / "models" / "alpha.gguf").symlink_to(model)
    with ServerProcess(None, "--models-dir", folder / "models", "--threads", 1, folder=folder) as server:
        server.wait_until_ready()

        async def ask():
            async with Conversation(server.port) as talk:
                await talk.ask("Hello.", max_output_tokens=3, ignore_eos=True)

        run(ask())
        yield server.get("/metrics")[1]


@pytest.fixture(scope="module")
def series(scrape, models_scrape):
    """(name, {label: value}) of all exposed series."""
    rows = (line.rsplit(" ", 1)[0] for line in (scrape + models_scrape).splitlines() if line and not line.startswith("#"))
    return [(row.split("{")[0], dict(re.findall(r'(\w+)="([^"]*)"', row))) for row in rows]


def test_rules_are_valid_and_fire_correctly():
    promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("test", "rules", FOLDER / "ringside.rules.test.yml")


def test_every_alert_is_tested():
    tested = (FOLDER / "ringside.rules.test.yml").read_text()
    for rule in rules():
        if "alert" in rule:
            assert rule["alert"] in tested, rule["alert"]


def test_dashboard_matches_its_script():
    written = subprocess.run([sys.executable, FOLDER / "dashboard.py"], capture_output=True, text=True, check=True).stdout
    assert written == DASHBOARD.read_text(), "run scripts/monitoring/dashboard.py again"


def test_metrics_follow_prometheus_conventions(scrape, models_scrape):
    for text in (scrape, models_scrape):
        assert promtool("check", "metrics", text=text) == ""


def test_labels_have_no_client_chosen_values(series):
    labels = {label for _, labels in series for label in labels}
    assert len(labels) > 8 and labels <= LABELS


def test_queried_metrics_are_exposed(series):
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    exposed = {name for name, _ in series}
    asked = 0
    for query in [rule["expr"] for rule in rules()] + dashboard_queries():
        for name, selector in SERIES.findall(query):
            asked += 1
            assert name in (recorded if ":" in name else exposed), f"{name} in {query}"
            wanted = {label: value for label, value in re.findall(r'(\w+)="([^"]*)"', selector) if label not in ("job", "instance")}
            assert ":" in name or any(name == have and wanted.items() <= labels.items() for have, labels in series), f"{name}{wanted} in {query}"
    assert asked > 60
    # Every label of a by (...) clause exists in the series.
    for query in dashboard_queries():
        for names in re.findall(r"by \(([^)]*)\)", query):
            for label in set(names.replace(" ", "").split(",")) - {"instance"}:
                found = SERIES.search(query).group(1)
                assert any(have == found and label in labels for have, labels in series), f"{label} in {query}"


def test_turn_is_measured_under_the_vllm_names(series, scrape):
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
                 "request_prefill_time_seconds", "request_decode_time_seconds", "request_time_per_output_token_seconds", "request_prompt_tokens",
                 "request_generation_tokens"):
        assert f"\nringside_{name}_count 2\n" in scrape or name == "inter_token_latency_seconds", name
    sources = {labels["source"] for name, labels in series if name == "ringside_session_restore_seconds_count"}
    assert sources == {"slot", "host", "disk", "recomputed"}
    assert '\nringside_session_restore_seconds_count{source="slot"} 1\n' in scrape  # the second turn
    assert "\nringside_ready 1\n" in scrape


def test_models_are_measured_by_name(models_scrape):
    for name, value in (("loaded", "1"), ("loads_total", "1"), ("unloads_total", "0"), ("load_failures_total", "0"), ("requests_waiting", "0")):
        assert f'\nringside_model_{name}{{model="alpha"}} {value}\n' in models_scrape, name


def test_every_alert_links_to_an_existing_section():
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs/operating/runbook.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    alerts = [rule for rule in rules() if "alert" in rule]
    assert alerts
    for alert in alerts:
        assert re.fullmatch(r"docs/operating/runbook\.md#(.+)", alert["annotations"]["runbook"]).group(1) in anchors, alert["alert"]


@pytest.mark.parametrize("version, hosts", [("1.0", [None, "node-7", "10.9.8.7:8080"]), ("1.1", ["node-7", "ringside.default.svc:8080", "10.9.8.7", ""])])
def test_health_check_accepts_any_host(start, version, hosts):
    server = start()
    for path in ("/livez", "/readyz", "/healthz", "/health", "/v2/health/live", "/v2/health/ready"):
        for host in hosts:
            lines = [f"GET {path} HTTP/{version}", *([] if host is None else [f"Host: {host}"]), "Connection: close", "", ""]
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as one:
                one.sendall("\r\n".join(lines).encode())
                assert one.makefile("rb").readline().split()[1] == b"200", (path, version, host)
    server.stop()
