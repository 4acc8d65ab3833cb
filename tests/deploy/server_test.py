"""The real server with the settings of the manifests: it starts as a pod would start it, answers the probes and the names
of the Services, reads secrets as Kubernetes mounts them, and has the metrics that scale it.

    scripts/python -m pytest tests/deploy/server_test.py
"""

import os
import re
import subprocess
import urllib.error
import urllib.request

import pytest
import tiny_model
import yaml
from conftest import BUILD, KUBERNETES, pod_templates, settings_of
from server_process import PATIENCE_S, ServerProcess, wait_for

ADAPTER = KUBERNETES / "components/autoscaling/prometheus-adapter.yaml"


def publish(folder, version, files):
    """Writes a Secret's files as the kubelet does: mode 0440, in a folder that a symbolic link replaces at once."""
    (folder / version).mkdir()
    for name, text in files.items():
        (folder / version / name).write_text(text)
        (folder / version / name).chmod(0o440)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..new").symlink_to(version)
    (folder / "..new").rename(folder / "..data")


def make_key(folder, owner):
    """Returns a key, and the keys file that has it alone."""
    file = folder / f"{owner}.json"
    key = subprocess.run([BUILD / "bin/ringside-server", "keys", "add", "--file", file, "--owner", owner, "--scopes", "chat,metrics"], capture_output=True, text=True, check=True)
    return key.stdout.strip(), file.read_text()


class Pod:
    """The server of an overlay as its pod starts it: with its settings, variables and arguments, but with the folders of
    its volumes below `folder`, and free ports."""

    def __init__(self, overlay, folder):
        [container] = [container for _, _, container in pod_templates(overlay) if container["name"] == "server"]
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        self.key, keys = make_key(folder, "alice")
        publish(self.secrets, "..1", {"keys.json": keys, "export.key": os.urandom(32).hex()})
        self.folders = {mount["mountPath"]: folder / mount["name"] for mount in container["volumeMounts"]}
        for place in self.folders.values():
            place.mkdir(exist_ok=True)
        settings = {key: value for key, value in settings_of(overlay).items() if key not in {"metrics-port", "metrics-host"}}
        (self.folders["/etc/ringside"] / "server.yaml").write_text(self.here(yaml.safe_dump(settings)))
        tiny_model.make(self.folders["/models"] / "model.gguf")
        variables = {one["name"]: self.here(one["value"]) for one in container["env"] if "value" in one}
        arguments = [self.here(word) for word in container["args"]]
        self.server = ServerProcess(None, "--threads", 1, *arguments, folder=folder, binary=BUILD / "bin/ringside-server", environment=variables)

    def here(self, text):
        places = "|".join(map(re.escape, self.folders))
        return re.sub(rf"(?<![\w/])(?:{places})\b", lambda found: str(self.folders[found[0]]), text)

    def get(self, path, host="ringside", key=None):
        """Status and body of a GET with this Host, and with a key if there is one."""
        headers = {"Host": host} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", headers=headers), timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def pod(overlays, tmp_path_factory):
    started = Pod(overlays["single"], tmp_path_factory.mktemp("pod"))
    with started.server:
        started.server.wait_until_ready()
        yield started


def test_settings_start_a_server_that_probes_and_services_reach(pod):
    for path in ("/livez", "/readyz"):
        assert pod.get(path, "10.1.2.3:8080")[0] == 200, "the kubelet sends the pod's address"
    for host in ("ringside:8080", "ringside.ringside.svc:8080", "ringside.ringside.svc.cluster.local:8080", "chat.example.com"):
        assert pod.get("/v1/models", host, pod.key)[0] == 200, host
    assert pod.get("/v1/models", "elsewhere.example.com", pod.key)[0] == 421
    assert pod.get("/v1/models")[0] == 401
    assert (pod.folders["/var/lib/ringside"] / "store/log").is_dir(), "conversations are on the volume"


def test_autoscaler_and_adapter_query_existing_metrics(pod, overlays):
    series = set(re.findall(r"(?m)^(ringside_\w+)", pod.get("/metrics", key=pod.key)[1]))
    rules = yaml.safe_load(ADAPTER.read_text())["rules"]["custom"]
    asked = {name for rule in rules for name in re.findall(r"ringside_\w+", rule["seriesQuery"] + rule["metricsQuery"])}
    assert len(series) > 50 and asked <= series
    [scaler] = [one for one in overlays["production"] if one["kind"] == "HorizontalPodAutoscaler"]
    assert {metric["pods"]["metric"]["name"] for metric in scaler["spec"]["metrics"]} == {rule["name"]["as"] for rule in rules}


def test_a_changed_secret_takes_effect_without_a_restart(pod):
    key, keys = make_key(pod.secrets.parent, "bob")
    publish(pod.secrets, "..2", {"keys.json": keys, "export.key": (pod.secrets / "export.key").read_text()})
    wait_for(lambda: pod.get("/v1/models", key=key)[0] == 200, "the new key to work")
    assert pod.get("/v1/models", key=pod.key)[0] == 401
