#!/usr/bin/env python3
"""Makes the tiny random models of families/ and their logits with the reference implementations.

    make_family_golden.py [FOLDER [NAME ...]]            needs torch, transformers, safetensors, numpy, gguf

One model per family or variant, with every distinguishing trait enabled and strong enough to show: different windows
and rotations per layer, effective caps, multipliers far from 1. Per model config.json, float16 safetensors (every
weight is exact in it) and logits.f32: float32 [len(IDS), vocab], the logits after each of the ids of make_golden.py
(of LONGER_IDS for recurrent networks), from a float64 run if the implementation supports one. For those in
GGUF_FAMILIES also model.gguf (family_gguf.py).
"""
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from family_gguf import GGUF_FAMILIES, write_gguf
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
NEMOTRON = dict(COMMON, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                max_position_embeddings=256, ssm_state_size=12, mamba_num_heads=4, mamba_head_dim=16, n_groups=2,
                conv_kernel=4, chunk_size=16)
NEMOTRON_MOE = dict(n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=2, routed_scaling_factor=2.5,
                    moe_intermediate_size=24, moe_shared_expert_intermediate_size=40)
KIMI_LINEAR = dict(
    COMMON, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
    max_position_embeddings=256, kv_lora_rank=16, q_lora_rank=None, qk_rope_head_dim=8, qk_nope_head_dim=16,
    v_head_dim=16, moe_intermediate_size=24, num_local_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=2,
    topk_group=2, routed_scaling_factor=2.446, linear_head_dim=16, linear_conv_kernel_dim=4,
    mlp_layer_types=["dense", "sparse", "sparse"], layer_types=DELTA["layer_types"])
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
                            rope_parameters={"sliding_attention": dict(rope_type="default", rope_theta=20000.0),
                                             "full_attention": dict(rope_type="yarn", rope_theta=20000.0, factor=4.0,
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
        NEMOTRON, intermediate_size=48, **NEMOTRON_MOE,
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
    "kimi_linear": ("KimiLinear", dict(KIMI_LINEAR, linear_num_heads=2)),
    "olmo_hybrid": ("OlmoHybrid", dict(GROUPED, num_hidden_layers=3, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=12, linear_value_head_dim=16, linear_conv_kernel_dim=4, linear_allow_neg_eigval=True,
        layer_types=DELTA["layer_types"], rope_parameters=None)),
    "falcon_h1": ("FalconH1", dict(
        GROUPED, head_dim=16, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=12,
        mamba_chunk_size=16, lm_head_multiplier=0.3, embedding_multiplier=5.0, mlp_multipliers=[1.7, 0.4],
        key_multiplier=0.6, attention_out_multiplier=1.4, attention_in_multiplier=0.8, ssm_in_multiplier=1.3,
        ssm_multipliers=[0.7, 1.2, 0.5, 1.5, 0.9], ssm_out_multiplier=0.6)),
    "falcon_h1_norm": ("FalconH1", dict(
        GROUPED, mamba_d_ssm=48, mamba_n_heads=3, mamba_d_head=16, mamba_n_groups=3, mamba_d_state=12,
        mamba_chunk_size=16, mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_conv_bias=False)),
    "nemotron_h_latent": ("NemotronH", dict(
        NEMOTRON, **NEMOTRON_MOE, moe_latent_size=16, layers_block_type=["mamba", "moe", "attention", "moe"])),
    "lfm3": ("Lfm3", dict(
        GROUPED, head_dim=16, num_hidden_layers=4, sliding_window=12, conv_L_cache=5,
        layer_types=["conv", "sliding_attention", "full_attention", "conv"])),
    "solar_open": ("SolarOpen", dict(
        GROUPED, head_dim=16, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=1,
        moe_intermediate_size=16, routed_scaling_factor=1.5, rope_parameters=YARN)),
    "exaone_moe": ("ExaoneMoe", dict(
        GROUPED, num_hidden_layers=4, sliding_window=12, sliding_window_pattern=4, num_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=16, num_shared_experts=2, first_k_dense_replace=1)),
    "hunyuan_v1_moe": ("HunYuanMoEV1", dict(
        GROUPED, head_dim=16, intermediate_size=24, num_experts=6, moe_topk=2, rope_parameters=dict(
            rope_type="dynamic", rope_theta=10000.0, alpha=1000.0, factor=1.0))),
    "hy_v3": ("HYV3", dict(
        GROUPED, head_dim=16, num_hidden_layers=3, num_experts=6, num_experts_per_tok=2, num_shared_experts=2,
        moe_intermediate_size=16, router_scaling_factor=1.6, mlp_layer_types=["dense", "sparse", "sparse"])),
    "cohere2_moe": ("Cohere2Moe", dict(
        GROUPED, head_dim=16, intermediate_size=16, num_hidden_layers=4, logit_scale=0.25, sliding_window=12,
        num_experts=6, num_experts_per_tok=2, num_shared_experts=2)),
    "granite_swa": ("GraniteSWA", dict(
        GROUPED, num_hidden_layers=4, sliding_window=12, embedding_multiplier=12.0, residual_multiplier=0.22,
        logits_scaling=8.0, attention_multiplier=0.2, layer_rope_theta=[0, 10000.0, 10000.0, 500000.0])),
}
# Only as GGUF, for traits that differ from the above because converters store less, or other layers.
GGUF_ONLY = {
    "granitehybrid_gguf": ("GraniteMoeHybrid", dict(
        MAMBA, num_local_experts=0, shared_intermediate_size=48, mamba_n_groups=2, mamba_conv_bias=False,
        position_embedding_type="rope", residual_multiplier=0.22)),
    "nemotron_h_gguf": ("NemotronH", dict(
        NEMOTRON, intermediate_size=48, n_groups=1, layers_block_type=["mamba", "mlp", "attention"])),
    "nemotron_h_moe_gguf": ("NemotronH", dict(
        NEMOTRON, **NEMOTRON_MOE, layers_block_type=["mamba", "moe", "attention", "moe", "mamba"])),
    "llama4_gguf": ("Llama4", dict(
        GROUPED, head_dim=16, num_hidden_layers=4, intermediate_size=16, intermediate_size_mlp=32, num_local_experts=4,
        interleave_moe_layer_step=2)),
    "laguna_gguf": ("Laguna", dict(
        GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=12, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=12, shared_expert_intermediate_size=20, moe_routed_scaling_factor=1.7,
        num_attention_heads_per_layer=[4, 6, 2], layer_types=layers("full", "sliding", "sliding"))),
    "phimoe_gguf": ("Phimoe", dict(
        GROUPED, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2, attention_bias=True,
        lm_head_bias=True)),
    "kimi_linear_gguf": ("KimiLinear", dict(
        KIMI_LINEAR, linear_num_heads=4)),
    "ernie4_5_moe_gguf": ("Ernie4_5_Moe", dict(
        GROUPED, moe_num_experts=6, moe_k=2, moe_intermediate_size=16, moe_num_shared_experts=2,
        moe_layer_start_index=1)),
}
RECURRENT = {"falcon_h1", "falcon_h1_norm", "nemotron_h_latent", "lfm3", "granitehybrid_gguf", "nemotron_h_gguf", "nemotron_h_moe_gguf", "kimi_linear_gguf", "lfm2_biases", "kimi_linear", "olmo_hybrid", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe", "lfm2", "lfm2_moe",
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
    kind, options = (FAMILIES | GGUF_ONLY)[name]
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


def main(out, names):
    for seed, name in enumerate(FAMILIES | GGUF_ONLY):
        if names and name not in names:
            continue
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        model = make(name, SEEDS.get(name, 300 + list(GGUF_ONLY).index(name) if name in GGUF_ONLY else seed + 100))
        model = model.float() if name in FLOAT32 else model.double()
        with torch.no_grad():
            logits = model(torch.tensor([LONGER_IDS if name in RECURRENT else IDS])).logits[0].float().numpy()
        folder.mkdir(parents=True)
        if name in GGUF_FAMILIES:
            write_gguf(folder / "model.gguf", name, GGUF_FAMILIES[name], model)
        logits.astype("<f4").tofile(folder / "logits.f32")
        if name in GGUF_ONLY:
            continue
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
    total = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{total} bytes in {out}")


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "families", sys.argv[2:])
