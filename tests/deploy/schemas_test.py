"""Every overlay and the chart consist of objects that Kubernetes accepts: its own schemas (kubernetes-validate), and small
ones of schemas/ for the kinds of operators.

    scripts/python -m pytest tests/deploy/schemas_test.py
"""

import copy
import json
import subprocess
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from conftest import CHART, CHARTS, KUBERNETES, OVERLAYS, PROGRAMS, pod_templates, render_chart

VERSIONS = ["1.29", "1.37"]  # the oldest that the chart accepts, the newest with a schema
OPERATORS = {
    "LeaderWorkerSet": "leader-worker-set",
    "PodMonitor": "pod-monitor",
    "PrometheusRule": "prometheus-rule",
}
NAMES = [f"overlay {name}" for name in OVERLAYS] + [f"chart {name}" for name in CHARTS]


def check(document, version):
    """Raises if the schema does not accept the object, or if it has unknown fields."""
    if document["kind"] not in OPERATORS:
        kubernetes_validate.validate(document, version, strict=True)
        return
    schema = Path(__file__).parent / f"schemas/{OPERATORS[document['kind']]}.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    for name, template, _ in pod_templates([document]):
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pod"}, "template": template}, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_objects_are_valid(all_rendered, name, version):
    documents = all_rendered[name]
    assert len(documents) > 5
    for document in documents:
        check(document, version)
    identities = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(set(identities)) == len(identities)
    assert all("namespace" in document["metadata"] or document["kind"] == "Namespace" or name.startswith("chart") for document in documents)


@pytest.mark.parametrize("path, value", [
    (["spec", "replicas"], "three"),
    (["spec", "replica"], 3),
    (["spec", "template", "spec", "containers", 0, "readinessProbe", "httpGet", "pathh"], "/readyz"),
    (["spec", "template", "spec", "securityContext", "seccompProfile"], "RuntimeDefault"),
])
def test_a_wrong_field_is_found(overlays, path, value):
    """A negative control: a checker that cannot fail proves nothing."""
    [document] = [copy.deepcopy(one) for one in overlays["replicas"] if one["kind"] == "StatefulSet"]
    *above, last = path
    part = document
    for key in above:
        part = part[key]
    part[last] = value
    for version in VERSIONS:
        with pytest.raises(kubernetes_validate.ValidationError):
            check(document, version)


def test_a_wrong_field_of_an_operator_is_found(overlays):
    [document] = [copy.deepcopy(one) for one in overlays["ranks"] if one["kind"] == "LeaderWorkerSet"]
    document["spec"]["leaderWorkerTemplate"]["sise"] = 2
    with pytest.raises(jsonschema.ValidationError):
        check(document, VERSIONS[0])
    del document["spec"]["leaderWorkerTemplate"]["sise"]
    document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["container"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        check(document, VERSIONS[0])


def without_helms_labels(document):
    """The object without labels and names that a chart and kustomize choose differently."""
    document = copy.deepcopy(document)
    if document["kind"] == "ConfigMap":
        document["metadata"]["name"] = "ringside"
        document["data"]["server.yaml"] = yaml.safe_load(document["data"]["server.yaml"])
    document["metadata"] = {"name": document["metadata"]["name"]}

    def clean(part):
        if isinstance(part, list):
            return [clean(one) for one in part]
        if not isinstance(part, dict):
            return part
        if "configMap" in part:
            part = part | {"configMap": {"name": "ringside"}}
        return {key: clean(value) for key, value in part.items() if key not in ("app.kubernetes.io/instance", "annotations")
                or isinstance(value, dict) and "runbook" in value}

    return clean(document)


def sorted_objects(documents):
    """Objects by kind and name; the chart has the rules of two NetworkPolicies in one."""
    found = {}
    for document in map(without_helms_labels, documents):
        if document["kind"] == "NetworkPolicy":
            policy = found.setdefault("NetworkPolicy", {"ingress": [], "egress": []})
            for direction in policy:
                policy[direction] += document["spec"].get(direction, [])
        elif document["kind"] != "Namespace":
            found[document["kind"], document["metadata"]["name"]] = document
    for document in found.values():
        for template in [document["spec"]["template"]] if document.get("kind") == "StatefulSet" else []:
            [container] = template["spec"]["containers"]
            for names in (container["env"], container["volumeMounts"], template["spec"]["volumes"]):
                names.sort(key=lambda one: one["name"])
    return found


@pytest.mark.parametrize("name", CHARTS)
def test_chart_has_the_objects_of_the_overlay(overlays, charts, name):
    chart, overlay = sorted_objects(charts[name]), sorted_objects(overlays[name])
    assert chart.keys() == overlay.keys()
    for key in chart:
        assert chart[key] == overlay[key], key


def test_chart_is_sound():
    linted = subprocess.run([PROGRAMS / "helm", "lint", "--strict", CHART], capture_output=True, text=True)
    assert linted.returncode == 0 and "WARNING" not in linted.stdout, linted.stdout
    [service, pods] = [one for one in render_chart(release="chat") if one["kind"] == "Service"]
    assert [service["metadata"]["name"], pods["metadata"]["name"]] == ["chat-ringside", "chat-ringside-pods"]


@pytest.mark.parametrize("values, message", [
    (["store.kind=local"], "for one server"),
    (["store.kind=local", "replicas=1", "autoscaling.enabled=true"], "for one server"),
    (["store.kind=nfs"], "it is shared or local"),
    (["store.database.namespace="], "neither a namespace nor cidrs"),
])
def test_chart_refuses_values_that_do_not_fit(values, message):
    settings = [word for value in values for word in ("--set", value)]
    refused = subprocess.run([PROGRAMS / "helm", "template", "ringside", CHART, *settings], capture_output=True, text=True)
    assert refused.returncode != 0 and message in refused.stderr


def test_every_folder_is_rendered():
    """Each component is part of an overlay, and each file of a kustomization."""
    texts = {path: path.read_text() for path in KUBERNETES.rglob("kustomization.yaml")}
    everything = "".join(texts.values())
    for component in (KUBERNETES / "components").iterdir():
        assert f"../../components/{component.name}" in everything, component
    for path, text in texts.items():
        for file in path.parent.iterdir():
            if file.name not in ("kustomization.yaml", "Containerfile", "prometheus-adapter.yaml"):
                assert file.name in text, file
