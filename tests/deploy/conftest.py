"""Shared by the tests of this folder: the rendered kustomizations and charts, and the server's options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("RINGSIDE_TEST_BUILD", ROOT / "build/cpu"))
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
CHART = DEPLOY / "helm/ringside"
PROGRAMS = Path(sys.executable).parent  # helm, kubectl and envoy, of scripts/requirements.txt
sys.path[:0] = [str(ROOT / "scripts/packaging"), str(ROOT / "tests/system")]


OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
# Values of the chart, and the overlay that has the same objects.
CHARTS = {
    "single": ["store.kind=local", "replicas=1"],
    "replicas": [],
    "production": ["gpus=1", "autoscaling.enabled=true", "monitoring.enabled=true", "image.repository=registry.example.com/ringside-cuda",
                   "resources.requests.memory=32Gi", "resources.limits.memory=32Gi"],
}


def run(*command, **options):
    """Runs a program, which must succeed; returns its standard output."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def render_overlay(name):
    return [*yaml.safe_load_all(run(PROGRAMS / "kubectl", "kustomize", KUBERNETES / "overlays" / name))]


def render_chart(*values, release="ringside"):
    settings = [word for value in values for word in ("--set", value)]
    text = run(PROGRAMS / "helm", "template", release, CHART, "--namespace", "ringside", *settings)
    return [document for document in yaml.safe_load_all(text) if document]


def pod_templates(documents):
    """(name, pod template, its container) of all workloads."""
    for document in documents:
        name, spec = f"{document['kind']} {document['metadata']['name']}", document.get("spec", {})
        group = spec.get("leaderWorkerTemplate", {})
        for template in (spec.get("template"), group.get("leaderTemplate"), group.get("workerTemplate")):
            if template:
                [container] = template["spec"]["containers"]
                yield f"{name} {container['name']}", template, container


def settings_of(documents):
    """The server's settings file of a rendered overlay or chart."""
    [text] = [document["data"]["server.yaml"] for document in documents if "server.yaml" in document.get("data", {})]
    return yaml.safe_load(text)


@pytest.fixture(scope="session")
def overlays():
    return {name: render_overlay(name) for name in OVERLAYS}


@pytest.fixture(scope="session")
def charts():
    return {name: render_chart(*values) for name, values in CHARTS.items()}


@pytest.fixture(scope="session")
def all_rendered(overlays, charts):
    return {f"overlay {name}": value for name, value in overlays.items()} | {f"chart {name}": value for name, value in charts.items()}


@pytest.fixture(scope="session")
def options():
    """The server's options by name, without the dashes."""
    from command_line import ask, read_command

    command = read_command(ask(BUILD / "bin/ringside-server"))
    return {flag.removeprefix("--"): option for option in command.options for flag in option.flags}


def default_of(option):
    """The default value that an option's help ends with."""
    return re.search(r"\[(\d+)\]$", option.help)[1]
