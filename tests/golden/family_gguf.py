"""GGUF files of the tiny models of make_family_golden.py, with the names and keys of llama.cpp's converters (known to
the gguf package)."""

import gguf
import numpy as np

GGUF_FAMILIES = {
    "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3", "phi3": "phi3", "phi3_longrope": "phi3",
    "gpt_neox": "gptneox", "bloom": "bloom", "falcon_grouped": "falcon", "mpt": "mpt", "starcoder2": "starcoder2",
    "stablelm": "stablelm", "olmo2": "olmo2", "granite": "granite", "mixtral": "llama", "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe", "granitemoe": "granitemoe", "cohere2": "cohere2", "gpt_bigcode": "starcoder",
    "gpt_oss": "gpt-oss", "smollm3_fourth": "smollm3", "qwen3_next": "qwen3next", "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe", "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2", "gemma4": "gemma4", "gemma4_moe": "gemma4"}


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


def gpt_oss_experts(key, value):
    """Outputs by inputs, gate and up separate."""
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
    """A gated DeltaNet's tensor as llama.cpp's converters write it."""
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
    heads = value.reshape(config.num_attention_heads, -1, config.kv_lora_rank)
    keys, values = np.split(heads, [config.qk_nope_head_dim], axis=1)
    return {key.replace("kv_b_proj", "k_b_proj"): keys.swapaxes(1, 2), key.replace("kv_b_proj", "v_b_proj"): values}


def gguf_tensors(name, architecture, model):
    config = model.config
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None)
    kv_heads = kv_heads or getattr(config, "num_kv_heads", None) or heads
    known = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(known, config.num_hidden_layers)
    for key, tensor in model.state_dict().items():
        value = tensor.float().numpy()
        if architecture == "granitemoe":
            key = key.replace("block_sparse_moe.router", "mlp.gate").replace("block_sparse_moe", "mlp")
        if key in ("lm_head.weight", "embed_out.weight") and config.tie_word_embeddings:
            continue
        centered = name in ("gemma", "gemma2", "gemma3") or hasattr(config, "linear_num_key_heads")
        if centered and key.endswith("norm.weight") and "linear_attn" not in key:
            value = value + 1
        if "query_key_value" in key:
            value = in_blocks(value, heads, kv_heads)
        if architecture in ("llama", "granite", "granitemoe", "smollm3") and ("q_proj" in key or "k_proj" in key):
            value = interleaved(value, heads if "q_proj" in key else kv_heads)
        key = key.replace("e_score_correction_bias", "e_score_correction.bias")
        parts = {key: value}
        if "linear_attn" in key:
            parts = delta_net(key, value, config, architecture != "qwen3next")
        if key.endswith("expert_bias"):
            parts = {key + ".bias": value}
        if "kv_b_proj" in key:
            parts = latent_parts(key, value, config)
        elif architecture == "gpt-oss" and "experts." in key:
            parts = gpt_oss_experts(key, value)
        elif architecture == "gemma4" and key.endswith(("router.scale", "router.per_expert_scale")):
            part = "ffn_gate_inp.scale" if key.endswith("router.scale") else "ffn_down_exps.scale"
            yield f"blk.{key.split('.')[2]}.{part}", value
            continue
        elif "experts.gate_up_proj" in key and architecture != "gemma4":
            half = value.shape[1] // 2
            parts = {key.replace("gate_up_proj", part): value[:, rows] for part, rows in
                     (("gate_proj", slice(0, half)), ("up_proj", slice(half, None)))}
        for part, rows in parts.items():
            part = part if part.endswith((".weight", ".bias", "A_log")) else part + ".weight"
            suffixes = (".weight", ".bias")
            theirs = names.get_name(part, suffixes) or names.get_name(part.removeprefix("transformer."), suffixes)
            yield theirs, np.atleast_1d(np.ascontiguousarray(rows.squeeze()))


def add_latent(writer, config):
    """The cached key and value, and (`_mla`) the expanded ones."""
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    if config.q_lora_rank is not None:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)
    sigmoid = config.model_type == "deepseek_v3"
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)


def add_gemma4(writer, config):
    """Head sizes of both kinds of layers, and lists for those that differ by layer."""
    sliding = [kind == "sliding_attention" for kind in config.layer_types]
    by_layer = [config.per_layer_config[layer] for layer in range(config.num_hidden_layers)]
    full = by_layer[sliding.index(False)]
    writer.add_sliding_window_pattern(sliding)
    writer.add_key_length(full.head_dim)
    writer.add_value_length(full.head_dim)
    writer.add_key_length_swa(config.head_dim)
    writer.add_value_length_swa(config.head_dim)
    writer.add_head_count_kv([layer.num_key_value_heads for layer in by_layer])
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    wide = config.num_hidden_layers - (config.num_kv_shared_layers if config.use_double_wide_mlp else 0)
    widths = [config.intermediate_size * (2 if layer >= wide else 1) for layer in range(config.num_hidden_layers)]
    writer.add_feed_forward_length(widths if len(set(widths)) > 1 else widths[0])
    writer.add_expert_count(config.num_experts or 0)
    writer.add_expert_used_count(config.top_k_experts or 0)
    rope = config.rope_parameters
    writer.add_rope_dimension_count(full.head_dim)
    writer.add_rope_dimension_count_swa(config.head_dim)
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    rotated = int(full.head_dim * rope["full_attention"]["partial_rotary_factor"] / 2)
    factors = [1.0] * rotated + [1e30] * (full.head_dim // 2 - rotated)
    writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))


