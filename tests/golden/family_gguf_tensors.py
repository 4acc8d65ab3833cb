"""How llama.cpp's converters change the tensors of a model: names, orders of rows, parts. A function for each
architecture takes a tensor's name in the transformers library and its values, and returns those of the file."""

import numpy as np


def in_blocks(rows, heads, kv_heads):
    """From one group's queries, key and value after another to all queries, all keys, all values."""
    width = rows.shape[0] // (heads + 2 * kv_heads)
    groups = rows.reshape(kv_heads, heads // kv_heads + 2, width, *rows.shape[1:])
    parts = groups[:, :-2], groups[:, -2], groups[:, -1]
    return np.concatenate([part.reshape(-1, *rows.shape[1:]) for part in parts])


def interleaved(rows, heads):
    """From rotation pairs (j, j + d/2) to (2j, 2j + 1), per head."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def gpt_oss_experts(key, value, config):
    """Outputs by inputs, gate and up separate."""
    if "experts." not in key:
        return {key: value}
    bias = key.endswith("_bias")
    key = key.removesuffix("_bias") + (".bias" if bias else ".weight")
    value = value if bias else value.swapaxes(1, 2)
    if "gate_up_proj" not in key:
        return {key: value}
    return {key.replace("gate_up_proj", part): value[:, i::2] for i, part in enumerate(("gate_proj", "up_proj"))}


def tiled(rows, heads, groups):
    """From the rows of the value heads of one key head after another to the first of each key head, then the second."""
    return rows.reshape(groups, heads // groups, -1, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)


def delta_net(key, value, config, tiles):
    """A gated DeltaNet's tensor."""
    heads, groups = config.linear_num_value_heads, config.linear_num_key_heads
    keys, values = groups * config.linear_key_head_dim, heads * config.linear_value_head_dim
    order = lambda rows: tiled(rows, heads, groups) if tiles else rows
    if "in_proj_qkvz" in key:
        part = value.reshape(groups, -1, value.shape[-1])
        ends = np.cumsum([keys, keys, values]) // groups
        q, k, v, z = (rows.reshape(-1, value.shape[-1]) for rows in np.split(part, ends, axis=1))
        return {key.replace("qkvz", "qkv"): np.concatenate([q, k, v]), key.replace("qkvz", "z"): z}
    if "in_proj_qkv." in key or "conv1d" in key:
        value = value.squeeze()
        value = np.concatenate([value[:2 * keys], order(value[2 * keys:])])
    elif key.endswith(("A_log", "dt_bias")) or ".in_proj_" in key and "in_proj_ba" not in key:
        value = order(value)
    elif "out_proj" in key:
        value = order(value.T).T
    if key.endswith("A_log"):
        value = -np.exp(value)
    return {key.replace("dt_bias", "dt_proj.bias"): value}


def latent_parts(key, value, config):
    """One matrix for queries [latent, plain] and one for values, each by heads."""
    if "kv_b_proj" not in key:
        return {key: value}
    heads = value.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
    keys, values = np.split(heads, [config.qk_nope_head_dim], axis=1)
    return {key.replace("kv_b_proj", "k_b_proj"): keys.swapaxes(1, 2), key.replace("kv_b_proj", "v_b_proj"): values}


def halves(key, value, joined, parts):
    """The two halves of a matrix that joins gate and up, if this is one."""
    if joined not in key:
        return {key: value}
    gate, up = np.split(value, 2, axis=value.ndim - 2)
    return {key.replace(joined, parts[0]): gate, key.replace(joined, parts[1]): up}


def mamba(key, value, groups):
    """A Mamba-2 layer's tensor."""
    if key.endswith("A_log"):
        return {key: -np.exp(value).reshape(-1, 1)}
    if key.endswith(".D"):
        return {key: value.reshape(-1, 1)}
    if "conv1d.weight" in key:
        return {key: value.squeeze()}
    if key.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
        return {key: value.reshape(groups, -1)}
    return {key.replace("dt_bias", "dt_proj.bias"): value}


def permuted(key, value, config):
    """Queries and keys with adjacent rotary pairs."""
    if "q_proj" in key:
        value = interleaved(value, config.num_attention_heads)
    if "k_proj" in key:
        value = interleaved(value, config.num_key_value_heads)
    return {key: value}


def granite_experts(key, value, config):
    key = key.replace("block_sparse_moe.router", "mlp.gate").replace("block_sparse_moe", "mlp")
    return permuted(key, value, config)


def granite_hybrid(key, value, config):
    if ".mamba." in key:
        return mamba(key, value, config.mamba_n_groups)
    if "shared_mlp" in key:
        shared = "mlp.shared_experts." if config.num_local_experts else "mlp."
        key = key.replace("shared_mlp.output_linear", shared + "down_proj")
        return halves(key, value, "shared_mlp.input_linear", (shared + "gate_proj", shared + "up_proj"))
    return granite_experts(key, value, config)


def nemotron(key, value, config):
    key = key.replace("model.", "backbone.", 1)
    if ".mixer.experts." in key:
        return {key.replace("backbone", "model").replace("mixer", "mlp"): value}
    return mamba(key.replace("mixer.dt_bias", "mixer.dt.bias" if "moe" in config.layers_block_type else "mixer.dt_bias"),
                 value, config.n_groups)


def falcon_h1(key, value, config):
    """Factors are parts of the weights."""
    inputs, keys, group = config.attention_in_multiplier, config.key_multiplier, config.mamba_n_groups
    factors = {"q_proj": inputs, "k_proj": inputs * keys, "v_proj": inputs, "o_proj": config.attention_out_multiplier,
               "gate_proj": config.mlp_multipliers[0], "down_proj": config.mlp_multipliers[1],
               "embed_tokens": config.embedding_multiplier, "lm_head": config.lm_head_multiplier,
               "mamba.out_proj": config.ssm_out_multiplier}
    if "mamba.in_proj" in key:
        sizes = [config.mamba_d_ssm] * 2 + [group * config.mamba_d_state] * 2 + [config.mamba_n_heads]
        value = value * config.ssm_in_multiplier * np.repeat(np.float32(config.ssm_multipliers), sizes)[:, None]
    for part, factor in factors.items():
        value = value * np.float32(factor) if f"{part}.weight" in key else value
    return mamba(key, value, group) if ".mamba." in key else {key: value}


def llama4(key, value, config):
    if key.endswith("down_proj"):  # of all experts
        value = value.swapaxes(1, 2)
    if key.endswith("experts.gate_up_proj"):
        return halves(key, value.swapaxes(1, 2), "gate_up_proj", ("gate_proj", "up_proj"))
    return {key: value}


def gemma3n(key, value, config):
    return {key + ".weight" if key.endswith("_scale") else key: value}


def gemma4(key, value, config):
    if key.endswith("router.scale"):
        return {key.replace("router.scale", "ffn_gate_inp.scale"): value}
    if key.endswith("router.per_expert_scale"):
        return {key.replace("router.per_expert_scale", "ffn_down_exps.scale"): value}
    return {key: value}


def kimi_linear(key, value, config):
    """Three convolutions with four dimensions."""
    key = key.replace("forget_gate.", "").replace("dt_bias", "dt_proj.bias")
    if "conv1d" in key:
        parts = np.split(value, 3)
        return {key.replace("conv1d", f"{part}_conv1d"): rows.reshape(1, len(rows), 1, -1)
                for part, rows in zip("qkv", parts)}
    if key.endswith("A_log"):
        return {key: -np.exp(value)}
    return latent_parts(key, value, config)


def muse_glimmer(key, value, config):
    """Norms scale by 1 + w, and that of queries by the scale of the scores."""
    if key.endswith("layernorm.weight"):
        return {key: value + 1}
    changed = permuted(key, value, config)
    if "q_proj" in key:
        ones = np.ones(config.head_dim, np.float32)
        changed[key.replace("q_proj", "q_norm")] = ones * config.qk_scale_factor
        changed[key.replace("q_proj", "k_norm")] = ones
    return changed


def phimoe(key, value, config):
    return {key.replace("mlp.router", "mlp.gate"): value}


CHANGES = {
    "llama": permuted, "granite": permuted, "smollm3": permuted, "arcee": permuted, "mistral3": permuted,
    "olmo": permuted, "granitemoe": granite_experts, "granitehybrid": granite_hybrid, "nemotron_h": nemotron,
    "nemotron_h_moe": nemotron, "gpt-oss": gpt_oss_experts, "deepseek2": latent_parts, "mistral4": latent_parts,
    "kimi-linear": kimi_linear, "llama4": llama4, "gemma3n": gemma3n, "gemma4": gemma4, "muse-glimmer": muse_glimmer,
    "phimoe": phimoe, "falcon-h1": falcon_h1}
# Architectures without a map of names in the gguf package: one with these names.
NAMES_OF = {"laguna": "step35", "muse-glimmer": "gemma3"}
KEPT_JOINED = ("gemma4", "mistral4")  # gates and ups of experts


def changed_tensors(key, value, config, architecture):
    """The file's tensors of one tensor, with names that the gguf package knows."""
    if key.endswith(("e_score_correction_bias", "expert_bias")):
        key = key.replace("correction_bias", "correction.bias").replace("gate.moe_statics", "moe_statics").replace("expert_bias", "expert_bias.bias")
    if "linear_attn" in key:
        return delta_net(key, value, config, architecture != "qwen3next")
    changed = CHANGES.get(architecture, lambda key, value, config: {key: value})(key, value, config)
    parts = {}
    for name, rows in changed.items():
        joined = "experts.gate_up_proj" in name and architecture not in KEPT_JOINED
        parts |= halves(name, rows, "gate_up_proj", ("gate_proj", "up_proj")) if joined else {name: rows}
    return parts
