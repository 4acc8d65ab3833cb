"""Tables of docs/SCALING.md about steps and memory of a server."""

import json
from pathlib import Path

from scaling_tables.markdown import markdown, number
from scaling_tables.step_times import H100, H200, MODELS, NVLINK, PCIE, Model, decode_ms, network_sum_ms, prompt_ms

ROOT = Path(__file__).resolve().parent.parent.parent
GB = 1e9


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


def table_of_networks():
    """The sums of one decode step between machines, 2 per layer: latency, and the messages of a batch."""
    rows = []
    for name in ("Llama-3-8B", "Llama-3-70B"):
        model = MODELS[name]
        for gpus in (2, 8):
            sums = [2 * model.layers * network_sum_ms(one_way, gpus, batch * model.hidden * 4)
                    for one_way in (0.020, 0.050, 1) for batch in (1, 32)]
            rows.append([name, 2 * model.layers, gpus, *map(number, sums)])
    head = [f"{one_way}, batch {batch}" for one_way in ("20 us", "50 us", "1 ms") for batch in (1, 32)]
    return markdown(["sums of a step, ms, by one-way latency", "sums", "machines", *head], rows)


def table_of_prefixes():
    """A new conversation may go to any engine, which computes the prefix unless it has one of the same tenant."""
    prefix = prompt_ms(MODELS["Llama-3-8B"], H200, 2000)
    rows = [[engines, *(number(prefix * (1 - 1 / engines) ** others) for others in (1, 4, 16, 64))] for engines in (2, 4, 8)]
    return markdown(["engines", "1 other conversation of the tenant in slots", "4", "16", "64"], rows)
