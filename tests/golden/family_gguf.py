"""GGUF files of the tiny models of make_family_golden.py, with the names and keys of llama.cpp's converters."""

import gguf
import numpy as np
from family_gguf_keys import KEYS, WINDOWED
from family_gguf_tensors import CHANGES, NAMES_OF, changed_tensors, in_blocks

GGUF_FAMILIES = {
    "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3", "phi3": "phi3", "phi3_longrope": "phi3",
    "gpt_neox": "gptneox", "bloom": "bloom", "falcon_grouped": "falcon", "mpt": "mpt", "starcoder2": "starcoder2",
    "stablelm": "stablelm", "olmo2": "olmo2", "granite": "granite", "mixtral": "llama", "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe", "granitemoe": "granitemoe", "cohere2": "cohere2", "gpt_bigcode": "starcoder",
    "gpt_oss": "gpt-oss", "smollm3_fourth": "smollm3", "qwen3_next": "qwen3next", "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe", "lfm2": "lfm2", "lfm2_moe": "lfm2moe", "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2", "gemma4": "gemma4", "gemma4_moe": "gemma4", "granitemoehybrid": "granitehybrid",
    "granitehybrid_gguf": "granitehybrid", "nemotron_h_gguf": "nemotron_h", "nemotron_h_moe_gguf": "nemotron_h_moe",
    "mistral4": "mistral4", "llama4_gguf": "llama4", "gemma3n_text": "gemma3n", "afmoe": "afmoe",
    "laguna_gguf": "laguna", "phimoe_gguf": "phimoe", "kimi_linear_gguf": "kimi-linear",
    "muse_glimmer": "muse-glimmer", "ministral3": "mistral3", "glm4_moe": "glm4moe", "minimax_m2": "minimax-m2",
    "seed_oss": "seed_oss", "ernie4_5": "ernie4_5", "ernie4_5_moe_gguf": "ernie4_5-moe",
    "hunyuan_v1_dense": "hunyuan-dense", "exaone4": "exaone4", "arcee": "arcee", "olmo": "olmo",
    "qwen2_5_vl": "qwen2vl", "qwen3_vl": "qwen3vl", "qwen3_vl_moe": "qwen3vlmoe", "falcon_h1": "falcon-h1",
    "falcon_h1_norm": "falcon-h1", "nemotron_h_latent": "nemotron_h_moe", "hunyuan_v1_moe": "hunyuan-moe",
    "exaone_moe": "exaone-moe", "olmo3": "olmo2"}
FOLDED = {"falcon-h1"}  # whose factors are parts of weights, which are float32 then


def gguf_tensors(name, architecture, model):
    config = model.config.get_text_config()
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None)
    kv_heads = kv_heads or getattr(config, "num_kv_heads", None) or heads
    of = NAMES_OF.get(architecture, architecture)
    known = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == of)
    names = gguf.get_tensor_name_map(known, config.num_hidden_layers)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    streams = {}
    for key, tensor in model.state_dict().items():
        if model.config is not config and not key.startswith(("model.language_model.", "lm_head.")):
            continue
        key = key.replace("model.language_model.", "model.")
        value = tensor.float().numpy()
        if key in ("lm_head.weight", "embed_out.weight") and tied:
            continue
        if key.startswith("model.altup_"):
            streams.setdefault(key.split(".")[1] + ".weight", []).append(value)
            continue
        centered = name in ("gemma", "gemma2", "gemma3") or hasattr(config, "linear_num_key_heads")
        if centered and key.endswith("norm.weight") and "linear_attn" not in key:
            value = value + 1
        if "query_key_value" in key:
            value = in_blocks(value, heads, kv_heads)
        for part, rows in changed_tensors(key, value, config, architecture).items():
            ends = (".weight", ".bias", ".A_log", ".D")
            if part.endswith(".scale"):
                yield "blk." + part.removeprefix("model.layers."), rows
                continue
            part = part if part.endswith(ends) else part + ".weight"
            suffixes = (".weight", ".bias")
            theirs = names.get_name(part, suffixes) or names.get_name(part.removeprefix("transformer."), suffixes)
            if theirs is None and architecture == "muse-glimmer":
                theirs = "blk." + part.removeprefix("model.layers.").replace("self_attn.gate_proj", "attn_gate")
            exact = architecture in CHANGES and ".ssm_" in theirs
            yield theirs, np.atleast_1d(np.ascontiguousarray(rows if exact else rows.squeeze()))
    for key, values in streams.items():
        yield names.get_name("model." + key, (".weight",)), np.stack(values)


