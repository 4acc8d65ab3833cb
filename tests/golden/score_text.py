#!/usr/bin/env python3
"""The float side of tools/bench/score_main.cpp.

    score_text.py plain SOURCE OUT.txt             prose of an HTML page (without code), of gzipped or of plain text
    score_text.py score MODEL.gguf IDS.i32 [BLOCK] loss of the ids in fresh contexts of BLOCK, with dequantized weights

Needs numpy, gguf, torch and transformers for `score`. The ids come from score_main --write-ids.
"""
import gzip
import html.parser
import math
import re
import sys
from pathlib import Path

import numpy as np


class Prose(html.parser.HTMLParser):
    """Text of headings, paragraphs and list items; without code blocks, scripts, navigation and tables."""
    LEFT_OUT = {"pre", "script", "style", "nav", "table", "head", "button"}
    BLOCKS = {"p", "li", "h1", "h2", "h3", "h4", "blockquote"}

    def __init__(self):
        super().__init__()
        self.out, self.outside = [], 0

    def handle_starttag(self, tag, attrs):
        self.outside += tag in self.LEFT_OUT
        if tag in self.BLOCKS:
            self.out.append("\n\n")

    def handle_endtag(self, tag):
        self.outside -= tag in self.LEFT_OUT

    def handle_data(self, data):
        if not self.outside:
            self.out.append(re.sub(r"\s+", " ", data))


def plain(source, out):
    raw = gzip.open(source, "rb").read() if source.suffix == ".gz" else source.read_bytes()
    text = raw.decode("utf-8", "replace")
    if source.suffix == ".html":
        parser = Prose()
        parser.feed(text)
        text = "".join(parser.out)
    text = re.sub(r"[ \t]+\n", "\n", re.sub(r"\n[ \t]+(?=\n)", "\n", text))
    out.write_text(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def load(path):
    """LlamaForCausalLM of a llama-architecture GGUF file: restores q and k rows from interleaved rotation pairs."""
    import gguf
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    reader = gguf.GGUFReader(path)
    meta = {k: f.contents() for k, f in reader.fields.items() if k.startswith(("llama.", "general.arch"))}
    assert meta["general.architecture"] == "llama"
    heads, kv_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    file = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(t.shape[::-1]) for t in reader.tensors}
    config = LlamaConfig(
        vocab_size=file["token_embd.weight"].shape[0], hidden_size=meta["llama.embedding_length"],
        intermediate_size=meta["llama.feed_forward_length"], num_hidden_layers=meta["llama.block_count"],
        num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=meta.get("llama.attention.key_length"),
        rms_norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters=dict(rope_type="default", rope_theta=meta["llama.rope.freq_base"]),
        max_position_embeddings=meta["llama.context_length"], tie_word_embeddings="output.weight" not in file)
    names = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    state = {"model.embed_tokens.weight": file["token_embd.weight"], "model.norm.weight": file["output_norm.weight"],
             "lm_head.weight": file.get("output.weight", file["token_embd.weight"])}
    for name, value in file.items():
        if not name.startswith("blk."):
            continue
        _, layer, part, _ = name.split(".")
        count = {"attn_q": heads, "attn_k": kv_heads}.get(part)
        if count:
            value = value.reshape(count, value.shape[0] // count // 2, 2, -1).swapaxes(1, 2).reshape(value.shape)
        state[f"model.layers.{layer}.{names[part]}.weight"] = value
    model = LlamaForCausalLM(config)
    model.load_state_dict({k: torch.tensor(np.ascontiguousarray(v)) for k, v in state.items()})
    return model.float().eval()


def score(path, ids, block):
    import torch
    model, losses = load(path), []
    for at in range(0, len(ids) - block + 1, block):
        part = torch.tensor(ids[at:at + block].astype(np.int64))[None]
        with torch.no_grad():
            logits = model(part).logits[0, :-1]
        losses.append(torch.nn.functional.cross_entropy(logits, part[0, 1:], reduction="none").double().numpy())
        print(f"block at {at}: loss {losses[-1].mean():.5f}", flush=True)
    loss = np.concatenate(losses)
    print(f"blocks: {len(loss)} tokens, loss {loss.mean():.5f} +- {loss.std() / math.sqrt(len(loss)):.5f}, "
          f"perplexity {math.exp(loss.mean()):.5f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["plain"] and len(sys.argv) == 4:
        plain(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["score"] and len(sys.argv) in (4, 5):
        score(sys.argv[2], np.fromfile(sys.argv[3], "<i4"), int(sys.argv[4]) if len(sys.argv) == 5 else 2048)
    else:
        sys.exit(__doc__)
