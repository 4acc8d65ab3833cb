"""Step times by number of GPUs, and the models that fit: the tables of docs/SCALING.md, from its formulas.

    python3 scripts/scaling.py            # prints the tables
    python3 scripts/scaling.py --write    # writes them into SCALING.md, each between its two marks
    python3 scripts/scaling.py --check    # fails if SCALING.md has other tables, or if the model deviates from
                                          # docs/benchmarks/ by more than the limit in SCALING.md

Times are in ms, sizes in bytes, rates per second.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GB, GIB = 1e9, 1 << 30


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True  # three MLP matrices instead of two
    tied: bool = False  # embedding and output head share weights

    def layer(self):
        """Weights of one layer."""
        return self.hidden * ((2 * self.heads + 2 * self.kv_heads) * self.head_dim + (3 if self.gated else 2) * self.ffn)

    def read(self):
        """Weights read by a step: everything but the embedding, of which it reads one row."""
        return self.layers * self.layer() + self.vocab * self.hidden

    def all(self):
        return self.read() + (0 if self.tied else self.vocab * self.hidden)

    def token_bytes(self, gpus=1, cache_bytes=2):
        """Key and value bytes per token over all GPUs: with fewer KV heads than GPUs, heads are replicated."""
        return 2 * self.layers * max(self.kv_heads, gpus) * self.head_dim * cache_bytes


@dataclass(frozen=True)
class Gpu:
    name: str
    read: float     # bytes per second, with nothing else running
    product: float  # FLOP/s
    bytes: int


@dataclass(frozen=True)
class Link:
    """A GPU interconnect: latency of an all-reduce over 2, 4 and 8 GPUs, and bytes per second in one direction."""
    name: str
    waits: tuple
    rate: float


H200 = Gpu("H200", 4.61e12, 787e12, 141 * 10**9)
H100 = Gpu("H100", 3.15e12, 787e12, 80 * 10**9)  # read: fitted to the measured step of one H100
NVLINK = Link("NVLink", (0.0024, 0.0036, 0.0043), 300e9)
PCIE = Link("PCIe 5", (0.010, 0.014, 0.020), 40e9)  # assumed, not measured

MODELS = {m.name: m for m in [
    Model("SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152, tied=True),
    Model("GPT-2 345M", 24, 1024, 16, 16, 64, 4096, 50257, gated=False, tied=True),
    Model("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, tied=True),
    Model("Llama-3-8B", 32, 4096, 32, 8, 128, 14336, 128256),
    Model("Qwen3-14B", 40, 5120, 40, 8, 128, 17408, 151936),
    Model("Qwen3-32B", 64, 5120, 64, 8, 128, 25600, 151936),
    Model("Llama-3-70B", 80, 8192, 64, 8, 128, 28672, 128256),
    Model("Mistral-Large-123B", 88, 12288, 96, 8, 128, 28672, 32768),
    Model("Llama-3.1-405B", 126, 16384, 128, 8, 128, 53248, 128256),
]}

LAYER_MS = 0.0165      # kernel launch gaps, per layer and row
ROWS_MS = 0.0095       # additional from 8 rows on
SHOWS = 0.75           # fraction of the GEMM time not hidden by reading weights
PROMPT_SHARE = 0.80    # fraction of Gpu.product reached by prefill GEMMs
ATTENTION_SHARE = 0.45  # by prefill attention


def sum_ms(link, gpus, size):
    """All-reduce of `size` bytes: each rank reads all others' data (one-shot), or a share of it and then the sums
    (two-shot)."""
    if gpus == 1:
        return 0
    wait, rate = link.waits[gpus.bit_length() - 2], link.rate / 1e3
    return min(wait + (gpus - 1) * size / rate, 2 * wait + 2 * (gpus - 1) / gpus * size / rate)


def decode_ms(model, gpu, batch, context, gpus=1, link=NVLINK, weight_bytes=2.0):
    reads = model.read() * weight_bytes / gpus + batch * context * model.token_bytes(gpus) / gpus
    products = 2 * batch * model.read() / gpus
    kernels = model.layers * (LAYER_MS + (ROWS_MS if batch >= 8 else 0))
    sums = 2 * model.layers * sum_ms(link, gpus, batch * model.hidden * 2)
    return 1e3 * (reads / gpu.read + SHOWS * products / gpu.product) + kernels + sums


def prompt_ms(model, gpu, tokens, gpus=1, link=NVLINK):
    products = 2 * tokens * model.layers * model.layer() / gpus
    attention = 2 * tokens * tokens * model.layers * model.heads * model.head_dim / gpus
    computing = products / (PROMPT_SHARE * gpu.product) + attention / (ATTENTION_SHARE * gpu.product)
    reads = model.read() * 2 / gpus / gpu.read
    sums = 2 * model.layers * sum_ms(link, gpus, tokens * model.hidden * 2)
    return 1e3 * max(computing, reads) + model.layers * (LAYER_MS + ROWS_MS) + sums


def number(value):
    return f"{value:.0f}" if value >= 100 or value < 0.005 else f"{value:.3g}"


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def measured():
    """Steps of one H200 in docs/benchmarks/gpu-steps.json: (what, ms, the model's ms)."""
    tables = json.loads((ROOT / "docs/benchmarks/gpu-steps.json").read_text())
    out, name = [], ""
    for cells in tables["decode"]["rows"]:
        name = cells[0] or name
        context = int(cells[1].replace(",", ""))
        for batch, cell in zip((1, 8, 32, 128), cells[2:]):
            model_ms = decode_ms(MODELS[name], H200, batch, context)
            out.append((f"{name}, {context:,} tokens, batch {batch}", float(cell.split()[0]), model_ms))
    for cells in tables["prefill"]["rows"]:
        for tokens, cell in zip((512, 2048, 8192), cells[1:4]):
            out.append((f"{cells[0]}, prompt of {tokens:,}", float(cell.split()[0]), prompt_ms(MODELS[cells[0]], H200, tokens)))
    return out


def measured_on_two():
    """docs/benchmarks/ranks.json, two-gpus: (name, measured on one and two H200, the model's)."""
    model = MODELS["Llama-3-8B"]
    return [(what, one, two, ms(1), ms(2)) for what, one, two, ms in [
        ("decode, 1,024 tokens, batch 1", 3.89, 2.35, lambda gpus: decode_ms(model, H200, 1, 1024, gpus)),
        ("batch 32", 5.18, 3.24, lambda gpus: decode_ms(model, H200, 32, 1024, gpus)),
        ("prompt of 2,048 tokens", 47.4, 28.8, lambda gpus: prompt_ms(model, H200, 2048, gpus)),
    ]]


def table_of_checks():
    rows = []
    for name in ("SmolLM2-135M", "GPT-2 345M", "Llama-3.2-1B", "Llama-3-8B"):
        for what in ("1,024 tokens, batch", "4,096 tokens, batch", "prompt"):
            off = [100 * (model / real - 1) for label, real, model in measured() if label.startswith(f"{name}, {what}")]
            rows.append([name, "prompts of 512, 2,048, 8,192" if what == "prompt" else what + " 1, 8, 32, 128",
                         ", ".join(f"{o:+.0f}" for o in off)])
    return markdown(["one H200", "", "model vs. measured, %"], rows)


def table_of_two():
    rows = [[what, one, number(model_one), two, number(model_two), f"{one / two:.2f}x, {model_one / model_two:.2f}x"]
            for what, one, two, model_one, model_two in measured_on_two()]
    return markdown(["Llama-3-8B, bf16, ms", "one H200", "model", "two", "model", "gain, the model's"], rows)


def table_of_steps():
    rows = []
    for name in ("Llama-3-8B", "Llama-3-70B"):
        for link in (NVLINK, PCIE):
            for gpus in (1, 2, 4, 8):
                model = MODELS[name]
                fits = model.all() * 2 < 0.9 * gpus * H200.bytes
                if not fits or (gpus == 1 and link is PCIE):
                    continue
                cells = [number(decode_ms(model, H200, batch, context, gpus, link))
                         for batch, context in ((1, 1024), (32, 1024), (32, 8192), (128, 1024))]
                rows.append([name, link.name if gpus > 1 else "", gpus, *cells, number(prompt_ms(model, H200, 2048, gpus, link))])
    return markdown(["bf16, ms on H200", "link", "GPUs", "batch 1, 1k", "32, 1k", "32, 8k", "128, 1k", "prompt of 2,048"], rows)


def sessions(model, gpu, gpus, weight_bytes):
    """Number of conversations (8,192 tokens and 256 pinned, in f16) that fit next to the weights and 2 GB of scratch
    per GPU."""
    left = gpus * (0.9 * gpu.bytes - 2 * GB) - model.all() * weight_bytes
    return int(left // (model.token_bytes(gpus) * (8192 + 256)))


def table_of_fits():
    rows = []
    for gpu in (H100, H200):
        for gpus in (1, 2, 4, 8):
            row = [f"{gpu.bytes // 10**9} GB", gpus]
            for weight_bytes in (2, 1, 4.5 / 8):
                fit = [m for m in sorted(MODELS.values(), key=Model.all) if sessions(m, gpu, gpus, weight_bytes) >= 16]
                row.append(f"{fit[-1].name}: {sessions(fit[-1], gpu, gpus, weight_bytes)}")
            rows.append(row)
    return markdown(["memory of a GPU", "GPUs", "bf16", "fp8", "4 bits"], rows)


def table_of_prefixes():
    """A new conversation may go to any engine, which computes the prefix unless it has one of the same tenant."""
    prefix = prompt_ms(MODELS["Llama-3-8B"], H200, 2000)
    rows = [[engines, *(number(prefix * (1 - 1 / engines) ** others) for others in (1, 4, 16, 64))] for engines in (2, 4, 8)]
    return markdown(["engines", "1 other conversation of the tenant in slots", "4", "16", "64"], rows)


TABLES = {"prefixes": table_of_prefixes, "checks": table_of_checks, "two": table_of_two, "steps": table_of_steps, "fits": table_of_fits}


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
    worst = max(abs(model / real - 1) for what, real, model in measured() if what.startswith("Llama-3-8B"))
    two = max(abs(model / real - 1) for _, one, both, *models in measured_on_two() for real, model in zip((one, both), models))
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
    paper = ROOT / "docs/SCALING.md"
    if options.write:
        paper.write_text(put(paper.read_text()))
    elif options.check:
        check(paper.read_text())
    else:
        print("\n\n".join(table() for table in TABLES.values()))


if __name__ == "__main__":
    main()
