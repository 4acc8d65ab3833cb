"""The manifests fit the server and each other: options exist, ports agree, a stop has enough time, secrets are files that
the server accepts, and versions are the project's.

    scripts/python -m pytest tests/deploy/settings_test.py
"""

import re
import subprocess
import sys

import pytest
import yaml
from conftest import CHART, CHARTS, DEPLOY, KUBERNETES, OVERLAYS, ROOT, default_of, pod_templates, render_chart, settings_of

NAMES = [f"overlay {name}" for name in OVERLAYS] + [f"chart {name}" for name in CHARTS]
IMAGE_START_PERIOD_S = 15 * 60  # of scripts/packaging/Containerfile
MIB = {"Mi": 1, "Gi": 1024}


def servers(documents):
    """Pods and containers that run the server and answer requests."""
    return [(template["spec"], container) for _, template, container in pod_templates(documents) if container["name"] == "server"]


def environment_of(container):
    return {one["name"]: one.get("value") for one in container.get("env", [])}


@pytest.mark.parametrize("name", NAMES)
def test_options_exist(all_rendered, options, name):
    known = set(options)
    documents = all_rendered[name]
    assert set(settings_of(documents)) <= known
    for _, container in servers(documents):
        variables = {key for key in environment_of(container) if key.startswith("RINGSIDE_")}
        assert variables and {key.removeprefix("RINGSIDE_").lower().replace("_", "-") for key in variables} <= known
        assert {word.removeprefix("--") for word in container["args"] if word.startswith("--")} <= known


def test_options_in_pages_exist(options):
    pages = [*DEPLOY.rglob("*.md"), *(ROOT / "docs/operating" / name for name in ("kubernetes.md", "several-servers.md"))]
    flags, variables = set(), set()
    for page in pages:
        flags |= set(re.findall(r"`--([a-z][a-z-]+)", page.read_text()))
        variables |= {name.lower().replace("_", "-") for name in re.findall(r"`RINGSIDE_([A-Z_]+)", page.read_text())}
    assert len(flags) > 8 and flags <= set(options)
    assert "store-url" in variables and variables <= set(options)


@pytest.mark.parametrize("name", NAMES)
def test_ports_agree(all_rendered, name):
    documents, settings = all_rendered[name], settings_of(all_rendered[name])
    names = set()
    for _, template, container in pod_templates(documents):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        names |= ports.keys()
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            check = container.get(probe, {})
            assert not check or check.get("httpGet", check.get("tcpSocket"))["port"] in ports
        if container["name"] == "server":
            assert ports == {"http": settings["port"], "metrics": settings["metrics-port"]}
            assert settings["host"] == settings["metrics-host"] == "0.0.0.0"
        else:
            assert str(ports["ssh"]) == environment_of(container)["SSH_PORT"]
        labels = template["metadata"]["labels"]
        chosen = [one for one in documents if one["kind"] == "Service" and one["spec"]["selector"].items() <= labels.items()]
        assert len(chosen) == (2 if container["name"] == "server" else 0)
        for service in chosen:
            assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(settings["port"], "http")]
    used = [port for one in documents if one["kind"] == "NetworkPolicy" for way in ("ingress", "egress") for rule in one["spec"].get(way, [])
            for port in rule["ports"]]
    assert {port["port"] for port in used if isinstance(port["port"], str)} <= names
    for one in documents:
        if one["kind"] == "PodMonitor":
            assert {endpoint["port"] for endpoint in one["spec"]["podMetricsEndpoints"]} <= names


