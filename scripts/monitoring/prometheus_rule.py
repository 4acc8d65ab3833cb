"""Prints the rules of ringside.rules.yml as a PrometheusRule of the Prometheus operator:

    python3 scripts/monitoring/prometheus_rule.py > deploy/kubernetes/components/monitoring/prometheus-rule.yaml
"""

from pathlib import Path

HEAD = """\
# Written by scripts/monitoring/prometheus_rule.py from scripts/monitoring/ringside.rules.yml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: ringside}
spec:
"""


def main():
    rules = (Path(__file__).parent / "ringside.rules.yml").read_text().splitlines()
    body = [f"  {line}" if line else "" for line in rules if not line.startswith("#")]
    print(HEAD + "\n".join(body))


if __name__ == "__main__":
    main()
