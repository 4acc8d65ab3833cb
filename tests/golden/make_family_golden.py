#!/usr/bin/env python3
"""Makes the tiny random models of families/ and their logits with the reference implementations.

    make_family_golden.py [FOLDER [NAME ...]]            needs torch, transformers, safetensors, numpy, gguf

One model per family or variant, with every distinguishing trait enabled and strong enough to show: different windows
and rotations per layer, effective caps, multipliers far from 1. Per model config.json, float16 safetensors (every
weight is exact in it) and logits.f32: float32 [len(IDS), vocab], the logits after each of the ids of make_golden.py
(of LONGER_IDS for recurrent networks),
from a float64 run if the implementation supports one. For those in GGUF_FAMILIES also model.gguf, with the names and
keys of llama.cpp's converters (known to the gguf package).
"""
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from make_golden import IDS, VOCAB
from safetensors.numpy import load_file, save_file

COMMON = dict(vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=0)
# The parameter names of most families, and the older ones.
SMALL = dict(COMMON, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=256)
GROUPED = dict(SMALL, num_key_value_heads=2)
OLDER = dict(COMMON, n_embd=32, n_layer=2, n_head=4)


def layers(*kinds):
    return [f"{kind}_attention" for kind in kinds]


# Vision towers of wrappers, which are not loaded.
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1, head_dim=16,
              image_size=16, patch_size=8)
QWEN3_VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=1, out_hidden_size=32, patch_size=4,
                    num_position_embeddings=16, deepstack_visual_indexes=[0])

MLA = dict(SMALL, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=32, qk_nope_head_dim=12, qk_rope_head_dim=8,
           v_head_dim=16)
DEEPSEEK = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=2, n_group=4,
                topk_group=2, first_k_dense_replace=1)
GEMMA4 = dict(GROUPED, head_dim=16, global_head_dim=32, sliding_window=12, intermediate_size=32)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=16, beta_fast=32.0,
            beta_slow=1.0)
# Recurrent layers with decays from strong to hardly any; a value head serves half of a key head.
DELTA = dict(GROUPED, head_dim=16, num_hidden_layers=3, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_key_head_dim=8, linear_value_head_dim=16, linear_conv_kernel_dim=4,
             layer_types=["linear_attention", "full_attention", "linear_attention"])
MAMBA = dict(GROUPED, num_hidden_layers=3, mamba_n_heads=4, mamba_d_state=12, mamba_d_head=16, mamba_d_conv=4,
             mamba_expand=2, mamba_chunk_size=16, mamba_n_groups=1, layer_types=["mamba", "attention", "mamba"])
SHARED_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                      shared_expert_intermediate_size=40)

