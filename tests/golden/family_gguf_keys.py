"""The keys that llama.cpp's converters write for one architecture each, in addition to or instead of the common
ones."""

import gguf
import numpy as np


def windows(config):
    return [kind == "sliding_attention" for kind in config.layer_types]


def add_mixture(writer, config, **keys):
    """`shared`, `leading`, `scale`, `norm`: names of the configuration, without which the key is absent."""
    adds = {"shared": writer.add_expert_shared_count, "leading": writer.add_leading_dense_block_count,
            "scale": writer.add_expert_weights_scale, "norm": writer.add_expert_weights_norm}
    for key, name in keys.items():
        adds[key](getattr(config, name))


def add_groups(writer, config):
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def add_latent(writer, config):
    """The cached key and value, and (`_mla`) the expanded ones."""
    writer.add_head_count_kv(1)
    writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
    writer.add_value_length(config.kv_lora_rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
    writer.add_value_length_mla(config.v_head_dim)
    if config.q_lora_rank is not None:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(config.kv_lora_rank)
    writer.add_rope_dimension_count(config.qk_rope_head_dim)
    add_groups(writer, config)


def deepseek2(writer, config):
    add_latent(writer, config)
    add_mixture(writer, config, shared="n_shared_experts", leading="first_k_dense_replace",
                scale="routed_scaling_factor", norm="norm_topk_prob")
    sigmoid = config.model_type == "deepseek_v3"
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)


def mistral4(writer, config):
    add_latent(writer, config)
    add_mixture(writer, config, shared="n_shared_experts", leading="first_k_dense_replace", norm="norm_topk_prob")
    add_temperature(writer, config)


def add_temperature(writer, config):
    writer.add_attn_temperature_scale(config.rope_parameters["llama_4_scaling_beta"])


def mistral3(writer, config):
    add_temperature(writer, config)
    writer.add_rope_scaling_yarn_log_mul(config.rope_parameters["mscale_all_dim"])


def kimi_linear(writer, config):
    add_latent(writer, config)
    add_mixture(writer, config, shared="n_shared_experts", scale="routed_scaling_factor")
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_head_count_kv([int(kind == "full_attention") for kind in config.layer_types])
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_kda_head_dim(config.linear_head_dim)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def add_mamba(writer, kernel, state, groups, heads, size):
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_state_size(state)
    writer.add_ssm_group_count(groups)
    writer.add_ssm_inner_size(heads * size)
    writer.add_ssm_time_step_rank(heads)


def granite_hybrid(writer, config):
    add_mamba(writer, config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads,
              config.mamba_d_head)
    writer.add_head_count_kv([config.num_key_value_heads if kind in ("attention", "full_attention") else 0
                              for kind in config.layer_types])
    writer.add_rope_scaling_finetuned(config.position_embedding_type == "rope")
    writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    if not config.num_local_experts:
        writer.add_feed_forward_length(config.shared_intermediate_size)


def nemotron(writer, config):
    kinds = config.layers_block_type
    add_mamba(writer, config.conv_kernel, config.ssm_state_size, config.n_groups, config.mamba_num_heads,
              config.mamba_head_dim)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    writer.add_head_count_kv([config.num_key_value_heads if kind in ("attention", "full_attention") else 0 for kind in kinds])
    mixtures = "moe" in kinds
    width = config.moe_intermediate_size if mixtures else config.intermediate_size
    writer.add_feed_forward_length([width if kind in ("moe", "mlp") else 0 for kind in kinds])
    if not mixtures:
        writer.add_expert_count(0)
        return
    add_mixture(writer, config, shared="n_shared_experts", scale="routed_scaling_factor", norm="norm_topk_prob")
    add_groups(writer, config)
    writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
    if config.moe_latent_size is not None:
        writer.add_moe_latent_size(config.moe_latent_size)


def falcon_h1(writer, config):
    add_mamba(writer, config.mamba_d_conv, config.mamba_d_state, config.mamba_n_groups, config.mamba_n_heads,
              config.mamba_d_head)


