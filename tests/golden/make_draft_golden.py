#!/usr/bin/env python3
"""Makes tests/golden/drafts: tiny models with a draft layer (multi-token prediction), and the tokens that it drafts.

The transformers library has no draft layers. Here one is a second model with a single layer, whose inputs are the draft
layer's: projection([norm(embedding of the token), norm(hidden state of the token before it)]), in float64. Each line of
drafts.json has a prompt, all but its last token cached, and the tokens drafted after it: the layer's normed output is
the hidden state of the next one.
"""
import json
import os
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from make_family_golden import IDS, fill, make, FAMILIES, TEXT_CONFIGS
import transformers

COUNT = 5
# Names of the draft layer's tensors by family: prefix of its layer, and of the tensors beside it.
QWEN = ("mtp.layers.0.", {"projection": "mtp.fc", "embedding": "mtp.pre_fc_norm_embedding",
                          "hidden": "mtp.pre_fc_norm_hidden", "norm": "mtp.norm"})


def next_layer(layers):
    layer = f"model.layers.{layers}."
    return (layer, {"projection": layer + "eh_proj", "embedding": layer + "enorm", "hidden": layer + "hnorm",
                    "norm": layer + "shared_head.norm"})


FAMILIES_WITH_DRAFTS = {"qwen3_5_text": QWEN, "qwen3_5_moe_text": QWEN, "glm4_moe": next_layer(3),
                        "deepseek_v3": next_layer(3)}


def make_layer(name, seed):
    """A model of one layer with attention, and experts if the family has them."""
    kind, options = FAMILIES[name]
    options = {key: value for key, value in options.items() if key not in ("layer_types", "mlp_layer_types")}
    if "qwen" in name:
        options["layer_types"] = ["full_attention"]
    if "first_k_dense_replace" in options or name == "deepseek_v3":
        options["first_k_dense_replace"] = 0
    options["num_hidden_layers"] = 1
    config = getattr(transformers, TEXT_CONFIGS.get(kind, kind + "Config"))(**options)
    config._experts_implementation = config._attn_implementation = "eager"
    return fill(getattr(transformers, kind + "ForCausalLM")(config), seed).double()


def rms(x, weight, eps):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def make_family(folder, name, seed):
    layer_prefix, names = FAMILIES_WITH_DRAFTS[name]
    model, layer = make(name, seed).double(), make_layer(name, seed + 1)
    hidden = model.config.hidden_size
    generator = torch.Generator().manual_seed(seed + 2)
    random = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)
    projection = (random(hidden, 2 * hidden) / (2 * hidden) ** 0.5).half().double()
    norms = {part: (0.2 * random(hidden)).half().double() for part in ("embedding", "hidden")}
    offset = 1 if "qwen" in name else 0
    if not offset:
        norms = {part: (weight + 1).half().double() for part, weight in norms.items()}
    eps = model.config.rms_norm_eps

    def inputs(tokens, states):
        parts = [rms(model.model.embed_tokens(tokens), norms["embedding"] + offset, eps),
                 rms(states, norms["hidden"] + offset, eps)]
        return torch.cat(parts, -1) @ projection.T

    cases = []
    with torch.no_grad():
        for length in (2, 3, 7, 12, len(IDS)):
            ids = torch.tensor([IDS[:length]])
            states = model.model(ids[:, :-1]).last_hidden_state
            x = inputs(ids, torch.cat([torch.zeros(1, 1, hidden, dtype=torch.float64), states], 1))
            drafted = []
            for _ in range(COUNT):
                out = layer.model(inputs_embeds=x).last_hidden_state[:, -1:]
                drafted.append(int(model.lm_head(out)[0, 0].argmax()))
                x = torch.cat([x, inputs(torch.tensor([[drafted[-1]]]), out)], 1)
            cases.append({"prompt": IDS[:length], "drafted": drafted})
    shutil.rmtree(folder, ignore_errors=True)
    model.half().save_pretrained(folder)
    layer.half().save_pretrained(folder / "layer")
    (folder / "generation_config.json").unlink(missing_ok=True)
    tensors = load_file(folder / "model.safetensors")
    for key, value in load_file(folder / "layer" / "model.safetensors").items():
        if key.startswith("model.layers.0."):
            tensors[layer_prefix + key.removeprefix("model.layers.0.")] = value
        if key == "model.norm.weight":
            tensors[names["norm"] + ".weight"] = value
    for part, weight in norms.items():
        tensors[names[part] + ".weight"] = weight.half()
    tensors[names["projection"] + ".weight"] = projection.half()
    if name == "glm4_moe":  # copies of the network's, as published
        tensors[layer_prefix + "embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors[layer_prefix + "shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.rmtree(folder / "layer")
    (folder / "drafts.json").write_text("".join(json.dumps(case) + "\n" for case in cases))


def main(out):
    for seed, name in enumerate(FAMILIES_WITH_DRAFTS):
        make_family(out / name, name, 900 + 10 * seed)


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "drafts")