# name: (its name in transformers, its configuration); a whole class name is that of a wrapper
FAMILIES = {
    "mistral_window": ("Mistral", dict(GROUPED, head_dim=8, sliding_window=12)),
    "gemma": ("Gemma", dict(GROUPED, head_dim=16)),
    "gemma2": ("Gemma2", dict(GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=12, query_pre_attn_scalar=16,
                              attn_logit_softcapping=2.0, final_logit_softcapping=4.0,
                              layer_types=layers("sliding", "full", "sliding"))),
    "gemma3": ("Gemma3", dict(
        GROUPED, head_dim=16, num_hidden_layers=6, sliding_window=12, query_pre_attn_scalar=16, intermediate_size=32,
        rope_parameters={"sliding_attention": dict(rope_type="default", rope_theta=10000.0),
                         "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0)})),
    "phi3": ("Phi3", dict(GROUPED, sliding_window=12, partial_rotary_factor=0.5)),
    "phi3_longrope": ("Phi3", dict(
        GROUPED, max_position_embeddings=64, original_max_position_embeddings=32,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3],
                             long_factor=[1.5, 2.0, 4.0, 8.0], original_max_position_embeddings=32))),
    "phi": ("Phi", dict(SMALL, partial_rotary_factor=0.5)),
    "gpt_neox": ("GPTNeoX", dict(SMALL, rotary_pct=0.5, use_parallel_residual=True)),
    "gpt_neox_serial": ("GPTNeoX", dict(SMALL, rotary_pct=1.0, use_parallel_residual=False, hidden_act="gelu_fast",
                                        tie_word_embeddings=True)),
    "gptj": ("GPTJ", dict(OLDER, n_positions=256, rotary_dim=4)),
    "opt": ("OPT", dict(COMMON, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                        max_position_embeddings=64, word_embed_proj_dim=32)),
    "bloom": ("Bloom", dict(COMMON, hidden_size=48, n_layer=2, n_head=6)),
    "falcon": ("Falcon", dict(COMMON, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, multi_query=True,
                              parallel_attn=True, new_decoder_architecture=False, bias=False, alibi=False)),
    "falcon_grouped": ("Falcon", dict(COMMON, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                      num_kv_heads=2, new_decoder_architecture=True, bias=False, alibi=False)),
    "mpt": ("Mpt", dict(COMMON, d_model=48, n_heads=6, n_layers=2, expansion_ratio=4, max_seq_len=256)),
    "starcoder2": ("Starcoder2", dict(GROUPED, sliding_window=12, use_bias=True)),
    "stablelm": ("StableLm", dict(GROUPED, partial_rotary_factor=0.25, use_qkv_bias=True)),
    "stablelm_parallel": ("StableLm", dict(GROUPED, partial_rotary_factor=0.5, use_parallel_residual=True)),
    "olmo": ("Olmo", dict(GROUPED)),
    "olmo2": ("Olmo2", dict(GROUPED)),
    "granite": ("Granite", dict(GROUPED, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=8.0,
                                attention_multiplier=0.2)),
    "smollm3": ("SmolLM3", dict(GROUPED, num_hidden_layers=4, no_rope_layers=[1, 0, 1, 0],
                                rope_parameters=dict(rope_type="default", rope_theta=5000.0))),
    "xglm": ("XGLM", dict(COMMON, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4,
                          max_position_embeddings=64)),
    "cohere": ("Cohere", dict(GROUPED, logit_scale=0.25)),
    "mixtral": ("Mixtral", dict(GROUPED, num_local_experts=4, num_experts_per_tok=2)),
    "qwen2_moe": ("Qwen2Moe", dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                   shared_expert_intermediate_size=40, norm_topk_prob=False)),
    "qwen3_moe": ("Qwen3Moe", dict(GROUPED, head_dim=16, num_experts=6, num_experts_per_tok=3,
                                   moe_intermediate_size=24, norm_topk_prob=True)),
    "olmoe": ("Olmoe", dict(GROUPED, num_experts=4, num_experts_per_tok=2, intermediate_size=24)),
    "gpt_oss": ("GptOss", dict(
        GROUPED, head_dim=16, num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=12,
        intermediate_size=32, layer_types=layers("sliding", "full"),
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
                             truncate=False, original_max_position_embeddings=64))),
    "ministral": ("Ministral", dict(GROUPED, head_dim=8, sliding_window=12, layer_types=layers("sliding", "full"))),
    "olmo3": ("Olmo3", dict(GROUPED, sliding_window=12, layer_types=layers("sliding", "full"),
                            rope_parameters={"sliding_attention": dict(rope_type="default", rope_theta=10000.0),
                                             "full_attention": dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                                                                    original_max_position_embeddings=64)})),
    "granitemoe": ("GraniteMoe", dict(
        GROUPED, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=12.0,
        residual_multiplier=0.22, logits_scaling=6.0, attention_multiplier=0.2)),
    "cohere2": ("Cohere2", dict(GROUPED, intermediate_size=32, num_hidden_layers=4, logit_scale=0.25,
                                sliding_window=12)),
    "gpt_bigcode": ("GPTBigCode", dict(OLDER, n_positions=64, multi_query=True)),
    "opt_post": ("OPT", dict(COMMON, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                             max_position_embeddings=64, word_embed_proj_dim=16, do_layer_norm_before=False)),
    "opt_no_final_norm": ("OPT", dict(COMMON, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
                                      max_position_embeddings=64, word_embed_proj_dim=48,
                                      _remove_final_layer_norm=True)),
    "falcon_alibi": ("Falcon", dict(COMMON, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True,
                                    multi_query=False, parallel_attn=False, new_decoder_architecture=False,
                                    bias=True)),
    "mistral3": ("Mistral3ForConditionalGeneration", dict(
        text_config=dict(GROUPED, model_type="mistral", head_dim=8), vision_config=dict(VISION, model_type="pixtral"))),
    "gemma3_wrapper": ("Gemma3ForConditionalGeneration", dict(
        mm_tokens_per_image=4, vision_config=dict(VISION, model_type="siglip_vision_model"),
        text_config=dict(GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=12, query_pre_attn_scalar=16,
                         intermediate_size=32, layer_types=layers("sliding", "full", "sliding")))),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", dict(
        text_config=dict(GROUPED, rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                       mrope_section=[2, 1, 1])),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=1, out_hidden_size=32,
                           patch_size=4, fullatt_block_indexes=[0]))),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", dict(
        text_config=dict(GROUPED, head_dim=16, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, mrope_interleaved=True, mrope_section=[4, 2, 2])),
        vision_config=QWEN3_VISION, tie_word_embeddings=True)),
    "qwen3_vl_moe": ("Qwen3VLMoeForConditionalGeneration", dict(
        text_config=dict(GROUPED, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_interleaved=True,
                                              mrope_section=[4, 2, 2])),
        vision_config=QWEN3_VISION)),
    "glm4_moe": ("Glm4Moe", dict(
        GROUPED, head_dim=16, num_hidden_layers=3, first_k_dense_replace=1, n_routed_experts=8, num_experts_per_tok=3,
        n_group=4, topk_group=2, n_shared_experts=2, moe_intermediate_size=12, routed_scaling_factor=2.5,
        attention_bias=True, use_qk_norm=True, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "glm4_moe_plain": ("Glm4Moe", dict(
        GROUPED, head_dim=16, first_k_dense_replace=0, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1,
        moe_intermediate_size=24, norm_topk_prob=False, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25))),
    "minimax_m2": ("MiniMaxM2", dict(
        GROUPED, head_dim=16, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    "ministral3": ("Mistral3ForConditionalGeneration", dict(
        text_config=dict(GROUPED, model_type="ministral3", head_dim=16, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=16.0, original_max_position_embeddings=16, beta_fast=32.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=0.5, llama_4_scaling_beta=0.3)),
        vision_config=dict(VISION, model_type="pixtral"))),
    "seed_oss": ("SeedOss", dict(GROUPED, head_dim=16, attention_bias=True, attention_out_bias=False)),
    "ernie4_5": ("Ernie4_5", dict(GROUPED, head_dim=16, use_bias=True)),
    "ernie4_5_moe": ("Ernie4_5_Moe", dict(
        GROUPED, num_hidden_layers=4, moe_num_experts=6, moe_k=2, moe_intermediate_size=16, moe_num_shared_experts=2,
        moe_layer_start_index=1, moe_layer_end_index=2, moe_layer_interval=1)),
    "hunyuan_v1_dense": ("HunYuanDenseV1", dict(
        GROUPED, head_dim=16, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, alpha=1000.0, factor=1.0))),
    "exaone4": ("Exaone4", dict(GROUPED, num_hidden_layers=4, sliding_window=12, sliding_window_pattern=4)),
    "apertus": ("Apertus", dict(GROUPED, rope_parameters=dict(
        rope_type="llama3", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=32, low_freq_factor=1.0,
        high_freq_factor=4.0))),
    "arcee": ("Arcee", dict(GROUPED, head_dim=16, mlp_bias=True)),
    "smollm3_fourth": ("SmolLM3", dict(GROUPED, intermediate_size=32, num_hidden_layers=4)),
    "qwen3_next": ("Qwen3Next", dict(DELTA, **SHARED_EXPERTS)),
    "qwen3_5_text": ("Qwen3_5", dict(DELTA, attention_bias=True)),
    "qwen3_5_moe_text": ("Qwen3_5Moe", dict(DELTA, **SHARED_EXPERTS)),
    "qwen3_5": ("Qwen3_5ForConditionalGeneration", dict(
        text_config=dict(DELTA, linear_conv_kernel_dim=3, rope_parameters=dict(
            rope_type="default", rope_theta=10000.0, mrope_interleaved=True, mrope_section=[2, 1, 1],
            partial_rotary_factor=0.5)), vision_config=QWEN3_VISION, tie_word_embeddings=True)),
    "qwen3_5_moe": ("Qwen3_5MoeForConditionalGeneration", dict(
        text_config=dict(DELTA, **SHARED_EXPERTS), vision_config=QWEN3_VISION)),
    "lfm2": ("Lfm2", dict(GROUPED, num_hidden_layers=4, full_attn_idxs=[1], conv_L_cache=4, block_multiple_of=8,
                          block_ffn_dim_multiplier=1.1)),
    "lfm2_moe": ("Lfm2Moe", dict(
        GROUPED, num_hidden_layers=4, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=24,
        num_dense_layers=1, routed_scaling_factor=1.5, layer_types=["conv", "full_attention", "conv", "conv"])),
    "granitemoehybrid": ("GraniteMoeHybrid", dict(
        MAMBA, num_local_experts=4, num_experts_per_tok=2, intermediate_size=24, shared_intermediate_size=40,
        embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=6.0, attention_multiplier=0.2)),
    "granitemoehybrid_dense": ("GraniteMoeHybrid", dict(
        MAMBA, num_local_experts=0, shared_intermediate_size=48, mamba_n_groups=2, mamba_conv_bias=False,
        mamba_proj_bias=True, position_embedding_type="rope", attention_bias=True)),
    "nemotron_h": ("NemotronH", dict(
        COMMON, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=256, ssm_state_size=12, mamba_num_heads=4, mamba_head_dim=16, n_groups=2,
        conv_kernel=4, chunk_size=16, use_mamba_kernels=False, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
        topk_group=2, routed_scaling_factor=2.5, moe_intermediate_size=24, moe_shared_expert_intermediate_size=40,
        layers_block_type=["mamba", "moe", "attention", "mlp", "mamba"])),
    "lfm2_biases": ("Lfm2", dict(GROUPED, layer_types=["conv", "full_attention"], conv_bias=True,
                                 block_auto_adjust_ff_dim=False)),
    "deepseek_v2": ("DeepseekV2", dict(
        MLA | DEEPSEEK, q_lora_rank=None, num_hidden_layers=3, topk_method="group_limited_greedy",
        routed_scaling_factor=1.5, rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=0.707))),
    "deepseek_v3": ("DeepseekV3", dict(
        MLA | DEEPSEEK, num_hidden_layers=3, routed_scaling_factor=2.5,
        rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
    "glm4_moe_lite": ("Glm4MoeLite", dict(
        MLA | DEEPSEEK, n_group=1, topk_group=1, routed_scaling_factor=1.8, rms_norm_eps=1e-5,
        mlp_layer_types=["dense", "sparse"])),
    "mistral4": ("Mistral3ForConditionalGeneration", dict(
        text_config=dict(MLA | DEEPSEEK, model_type="mistral4", first_k_dense_replace=0, rope_parameters=dict(
            YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.3)),
        vision_config=dict(VISION, model_type="pixtral"))),
    "kimi_k25": ("Kimi_K25ForConditionalGeneration", dict(
        text_config=dict(MLA | DEEPSEEK, model_type="deepseek_v3", n_group=1, topk_group=1, rope_parameters=dict(
            YARN, mscale=1.0, mscale_all_dim=1.0)),
        vision_config=dict(hidden_size=32, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
                           patch_size=4, pos_emb_height=2, pos_emb_width=2), projection_hidden_size=16,
        tie_word_embeddings=False)),
    "gemma4": ("Gemma4", dict(
        GEMMA4, num_hidden_layers=6, hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCAB,
        num_kv_shared_layers=3, use_double_wide_mlp=True, final_logit_softcapping=4.0,
        layer_types=layers("sliding", "full", "sliding", "sliding", "sliding", "full"))),
    "gemma4_moe": ("Gemma4", dict(
        GEMMA4, num_hidden_layers=3, hidden_size_per_layer_input=0, num_global_key_value_heads=1,
        attention_k_eq_v=True, enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=24,
        layer_types=layers("sliding", "sliding", "full"))),
    "gemma4_wrapper": ("Gemma4ForConditionalGeneration", dict(
        text_config=dict(GEMMA4, num_hidden_layers=2, hidden_size_per_layer_input=0, attention_k_eq_v=True,
                         layer_types=layers("sliding", "full")),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=1,
                           num_key_value_heads=1, head_dim=16, global_head_dim=16, patch_size=4,
                           position_embedding_size=16))),
    "gemma3n_text": ("Gemma3n", dict(
        GROUPED, head_dim=16, sliding_window=12, num_hidden_layers=4, hidden_size_per_layer_input=8, vocab_size_per_layer_input=80,
        num_kv_shared_layers=2, laurel_rank=6, activation_sparsity_pattern=[0.9, 0.0, 0.6, 0.0],
        intermediate_size=[32, 32, 40, 40], final_logit_softcapping=4.0, altup_num_inputs=3,
        layer_types=layers("sliding", "full", "sliding", "full"))),
    "llama4_text": ("Llama4", dict(
        GROUPED, head_dim=16, num_hidden_layers=4, intermediate_size=16, intermediate_size_mlp=32, num_local_experts=4,
        attention_chunk_size=12, moe_layers=[1, 3], no_rope_layers=[1, 0, 1, 1], floor_scale=8, attn_scale=0.3,
        layer_types=layers("chunked", "full", "chunked", "full"))),
    "afmoe": ("Afmoe", dict(
        GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=12, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=12, num_shared_experts=2, route_scale=1.7, mup_enabled=True,
        layer_types=layers("sliding", "full", "sliding"))),
    "laguna": ("Laguna", dict(
        GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=12, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=12, shared_expert_intermediate_size=20, moe_routed_scaling_factor=1.7,
        moe_router_logit_softcapping=1.5, num_attention_heads_per_layer=[4, 6, 2],
        layer_types=layers("full", "sliding", "full"))),
    "phimoe": ("Phimoe", dict(
        GROUPED, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, router_jitter_noise=0.2,
        attention_bias=True, lm_head_bias=True)),
    "muse_glimmer": ("MuseGlimmerForConditionalGeneration", dict(
        text_config=dict(GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=12, final_logit_softcapping=3.0,
                         layer_types=layers("sliding", "sliding", "full")),
        vision_config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16,
                           patch_size=4, pos_emb_height=2, pos_emb_width=2),
        out_hidden_size=64, projector_hidden_size=16)),
    "gemma4_unified_text": ("Gemma4Unified", dict(
        GEMMA4, num_hidden_layers=6, num_global_key_value_heads=1, attention_k_eq_v=True)),
    "kimi_linear": ("KimiLinear", dict(
        COMMON, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256, kv_lora_rank=16, q_lora_rank=None,
        qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, moe_intermediate_size=24, num_local_experts=4,
        num_experts_per_tok=2, n_shared_experts=1, n_group=2, topk_group=2, routed_scaling_factor=2.446,
        linear_num_heads=2, linear_head_dim=16, linear_conv_kernel_dim=4,
        mlp_layer_types=["dense", "sparse", "sparse"], layer_types=DELTA["layer_types"])),
    "olmo_hybrid": ("OlmoHybrid", dict(GROUPED, num_hidden_layers=3, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=12, linear_value_head_dim=16, linear_conv_kernel_dim=4, linear_allow_neg_eigval=True,
        layer_types=DELTA["layer_types"], rope_parameters=None)),
}
RECURRENT = {"lfm2_biases", "kimi_linear", "olmo_hybrid", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe", "lfm2", "lfm2_moe",
             "granitemoehybrid", "granitemoehybrid_dense", "nemotron_h"}  # more than two chunks of ids
