#!/usr/bin/env python3
"""Makes soft prompts for the tiny models of this folder with PEFT, and the reference implementation's logits with them.

    make_soft_prompt_golden.py [FOLDER]            needs torch, transformers, peft, numpy

Per model a folder in soft_prompts/ as PEFT writes it (adapter_config.json, adapter_model.safetensors) and logits.f32:
float32 [len(IDS), vocab], the logits after each of the ids of ids.json following the prompt, from a float64 run.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from peft import PromptEncoderConfig, PromptTuningConfig, get_peft_model
from transformers import AutoModelForCausalLM

# Families that process an embedded token differently: unchanged, with positions, with a norm, with a separate scale,
# with a scale of every input.
MODELS = {"llama": (6, False), "gpt2": (5, True), "families/bloom": (3, False), "families/gemma2": (4, False),
          "families/granite": (7, True)}


def make(folder, name, tokens, encoded, ids):
    torch.manual_seed(len(name) + tokens)
    model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32)
    if encoded:
        config = PromptEncoderConfig(task_type="CAUSAL_LM", num_virtual_tokens=tokens, encoder_hidden_size=16)
    else:
        config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=tokens)
    adapted = get_peft_model(model, config).eval()
    with torch.no_grad():
        for table in adapted.prompt_encoder.parameters():
            table.copy_(torch.randn(table.shape))
        out = folder / "soft_prompts" / Path(name).name
        adapted.save_pretrained(out)
        (out / "README.md").unlink(missing_ok=True)
        settings = json.loads((out / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = name
        (out / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        logits = adapted.double()(input_ids=torch.tensor([ids])).logits[0, tokens:]
    assert logits.shape[0] == len(ids)
    logits.float().numpy().astype("<f4").tofile(out / "logits.f32")
    plain = np.fromfile(folder / name / "logits.f32", "<f4").reshape(len(ids), -1)
    print(name, "differs from the model alone by", np.abs(plain - logits.float().numpy()).max())


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    ids = json.loads((folder / "ids.json").read_text())
    for name, (tokens, encoded) in MODELS.items():
        make(folder, name, tokens, encoded, ids)


if __name__ == "__main__":
    main()
