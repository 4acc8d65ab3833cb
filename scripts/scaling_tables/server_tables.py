"""Tables of docs/SCALING.md about many servers, from the recorded results of the simulation."""

import json

from scaling_tables.markdown import markdown
from scaling_tables.step_tables import ROOT


def results(group):
    """Results of a group of scenarios; see tools/sim/cluster/results.h."""
    return json.loads((ROOT / "tools/sim/cluster/results.json").read_text())[group]


def time(ms):
    return f"{ms:.0f} ms" if ms < 999.5 else f"{ms / 1e3:.1f} s" if ms < 99950 else f"{ms / 1e3:.0f} s"


def count(value):
    return f"{value:,.0f}"


def share(part, all):
    """A percentage with the digits that matter; 0 only if there is none."""
    value = 100 * part / max(all, 1)
    return "0" if value == 0 else f"{value:.1f} %" if value >= 0.095 else f"{value:.2f} %" if value >= 0.0095 else "< 0.01 %"


def percentiles(phase):
    return ", ".join(time(phase[f"first_{p}"]) for p in ("p50", "p99", "p999"))


def where(phase):
    """Sources of the caches of returning turns, in % of all turns."""
    return " / ".join(f"{100 * phase[name] / phase['turns']:.1f}" for name in ("from_slot", "from_host", "from_disk", "recomputed"))


COLUMNS = {
    "first token: p50, p99, p99.9": percentiles,
    "p99 with refusals": lambda phase: time(phase["asked_p99"]),
    "cache in slot / host / disk / recomputed, % of turns": where,
    "prompts, of a server's time: mean, worst": lambda phase: f"{100 * phase['prompt_share']:.0f}, {100 * phase['busiest']:.0f} %",
    "fullest server / mean": lambda phase: f"{phase['fullest']:.2f}",
    "database busy": lambda phase: f"{100 * phase['database_share']:.0f} %",
    "refused requests": lambda phase: count(phase["refused"]),
    "turns given up": lambda phase: share(phase["gave_up"], phase["turns"] + phase["gave_up"]),
    "taken over or resumed": lambda phase: count(phase["claimed"]),
    "cut / not found": lambda phase: f"{count(phase['cut'])} / {count(phase['not_found'])}",
}


def table(group, first, *columns):
    """A row for each scenario."""
    rows = [[result["name"], *(COLUMNS[column](result["phases"][0]) for column in columns)] for result in results(group)]
    return markdown([first, *columns], rows)


def table_of_phases(group, first):
    """A row for each scenario that changes with time: before, during and after the outage."""
    rows = []
    for result in results(group):
        before, during, after = result["phases"]
        rows.append([result["name"], time(before["first_p99"]), time(during["first_p99"]), time(during["first_p999"]),
                     time(during["asked_p99"]), count(during["refused"]), share(during["gave_up"], during["turns"] + during["gave_up"]),
                     f"{100 * during['prompt_share']:.0f}, {100 * during['busiest']:.0f} %", time(after["first_p99"])])
    return markdown([first, "p99 before", "during: p99 of admitted turns", "p99.9", "p99 with refusals", "refused requests",
                     "turns given up", "prompts: mean, worst server", "p99 after"], rows)


TABLES = {
    "fill": lambda: table("fill", "conversations per server", "first token: p50, p99, p99.9",
                          "cache in slot / host / disk / recomputed, % of turns", "prompts, of a server's time: mean, worst",
                          "fullest server / mean", "database busy"),
    "zone": lambda: table_of_phases("zone", "conversations per server"),
    "events": lambda: table("events", "event", "first token: p50, p99, p99.9", "p99 with refusals", "refused requests",
                            "turns given up", "taken over or resumed", "cut / not found"),
    "failover": lambda: table_of_phases("failover", "a quarter of the databases is away for 20 s"),
    "store": lambda: table("store", "durability", "first token: p50, p99, p99.9", "database busy"),
    "routes": lambda: table("routes", "routes", "first token: p50, p99, p99.9", "fullest server / mean",
                            "prompts, of a server's time: mean, worst", "taken over or resumed"),
    "bursts": lambda: table("bursts", "who asks, every two minutes", "first token: p50, p99, p99.9", "p99 with refusals",
                            "refused requests", "turns given up"),
}