LONGER_IDS = [(i * i * 7 + i * 13 + 5) % VOCAB for i in range(150)]
# Families whose place in the list is not their seed.
SEEDS = {"deepseek_v2": 154, "deepseek_v3": 155, "glm4_moe_lite": 156, "mistral4": 157, "kimi_k25": 158, "gemma4": 160,
         "gemma4_moe": 161, "gemma4_wrapper": 162, "gemma4_unified_text": 163,
         "gemma3n_text": 169, "llama4_text": 170, "afmoe": 171, "laguna": 172, "phimoe": 173, "muse_glimmer": 174}
FLOAT32 = {"xglm"}  # its mask value overflows in a float64 run
SDPA = {"falcon_alibi"}  # the eager implementation of transformers 5.24 adds the slopes' biases twice
TEXT_CONFIGS = {"Gemma3": "Gemma3TextConfig", "Gemma3n": "Gemma3nTextConfig", "Gemma4": "Gemma4TextConfig",
                "Gemma4Unified": "Gemma4UnifiedTextConfig", "Llama4": "Llama4TextConfig", "Qwen3_5": "Qwen3_5TextConfig",
                "Qwen3_5Moe": "Qwen3_5MoeTextConfig"}


def fill(model, seed):
    """Random weights, exact in float16: matrices preserve the scale of their input, queries and keys are sharpened,
    norms are around the identity."""
    generator = torch.Generator().manual_seed(seed)
    kind = type(model).__name__
    centered = kind.startswith(("Gemma", "Qwen3Next", "Qwen3_5")) and not kind.startswith(("Gemma3n", "Gemma4"))
    for name, tensor in model.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        if tensor.ndim == 0:  # a constant
            continue
        if name.endswith(("bias", "sinks")):
            value = 0.3 * noise
        elif name.endswith("A_log"):
            value = noise - 3
        elif tensor.ndim == 1:
            value = (0 if centered and "linear_attn" not in name else 1) + 0.2 * noise
        elif any(part in name for part in ("embed_tokens", "embed_in", "wte", "word_embeddings.")):
            value = noise
        elif any(part in name for part in ("embed_positions", "wpe")):
            value = 0.3 * noise
        else:
            inputs = tensor.shape[1] if "GptOss" in type(model).__name__ and tensor.ndim == 3 else tensor.shape[-1]
            sharp = any(part in name for part in ("q_proj", "k_proj", "qkv", "query_key_value", "c_attn", "q_b_proj"))
            value = noise * (1.6 if sharp else 1.0) / np.sqrt(inputs)
        tensor.copy_(value.half())
    model.tie_weights()
    return model.eval()


