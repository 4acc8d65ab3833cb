"""Fits the costs of a simulated device (tools/sim/cost_model.h) to measurements by step_bench and restore_bench on a
real one.

    scripts/fit_costs tools/sim/costs/llama-3-8b.h200.json [MEASURED.jsonl ...] [--check]

Keeps model, device, shape, host_ms and the hashing rate of the file, replaces step_ms and the copy rates, and prints
the error of the fit for each measurement. Without measurements it uses the .jsonl file next to the .json. --check
changes nothing and fails if the file differs from the fit.

A step's time is a sum of terms, each a coefficient times a property of the step: its rows, interpolated linearly
between the measured row counts, with separate tables for decode-only steps, for steps of whole row tiles (and small
prompt-only ones, replayed as a graph), and for all others; the keys that its parts attend to, which must be read; and the (row, key) pairs of its prompts,
which must be multiplied. The non-negative coefficients minimize the sum of squared relative errors.
"""

import argparse
import json
import sys
from pathlib import Path

KINDS = ("decode", "recorded", "other")


def chunk_rows(shape):
    """GpuPrefillChunk (engine/engine.h) for a window larger than any chunk."""
    weights = shape["layers"] * shape["hidden"] * (
        (2 * shape["heads"] + 2 * shape["kv_heads"]) * shape["head_dim"] + 3 * shape["ffn"]
    )
    rows = min(max(15_000_000_000_000 // weights, 2048), 8192)
    return 1 << (rows.bit_length() - 1)


def kind_of(rows, decoding=0):
    """Kind of a step with prompts; mirrors CostModel::StepMs."""
    return "recorded" if rows % 256 == 0 or (rows <= 64 and decoding == 0) else "other"


def steps_of(point, chunk):
    """The steps of one measurement: (kind, rows, keys, products)."""
    name, batch, context, tokens = (point.get(member) for member in ("name", "batch", "context", "tokens"))
    if name == "decode_ahead":
        return [("decode", batch, batch * context, 0)]
    if name in ("prefill", "append"):
        parts = [min(chunk, tokens - at) for at in range(0, tokens, chunk)]
        ends = [context + sum(parts[: i + 1]) for i in range(len(parts))]
        return [(kind_of(n), n, end, n * (end - n / 2)) for n, end in zip(parts, ends)]
    if name.startswith("mixed_"):
        prompts = int(name.split("_")[1])
        each = tokens // prompts
        keys = batch * context + prompts * each
        return [(kind_of(batch + prompts * each, batch), batch + prompts * each, keys, prompts * each * each / 2)]
    return []


def hats(knots, rows):
    """Each knot's weight in a piecewise linear function at `rows`: constant before the first knot, extrapolated after
    the last."""
    rows = max(rows, knots[0])
    right = next((i for i in range(1, len(knots)) if knots[i] >= rows), len(knots) - 1)
    share = (rows - knots[right - 1]) / (knots[right] - knots[right - 1])
    return {knots[right - 1]: 1 - share, knots[right]: share}


def terms_of(steps, knots):
    terms = {}
    for kind, rows, keys, products in steps:
        for knot, share in hats(knots[kind], rows).items():
            terms[(kind, knot)] = terms.get((kind, knot), 0) + share
        terms["key"] = terms.get("key", 0) + keys
        terms["product"] = terms.get("product", 0) + products
    return terms


def solve(matrix, right):
    """Gaussian elimination with pivoting; a zero column yields 0."""
    n = len(right)
    rows = [list(matrix[i]) + [right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        if abs(rows[i][i]) < 1e-12:
            continue
        for r in range(n):
            if r != i and rows[r][i] != 0:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [rows[i][n] / rows[i][i] if abs(rows[i][i]) >= 1e-12 else 0 for i in range(n)]


def fit(equations):
    """Least squares over (terms, ms), relative to ms; drops the term with a negative coefficient and repeats."""
    names = sorted({name for terms, _ in equations for name, value in terms.items() if value}, key=str)
    scale = {name: max(terms.get(name, 0) for terms, _ in equations) for name in names}
    while True:
        lines = [[terms.get(name, 0) / scale[name] / ms for name in names] for terms, ms in equations]
        size = range(len(names))
        normal = [[sum(line[i] * line[j] for line in lines) for j in size] for i in size]
        found = solve(normal, [sum(line[i] for line in lines) for i in size])
        worst = min(size, key=lambda i: found[i])
        if found[worst] >= 0:
            return {name: found[i] / scale[name] for i, name in enumerate(names)}
        names.remove(names[worst])


def fit_copy(points, name):
    """Fits ms = constant + bytes / rate to two or more measurements."""
    pairs = [(p["mib"] * 2**20, p["ms"]) for p in points if p["name"] == name]
    if len(pairs) < 2:
        sys.exit(f"fit_costs: fewer than two measurements of {name}")
    found = fit([({"constant": 1, "byte": size}, ms) for size, ms in pairs])
    return found.get("constant", 0), 1 / found["byte"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("costs", type=Path)
    parser.add_argument("measured", type=Path, nargs="*")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    costs = json.loads(options.costs.read_text())
    points = []
    for path in options.measured or [options.costs.with_suffix(".jsonl")]:
        points += [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]

    chunk = chunk_rows(costs["shape"])
    measured = [(point, steps_of(point, chunk)) for point in points]
    measured = [(point, steps) for point, steps in measured if steps]
    knots = {kind: sorted({rows for _, steps in measured for k, rows, _, _ in steps if k == kind}) for kind in KINDS}
    equations = [(terms_of(steps, knots), point["ms"]) for point, steps in measured]
    found = fit(equations)
    step = {kind: [[knot, round(found.get((kind, knot), 0), 4)] for knot in knots[kind]] for kind in KINDS}
    # Below the measured row counts: interpolate towards a step of one row, which always runs as a decode step.
    step["other"].insert(0, step["decode"][0])
    step["key"] = float(f"{found.get('key', 0):.4g}")
    step["product"] = float(f"{found.get('product', 0):.4g}")
    errors = []
    for (terms, ms), (point, _) in zip(equations, measured):
        error = sum(found.get(name, 0) * value for name, value in terms.items()) / ms - 1
        errors.append(abs(error))
        if abs(error) > 0.1:
            print(f"{error:+.1%} {point}", file=sys.stderr)
    print(f"{len(errors)} steps: off by {sum(errors) / len(errors):.1%} on average, {max(errors):.1%} at most", file=sys.stderr)

    copy = costs.get("copy", {})
    if any(point["name"] == "restore" for point in points):
        load_ms, load_rate = fit_copy(points, "restore")
        save_ms, save_rate = fit_copy(points, "spill")
        copy |= {"load_ms": round(load_ms, 4), "load_bytes_per_ms": round(load_rate), "save_ms": round(save_ms, 4),
                 "save_bytes_per_ms": round(save_rate)}
    fitted = dict(costs, step_ms=step, copy=copy)
    text = to_text(fitted)
    if options.check:
        sys.exit(0 if text == options.costs.read_text() else "fit_costs: the file differs from the fit; run scripts/fit_costs without --check")
    options.costs.write_text(text)


def to_text(costs):
    """Formats JSON with one line per member of each group."""
    def member(name, value, indent):
        if isinstance(value, dict):
            inner = ",\n".join(member(n, v, indent + 2) for n, v in value.items())
            return f'{" " * indent}"{name}": {{\n{inner}\n{" " * indent}}}'
        return f'{" " * indent}"{name}": {json.dumps(value)}'

    return "{\n" + ",\n".join(member(n, v, 2) for n, v in costs.items()) + "\n}\n"


if __name__ == "__main__":
    main()