def llama4(writer, config):
    writer.add_feed_forward_length(config.intermediate_size_mlp)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_interleave_moe_layer_step(config.interleave_moe_layer_step)


def gemma3n(writer, config):
    writer.add_sliding_window_pattern(windows(config))
    writer.add_altup_active_idx(config.altup_active_idx)
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    from statistics import NormalDist
    writer.add_activation_sparsity_scale(
        [NormalDist().inv_cdf(share) if share > 0 else -np.inf for share in config.activation_sparsity_pattern])


def gemma4(writer, config):
    """Head sizes of both kinds of layers, and lists for those that differ by layer."""
    config.allow_global_per_layer_attribute_access = True
    sliding = windows(config)
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


def afmoe(writer, config):
    add_mixture(writer, config, shared="num_shared_experts", leading="num_dense_layers", scale="route_scale")
    writer.add_expert_weights_norm(True)
    writer.add_sliding_window_pattern(windows(config))


def laguna(writer, config):
    add_mixture(writer, config, scale="moe_routed_scaling_factor")
    writer.add_head_count(config.num_attention_heads_per_layer)
    writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_weights_norm(True)
    part = lambda kind: int(config.head_dim * config.rope_parameters[kind].get("partial_rotary_factor", 1))
    writer.add_rope_dimension_count(part("full_attention"))
    writer.add_rope_dimension_count_swa(part("sliding_attention"))


def glm4moe(writer, config):
    add_mixture(writer, config, shared="n_shared_experts", leading="first_k_dense_replace",
                scale="routed_scaling_factor", norm="norm_topk_prob")
    add_groups(writer, config)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def minimax_m2(writer, config):
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def ernie_moe(writer, config):
    add_mixture(writer, config, shared="moe_num_shared_experts", leading="moe_layer_start_index")
    writer.add_expert_count(config.moe_num_experts)
    writer.add_expert_used_count(config.moe_k)
    writer.add_interleave_moe_layer_step(config.moe_layer_interval)


def exaone4(writer, config):
    writer.add_sliding_window_pattern(windows(config))


def exaone_moe(writer, config):
    exaone4(writer, config)
    add_mixture(writer, config, shared="num_shared_experts", leading="first_k_dense_replace",
                scale="routed_scaling_factor", norm="norm_topk_prob")
    add_groups(writer, config)
    writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)


def hunyuan_moe(writer, config):
    writer.add_expert_used_count(config.moe_topk)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.intermediate_size)
    writer.add_expert_shared_count(1)


def olmo(writer, config):
    writer.add_layer_norm_eps(1e-5)


def olmo2(writer, config):
    if hasattr(config, "sliding_window"):
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern(windows(config))


def muse_glimmer(writer, config):
    writer.add_sliding_window_pattern(windows(config))
    writer.add_logit_scale(config.output_multiplier)


KEYS = {"deepseek2": deepseek2, "mistral4": mistral4, "mistral3": mistral3, "kimi-linear": kimi_linear,
        "granitehybrid": granite_hybrid, "nemotron_h": nemotron, "nemotron_h_moe": nemotron, "llama4": llama4,
        "falcon-h1": falcon_h1, "gemma3n": gemma3n, "gemma4": gemma4, "afmoe": afmoe, "laguna": laguna,
        "glm4moe": glm4moe, "minimax-m2": minimax_m2, "ernie4_5-moe": ernie_moe, "exaone4": exaone4,
        "exaone-moe": exaone_moe, "hunyuan-moe": hunyuan_moe,
        "muse-glimmer": muse_glimmer, "olmo": olmo, "olmo2": olmo2}
WINDOWED = {"gemma2", "gemma3", "phi3", "starcoder2", "cohere2", "gemma4", "gpt-oss", "gemma3n", "afmoe", "laguna",
            "exaone4", "exaone-moe", "muse-glimmer"}