def rename_layers(path):
    """transformers 5.24 saves a wrapper's text layers under the name of its vision layers."""
    tensors = {key.replace("language_model.model.blocks.", "language_model.model.layers."): value
               for key, value in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def transpose_experts(path):
    """To inputs by outputs, as in the published files."""
    tensors = load_file(path)
    for key in tensors:
        if "mlp.experts." in key:
            tensors[key] = np.ascontiguousarray(tensors[key].swapaxes(1, 2))
    save_file(tensors, path, metadata={"format": "pt"})


def join_experts(path):
    """From one tensor per expert and matrix to all experts' gates and ups, and outputs, as in the published files."""
    tensors = load_file(path)
    prefixes = {key.split("experts.")[0] + "experts." for key in tensors if ".experts.0." in key}
    for prefix in sorted(prefixes):
        of = lambda part: [tensors.pop(f"{prefix}{e}.{part}_proj.weight") for e in range(4)]
        gates, ups, downs = of("gate"), of("up"), of("down")
        tensors[prefix + "gate_up_proj"] = np.stack([np.concatenate(pair) for pair in zip(gates, ups)])
        tensors[prefix + "down_proj"] = np.stack(downs)
    save_file(tensors, path, metadata={"format": "pt"})


def divide_convolutions(path, keys):
    """In the parts of queries, keys and values; transformers 5.24 saves three equal parts, and renames a norm of
    attention layers."""
    tensors = load_file(path)
    for prefix in sorted({key.split("q_conv1d")[0] for key in tensors if "q_conv1d" in key}):
        names = [f"{prefix}{part}_conv1d.weight" for part in "qkv"]
        for name, part in zip(names, np.split(np.concatenate([tensors[name] for name in names]), [keys, 2 * keys])):
            tensors[name] = np.ascontiguousarray(part)
    for layer in [key.split("post_feedforward")[0] for key in tensors if "post_feedforward" in key]:
        tensors[layer + "post_attention_layernorm.weight"] = tensors.pop(layer + "feedforward_layer_norm.weight")
    save_file(tensors, path, metadata={"format": "pt"})


def rename_dense_layers(path):
    """As published; transformers 5.24 saves a dense MLP with the prefix of mixtures."""
    tensors = load_file(path)
    for key in [key for key in tensors if "block_sparse_moe." in key]:
        if key.split("block_sparse_moe.")[1] in ("gate_proj.weight", "up_proj.weight", "down_proj.weight"):
            tensors[key.replace("block_sparse_moe.", "mlp.")] = tensors.pop(key)
    save_file(tensors, path, metadata={"format": "pt"})


def add_draft_layer(path):
    """Tensors of a draft head, which is not loaded."""
    tensors = load_file(path)
    tensors["mtp.fc.weight"] = np.zeros((4, 8), np.float16)
    tensors["mtp.layers.0.input_layernorm.weight"] = np.zeros(4, np.float16)
    save_file(tensors, path, metadata={"format": "pt"})


def make(name, seed):
    kind, options = FAMILIES[name]
    wrapper = kind.removesuffix("ForConditionalGeneration")
    if wrapper != kind:
        config = getattr(transformers, wrapper + "Config")(**options)
        config.text_config._experts_implementation = "eager"
        model = getattr(transformers, kind)(config)
        model.set_attn_implementation("eager")
        return fill(model, seed)
    config = getattr(transformers, TEXT_CONFIGS.get(kind, kind + "Config"))(**options)
    config._experts_implementation = "eager"
    config._attn_implementation = "sdpa" if name in SDPA else "eager"
    return fill(getattr(transformers, kind + "ForCausalLM")(config), seed)


# ---- GGUF ------------------------------------------------------------------------------------------------------------
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


def main(out, names):
    for seed, name in enumerate(FAMILIES):
        if names and name not in names:
            continue
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        model = make(name, SEEDS.get(name, seed + 100))
        model = model.float() if name in FLOAT32 else model.double()
        with torch.no_grad():
            logits = model(torch.tensor([LONGER_IDS if name in RECURRENT else IDS])).logits[0].float().numpy()
        folder.mkdir(parents=True)
        if name in GGUF_FAMILIES:
            write_gguf(folder / "model.gguf", name, GGUF_FAMILIES[name], model)
        model.half().save_pretrained(folder)  # last, because it also rounds the weights used for the computation
        (folder / "generation_config.json").unlink(missing_ok=True)
        if name == "qwen3_vl_moe":
            transpose_experts(folder / "model.safetensors")
        if name == "kimi_k25":
            rename_layers(folder / "model.safetensors")
        if name == "qwen3_5_moe":
            join_experts(folder / "model.safetensors")
        if name == "olmo_hybrid":
            divide_convolutions(folder / "model.safetensors", 24)
        if name == "kimi_linear":
            rename_dense_layers(folder / "model.safetensors")
        if name in ("qwen3_next", "qwen3_5"):
            add_draft_layer(folder / "model.safetensors")
        logits.astype("<f4").tofile(folder / "logits.f32")
    total = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{total} bytes in {out}")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "families", sys.argv[2:])
