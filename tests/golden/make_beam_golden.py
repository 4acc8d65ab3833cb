#!/usr/bin/env python3
"""Makes beams.json: results of beam search with the tiny models of this folder, by the reference implementation.

    make_beam_golden.py [FOLDER]            needs torch, transformers

A case has model, prompt, ids that end the answer, and the search parameters with generate()'s names; `answer` is the
text that generate(do_sample=False) appends to the prompt in float64. `processors` are those of generate(), by its
names: they edit the log probabilities, which are not renormalized. Cases that differ in float32 are near-ties and are
omitted. With a `diversity_rate`, which transformers lacks, `answer` is the result of the function below, which is
compared with generate() on all other cases.
"""
import json
import math
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

FOLDER = Path(__file__).parent
FAMILIES = ["llama", "gpt2", "qwen3"]
IDS = [(i * i * 7 + i * 13 + 5) % 96 for i in range(40)]


def generate(model, case):
    inputs = torch.tensor([case["prompt"]])
    out = model.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, num_beams=case["width"],
                         max_new_tokens=case["max_tokens"], length_penalty=case["length_penalty"],
                         early_stopping=case["early_stopping"], eos_token_id=case["ends"], pad_token_id=0, **arguments(case))
    return trim(out[0, len(case["prompt"]):].tolist(), case)


def arguments(case):
    """A case's processors as generate() expects them; JSON keys are strings."""
    given = dict(case.get("processors", {}))
    if "sequence_bias" in given:
        given["sequence_bias"] = [[[token], bias] for token, bias in given["sequence_bias"]]
    return given


def process(case, tokens, scores):
    """A direct implementation of the processors."""
    given, said = case.get("processors", {}), case["prompt"] + tokens
    for token, bias in given.get("sequence_bias", []):
        scores[token] += bias
    for token in set(said):
        scores[token] *= given.get("repetition_penalty", 1.0) if scores[token] < 0 else 1 / given.get("repetition_penalty", 1.0)
    for word in given.get("bad_words_ids", []):
        if len(word) == 1 or said[1 - len(word):] == word[:-1]:
            scores[word[-1]] = -math.inf
    if len(tokens) < given.get("min_new_tokens", 0):
        for token in case["ends"]:
            scores[token] = -math.inf
    return scores


def trim(answer, case):
    for at, token in enumerate(answer):
        if token in case["ends"]:
            return answer[:at + 1]
    return answer


def search(model, case):
    """Beam search with the diversity of Li, Monroe and Jurafsky (2016), implemented directly: no caches, no batches."""
    width, limit, penalty = case["width"], case["max_tokens"], case["length_penalty"]
    beams, answers = [([], 0.0)], []
    for length in range(1, limit + 1):
        ranked = []
        for tokens, total in beams:
            with torch.no_grad():
                logits = model(torch.tensor([case["prompt"] + tokens])).logits[0, -1]
            scores = process(case, tokens, torch.log_softmax(logits, -1))
            best = torch.sort(scores, descending=True, stable=True)
            for rank, (value, token) in enumerate(zip(best.values.tolist(), best.indices.tolist())):
                ranked.append((total + value - case["diversity_rate"] * rank, tokens + [token], total + value))
        ranked.sort(key=lambda one: -one[0])
        over = [one for one in ranked if one[1][-1] in case["ends"] or length == limit]
        answers += [(total / length ** penalty, tokens) for _, tokens, total in ranked[:width]
                    if tokens[-1] in case["ends"] or length == limit]
        answers = sorted(answers, key=lambda one: -one[0])[:width]
        beams = [(tokens, total) for _, tokens, total in ranked if not (tokens[-1] in case["ends"] or length == limit)]
        beams = beams[:width]
        if not beams or len(over) == len(ranked):
            break
        if len(answers) < width:
            continue
        if case["early_stopping"] is True:
            break
        tokens = limit if case["early_stopping"] == "never" and penalty > 0 else length
        if max(total for _, total in beams) / tokens ** penalty <= answers[-1][0]:
            break
    return answers[0][1]


PROCESSORS = [
    {"repetition_penalty": 1.3}, {"repetition_penalty": 2.0}, {"repetition_penalty": 0.8},
    {"bad_words_ids": "first"}, {"bad_words_ids": "first", "repetition_penalty": 1.2},
    {"min_new_tokens": 9}, {"sequence_bias": "first"}, {"sequence_bias": "first", "repetition_penalty": 1.5, "min_new_tokens": 5},
]


def add_processed(family, models, cases):
    """Cases with processors that change the answer: a "first" one concerns the tokens found without it."""
    left_out = 0
    for number, given in enumerate(PROCESSORS):
        for width, penalty in ((2, 1.0), (4, 1.0), (5, 0.0)):
            case = dict(model=family, prompt=IDS[:8 + 2 * number], width=width, length_penalty=penalty, early_stopping=False,
                        diversity_rate=0.0, ends=[2, 7, 11, 30, 61], max_tokens=14)
            plain = search(models[0], case)
            said = [token for token in plain if token not in case["ends"]] or [40, 41]
            named = {"bad_words_ids": [[said[0]], said[:2][-1:], said[1:3] if len(said) > 2 else [50, 51]],
                     "sequence_bias": [[said[0], -2.5], [45, 1.5]]}
            case["processors"] = {key: named[key] if value == "first" else value for key, value in given.items()}
            found = [find(model, case) for model in models for find in (search, generate)]
            if any(other != found[0] for other in found):
                left_out += 1
                print(f"left out: {case} {found}")
                continue
            cases.append(dict(case, answer=found[0]))
    return left_out


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    searches = [(2, 1.0, False), (3, 0.0, True), (4, 1.0, False), (4, 2.0, "never"), (4, -1.0, "never"), (5, 1.0, True),
                (8, 0.6, False), (16, 1.0, False), (16, 0.0, "never")]
    cases, left_out = [], 0
    for family in FAMILIES:
        single = AutoModelForCausalLM.from_pretrained(FOLDER / family, dtype=torch.float32).eval()
        double = AutoModelForCausalLM.from_pretrained(FOLDER / family, dtype=torch.float64).eval()
        for number, (width, penalty, stopping) in enumerate(searches):
            for ends in ([2], [2, 7, 11, 30, 61]):
                for rate in (0.0, 0.7) if number in (2, 5) else (0.0,):
                    case = dict(model=family, prompt=IDS[:6 + 3 * number], width=width, length_penalty=penalty,
                                early_stopping=stopping, diversity_rate=rate, ends=ends, max_tokens=18)
                    found = [search(model, case) for model in (double, single)]
                    if rate == 0.0:
                        found += [generate(model, case) for model in (double, single)]
                    if any(other != found[0] for other in found):
                        left_out += 1
                        print(f"left out: {case} {found}")
                        continue
                    cases.append(dict(case, answer=found[0]))
        left_out += add_processed(family, (double, single), cases)
    text = ",\n".join(json.dumps(case) for case in cases)
    (out / "beams.json").write_text(f"[\n{text}\n]\n")
    ended = sum(case["answer"][-1] in case["ends"] for case in cases)
    print(f"{len(cases)} cases, {ended} ended by an id, {left_out} left out")


if __name__ == "__main__":
    main()
