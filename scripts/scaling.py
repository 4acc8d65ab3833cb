"""The tables of docs/SCALING.md: step times and models that fit, from formulas, and many servers, from the recorded results of
the simulation (tools/sim/cluster/results.json, written by `cluster_sim --write`).

    python3 scripts/scaling.py            # prints the tables
    python3 scripts/scaling.py --write    # writes them into SCALING.md, each between its two marks
    python3 scripts/scaling.py --check    # fails if SCALING.md has other tables, or if the model deviates from
                                          # docs/benchmarks/ by more than the limit in SCALING.md
"""

import argparse
import sys

from scaling_tables import server_tables, step_tables

PAGE = step_tables.ROOT / "docs/SCALING.md"
TABLES = {"prefixes": step_tables.table_of_prefixes, "checks": step_tables.table_of_checks, "two": step_tables.table_of_two,
          "steps": step_tables.table_of_steps, "networks": step_tables.table_of_networks, "fits": step_tables.table_of_fits,
          **server_tables.TABLES}


def put(text, but=None):
    """SCALING.md with the current tables, except `but`."""
    for name, table in TABLES.items():
        if name == but:
            continue
        begin, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, rest = text.split(begin)
        text = before + begin + table() + end + rest.split(end)[1]
    return text


def check(text):
    measured = [(name, real, model) for name, real, model in step_tables.measured() if name.startswith("Llama-3-8B")]
    worst = max(abs(model / real - 1) for _, real, model in measured)
    two = max(abs(model / real - 1) for _, one, both, *models in step_tables.measured_on_two()
              for real, model in zip((one, both), models))
    if worst > 0.10 or two > 0.10:
        sys.exit(f"the model deviates by {100 * worst:.0f} % from a measured step of Llama-3-8B, {100 * two:.0f} % on two GPUs")
    # Measurements may have been repeated since, with slightly different results.
    if put(text, but="checks") != text:
        sys.exit("SCALING.md's tables are out of date: run scripts/scaling.py --write")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into SCALING.md")
    parser.add_argument("--check", action="store_true", help="fail if SCALING.md's tables are out of date")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(put(PAGE.read_text()))
    elif options.check:
        check(PAGE.read_text())
    else:
        print("\n\n".join(table() for table in TABLES.values()))


if __name__ == "__main__":
    main()