def add_rope(writer, config, architecture, head_dim):
    rope = config.rope_parameters
    put = lambda add, value: add(value) if value is not None else None
    if "sliding_attention" in rope and architecture != "olmo2":
        put(writer.add_rope_freq_base_swa, rope["sliding_attention"].get("rope_theta"))
    rope = rope.get("full_attention", rope)
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    stretch = rope.get("alpha", 1) ** (head_dim / (head_dim - 2)) if rope["rope_type"] == "dynamic" else 1
    writer.add_rope_freq_base(rope["rope_theta"] * stretch)
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


def write_gguf(path, name, architecture, model, blocks={}, whole=False):
    """`blocks`: rows and type of tensors that are stored in another type; with `whole` these are all tensors."""
    config = model.config.get_text_config()
    writer = gguf.GGUFWriter(path, architecture)
    get = lambda *keys: next((getattr(config, k) for k in keys if getattr(config, k, None) is not None), None)
    head_dim = get("head_dim") if architecture != "gemma4" else None
    head_dim = head_dim or config.hidden_size // config.num_attention_heads
    put = lambda add, value: add(value) if value is not None else None
    writer.add_name(name)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(get("max_position_embeddings", "seq_length", "max_seq_len") or 2048)
    writer.add_embedding_length(config.hidden_size)
    if architecture != "qwen35moe":
        width = get("intermediate_size", "ffn_hidden_size") or 4 * config.hidden_size
        if architecture == "lfm2":
            width = model.model.layers[0].feed_forward.w1.out_features
        writer.add_feed_forward_length(width)
    writer.add_head_count(config.num_attention_heads)
    kv_heads = 1 if get("multi_query") and not get("new_decoder_architecture") else None
    if architecture != "gemma4":
        kv_heads = kv_heads or get("num_key_value_heads", "num_kv_heads") or config.num_attention_heads
    if architecture.startswith("lfm2"):
        kv_heads = [0 if kind == "conv" else kv_heads for kind in config.layer_types]
    put(writer.add_head_count_kv, kv_heads)
    if get("head_dim") if architecture != "gemma4" else None:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    put(writer.add_layer_norm_rms_eps, get("rms_norm_eps", "norm_eps") if architecture.startswith("lfm2") else
        get("rms_norm_eps"))
    put(writer.add_layer_norm_eps, get("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"))
    put(writer.add_sliding_window, get("sliding_window") if architecture in WINDOWED else None)
    put(writer.add_attn_logit_softcapping, get("attn_logit_softcapping"))
    put(writer.add_final_logit_softcapping, get("final_logit_softcapping"))
    if architecture != "gemma4":
        put(writer.add_expert_count, get("num_local_experts", "num_experts", "n_routed_experts"))
        put(writer.add_expert_used_count, get("num_experts_per_tok"))
    put(writer.add_expert_feed_forward_length, get("moe_intermediate_size"))
    put(writer.add_expert_shared_feed_forward_length, get("shared_expert_intermediate_size"))
    if architecture not in FOLDED:
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
    if get("rope_parameters") and architecture != "gemma4":
        add_rope(writer, config, architecture, head_dim)
    KEYS.get(architecture, lambda *_: None)(writer, config)
    for theirs, (rows, kind) in blocks.items():
        writer.add_tensor(theirs, rows, raw_dtype=kind)
    for theirs, value in gguf_tensors(name, architecture, model) if not whole else ():
        if theirs not in blocks:
            exact = architecture in FOLDED or any(part in theirs for part in ("conv", "ssm_a", "ssm_d", "ssm_norm"))
            half = value.ndim > 1 and not exact
            writer.add_tensor(theirs, value.astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