def write_gguf(path, name, architecture, model, blocks={}):
    """`blocks`: tensors stored in MXFP4."""
    config = model.config
    if architecture == "gemma4":
        config.allow_global_per_layer_attribute_access = True
    writer = gguf.GGUFWriter(path, architecture)
    get = lambda *keys: next((getattr(config, k) for k in keys if getattr(config, k, None) is not None), None)
    head_dim = get("head_dim") or config.hidden_size // config.num_attention_heads
    put = lambda add, value: add(value) if value is not None else None
    writer.add_name(name)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(get("max_position_embeddings", "seq_length", "max_seq_len") or 2048)
    writer.add_embedding_length(config.hidden_size)
    if architecture == "gemma4":
        add_gemma4(writer, config)
    elif architecture != "qwen35moe":
        width = get("intermediate_size", "ffn_hidden_size") or 4 * config.hidden_size
        if architecture == "lfm2":
            width = model.model.layers[0].feed_forward.w1.out_features
        writer.add_feed_forward_length(width)
    writer.add_head_count(config.num_attention_heads)
    one = 1 if get("multi_query") else None
    if get("kv_lora_rank"):
        one = 1
    kv_heads = one or get("num_key_value_heads", "num_kv_heads") or config.num_attention_heads
    if architecture.startswith("lfm2"):
        kv_heads = [0 if kind == "conv" else kv_heads for kind in config.layer_types]
    if architecture != "gemma4":
        writer.add_head_count_kv(kv_heads)
    if architecture == "deepseek2":
        add_latent(writer, config)
    elif architecture in ("gemma", "gemma2", "gemma3", "qwen3moe", "gpt-oss", "qwen3next", "qwen35", "qwen35moe"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    put(writer.add_layer_norm_rms_eps, get("rms_norm_eps", "norm_eps") if architecture.startswith("lfm2") else
        get("rms_norm_eps"))
    put(writer.add_layer_norm_eps, get("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"))
    put(writer.add_sliding_window, get("sliding_window") if name in ("gemma2", "gemma3", "phi3", "starcoder2", "cohere2", "gemma4", "gemma4_moe",
                                                                              "gpt_oss") else None)
    put(writer.add_attn_logit_softcapping, get("attn_logit_softcapping"))
    put(writer.add_final_logit_softcapping, get("final_logit_softcapping"))
    if architecture != "gemma4":
        put(writer.add_expert_count, get("num_local_experts", "num_experts", "n_routed_experts"))
        put(writer.add_expert_used_count, get("num_experts_per_tok"))
    put(writer.add_expert_feed_forward_length, get("moe_intermediate_size"))
    put(writer.add_expert_shared_feed_forward_length, get("shared_expert_intermediate_size"))
    put(writer.add_embedding_scale, get("embedding_multiplier"))
    put(writer.add_residual_scale, get("residual_multiplier"))
    put(writer.add_attention_scale, get("attention_multiplier"))
    put(writer.add_logit_scale, get("logits_scaling", "logit_scale"))
    put(writer.add_parallel_residual, get("use_parallel_residual"))
    if hasattr(config, "linear_num_key_heads"):
        writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
        writer.add_ssm_state_size(config.linear_key_head_dim)
        writer.add_ssm_group_count(config.linear_num_key_heads)
        writer.add_ssm_time_step_rank(config.linear_num_value_heads)
        writer.add_ssm_inner_size(config.linear_value_head_dim * config.linear_num_value_heads)
        writer.add_full_attention_interval(2)
    if architecture.startswith("lfm2"):
        writer.add_shortconv_l_cache(config.conv_L_cache)
        put(writer.add_leading_dense_block_count, get("num_dense_layers"))
        put(writer.add_expert_weights_scale, get("routed_scaling_factor"))
    if architecture == "mpt":
        writer.add_max_alibi_bias(config.attn_config.alibi_bias_max)
    rope = get("rope_parameters")
    if rope is not None and architecture != "gemma4":
        rope = rope.get("full_attention", rope)
        writer.add_rope_dimension_count(get("qk_rope_head_dim") or int(head_dim * rope.get("partial_rotary_factor", 1)))
        writer.add_rope_freq_base(rope["rope_theta"])
        if rope["rope_type"] == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            put(writer.add_rope_scaling_yarn_log_mul, rope.get("mscale_all_dim") and 0.1 * rope["mscale_all_dim"])
        if rope["rope_type"] == "longrope":
            original = rope["original_max_position_embeddings"]
            stretch = config.max_position_embeddings / original
            writer.add_rope_scaling_orig_ctx_len(original)
            writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(stretch) / np.log(original))))
            for part in ("long", "short"):
                writer.add_tensor(f"rope_factors_{part}.weight", np.array(rope[f"{part}_factor"], np.float32))
    for theirs, value in gguf_tensors(name, architecture, model):
        if theirs in blocks:
            writer.add_tensor(theirs, blocks[theirs], raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        else:
            half = value.ndim > 1 and "conv" not in theirs
            writer.add_tensor(theirs, value.astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