def test_ranks_use_the_allowed_ports(overlays):
    [policy] = [one for one in overlays["ranks"] if one["metadata"]["name"] == "ringside-ranks" and one["kind"] == "NetworkPolicy"]
    [pods] = [one for one in overlays["ranks"] if one["kind"] == "LeaderWorkerSet"]
    for rules, peer in ((policy["spec"]["ingress"], "from"), (policy["spec"]["egress"], "to")):
        [rule] = rules
        assert rule[peer] == [{"podSelector": {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": pods["metadata"]["name"]}}}]
        [span] = [port for port in rule["ports"] if "endPort" in port]
    script = (KUBERNETES / "overlays/ranks/leader.sh").read_text()
    least, count = map(int, re.search(r"port_min_v4 (\d+) .*port_range_v4 (\d+)", script).groups())
    first, last = map(int, re.search(r"dynamic_ipv4_ports (\d+)-(\d+)", script).groups())
    assert (span["port"], span["endPort"]) == (least, last) and first == least + count
    group = pods["spec"]["leaderWorkerTemplate"]
    [leader] = group["leaderTemplate"]["spec"]["containers"]
    assert leader["args"][-2:] == ["--tensor-parallel-size", str(group["size"])]
    used = set(re.findall(r"\$\{?([A-Z_]+)\b", script)) - {"HOSTNAME", "LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE"}
    assert used <= environment_of(leader).keys()


@pytest.mark.parametrize("name", NAMES)
def test_stops_have_enough_time(all_rendered, options, name):
    settings = settings_of(all_rendered[name])
    stop = settings["shutdown-timeout"] + settings.get("shutdown-grace", int(default_of(options["shutdown-grace"])))
    for pod, container in servers(all_rendered[name]):
        program, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
        assert program == "sleep" and int(seconds) >= 5
        assert pod["terminationGracePeriodSeconds"] > int(seconds) + stop + 2  # a stop that hangs ends two seconds later


def test_chart_gives_a_longer_stop_more_time():
    for pod, _ in servers(render_chart("settings.shutdown-timeout=200", "settings.shutdown-grace=9", "preStopSeconds=30")):
        assert pod["terminationGracePeriodSeconds"] > 200 + 9 + 30 + 2


@pytest.mark.parametrize("name", NAMES)
def test_probes_fit_the_health_checks(all_rendered, name):
    source = (ROOT / "ws/health.cpp").read_text()
    for _, container in servers(all_rendered[name]):
        start, ready, live = (container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness"))
        assert start["httpGet"]["path"] == ready["httpGet"]["path"] == "/readyz" and live["httpGet"]["path"] == "/livez"
        assert '"/readyz"' in source and '"/livez"' in source
        assert start["periodSeconds"] * start["failureThreshold"] >= IMAGE_START_PERIOD_S
        assert all(probe["timeoutSeconds"] > 1 for probe in (start, ready, live)), "a starting server delays its 503 by a second"
        assert live["periodSeconds"] * live["failureThreshold"] >= 60


def test_image_gives_as_much_time_to_start():
    assert f"--start-period={IMAGE_START_PERIOD_S // 60}m" in (ROOT / "scripts/packaging/Containerfile").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_pods_have_no_privileges(all_rendered, name):
    user = int(re.search(r"--uid (\d+)", (ROOT / "scripts/packaging/Containerfile").read_text())[1])
    pods = list(pod_templates(all_rendered[name]))
    assert pods
    for _, template, container in pods:
        pod = template["spec"]
        assert pod["enableServiceLinks"] is False and pod["automountServiceAccountToken"] is False
        group = pod["securityContext"]
        assert group["runAsNonRoot"] is True and group["runAsUser"] == group["runAsGroup"] == group["fsGroup"] == user
        assert group["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert container["resources"]["limits"] == container["resources"]["requests"]
        if container["name"] == "server" and "RINGSIDE_DEVICE" in environment_of(container):
            assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


@pytest.mark.parametrize("name", NAMES)
def test_files_are_where_the_settings_name_them(all_rendered, options, name):
    settings, [(pod, container)] = settings_of(all_rendered[name]), servers(all_rendered[name])
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    secrets = environment_of(container)["CREDENTIALS_DIRECTORY"]
    assert volumes[mounts[secrets]["name"]]["secret"]["defaultMode"] == 0o400 and mounts[secrets]["readOnly"]
    for key in ("keys-file", "export-key-file"):
        assert settings[key].rpartition("/")[0] == secrets, "the server accepts mode 0440 directly in this folder only"
    assert settings["model"].startswith("/models/") and mounts["/models"]["readOnly"]
    _, file = container["args"][:2]
    assert mounts[file.rpartition("/")[0]]["name"] == "settings"
    folder, _, below = environment_of(container)["RINGSIDE_STORE_PATH"].rpartition("/")
    assert below and not mounts[folder].get("readOnly") and "/tmp" in mounts
    if store := volumes.get(mounts[folder]["name"]):
        size = re.fullmatch(r"(\d+)(Mi|Gi)", store["emptyDir"]["sizeLimit"])
        assert int(size[1]) * MIB[size[2]] > int(default_of(options["disk-cache-mb"])), "a full emptyDir evicts the pod"


@pytest.mark.parametrize("name", NAMES)
def test_every_service_name_is_an_allowed_host(all_rendered, name):
    allowed = settings_of(all_rendered[name])["allowed-hosts"]
    [service] = [one["metadata"]["name"] for one in all_rendered[name] if one["kind"] == "Service" and one["spec"].get("clusterIP") != "None"]
    assert {service + end for end in ("", ".ringside", ".ringside.svc", ".ringside.svc.cluster.local")} <= set(allowed)


def test_shared_store_is_given_by_a_secret(all_rendered):
    for name, documents in all_rendered.items():
        for _, container in servers(documents):
            given = {one["name"]: one for one in container["env"]}
            assert ("RINGSIDE_STORE_URL" in given) == ("single" not in name)
            if "single" not in name:
                assert given["RINGSIDE_STORE_URL"]["valueFrom"] == {"secretKeyRef": {"name": "ringside-store", "key": "url"}}
                assert given["RINGSIDE_SERVER_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}, "unique"


def test_autoscaler_decides_the_number_of_replicas(all_rendered):
    for name in ("overlay production", "chart production"):
        [scaler] = [one for one in all_rendered[name] if one["kind"] == "HorizontalPodAutoscaler"]
        [target] = [one for one in all_rendered[name] if one["kind"] == scaler["spec"]["scaleTargetRef"]["kind"]]
        assert "replicas" not in target["spec"] and scaler["spec"]["scaleTargetRef"]["name"] == target["metadata"]["name"]


def test_versions_are_the_projects(all_rendered):
    version = re.search(r"project\(\w+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    for name, documents in all_rendered.items():
        for _, _, container in pod_templates(documents):
            assert container["image"].endswith(f":{version}"), name


def test_rules_are_those_of_monitoring(all_rendered):
    source = yaml.safe_load((ROOT / "scripts/monitoring/ringside.rules.yml").read_text())
    for name in ("overlay production", "chart production"):
        [rule] = [one for one in all_rendered[name] if one["kind"] == "PrometheusRule"]
        assert rule["spec"] == source
    written = subprocess.run([sys.executable, ROOT / "scripts/monitoring/prometheus_rule.py"], capture_output=True, text=True, check=True).stdout
    assert written == (KUBERNETES / "components/monitoring/prometheus-rule.yaml").read_text(), "run scripts/monitoring/prometheus_rule.py again"
    [monitor] = [one for one in all_rendered["overlay production"] if one["kind"] == "PodMonitor"]
    jobs = set(re.findall(r'job="(\w+)"', str(source)))
    assert jobs == {one["replacement"] for one in monitor["spec"]["podMetricsEndpoints"][0]["relabelings"] if one["targetLabel"] == "job"}
