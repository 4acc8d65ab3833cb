#!/usr/bin/env python3
"""Expected results of `ringside eval` for the texts in eval/: the same three figures by transformers, in float32.

    make_eval_golden.py MODEL.gguf      for the default model (scripts/model): eval/smollm2.json; and eval/tiny.json for
    the system
                                        tests' model, whose weights are float32

Windows are those of transformers' documentation (Perplexity of fixed-length models); the last word and the choices are
scored like lm-evaluation-harness (lambada_openai, multiple_choice with acc and acc_norm). Every text is run separately.
`margins` are the distances of decisions from a tie: for a last word, how much likelier its least likely token is than
the best alternative (negative: less likely); for a question, how much likelier the right choice is than the best other
one. They show which decisions rounding may flip. Needs numpy, gguf, tokenizers, torch and transformers.
"""
import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from make_tokenizer_golden import smollm2
from score_text import load

sys.path.append(str(Path(__file__).parents[1] / "system"))
import tiny_model  # noqa: E402

FOLDER = Path(__file__).parent / "eval"
CONTEXT, STRIDE = 256, 128


def mean_and_error(values):
    values = np.array(values, np.float64)
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values))


def perplexity(losses):
    mean, error = mean_and_error(losses)
    return {"value": math.exp(mean), "stderr": math.exp(mean) * error}


def accuracy(margins):
    mean, error = mean_and_error([margin > 0 for margin in margins])
    return {"value": mean, "stderr": error}


class Scorer:
    def __init__(self, path):
        self.model, self.tokenizer = load(path), smollm2(path)

    def ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def rows(self, ids):
        """Log probabilities [len(ids) - 1, vocabulary] of the next token after each id but the last."""
        with torch.no_grad():
            logits = self.model(torch.tensor([ids])).logits[0, :-1]
        return torch.log_softmax(logits.double(), -1).numpy()

    def continuation(self, context, text):
        """Log probabilities of the tokens of `text` after `context`, and those of the best alternative
        at each place."""
        ids, begin = self.ids(context + text), len(self.ids(context))
        assert self.ids(context) == ids[:begin], "a token lies across the border"
        rows, targets = self.rows(ids)[begin - 1:], np.array(ids[begin:])
        at = np.arange(len(targets))
        own = rows[at, targets]
        others = rows.copy()
        others[at, targets] = -np.inf
        return own, others.max(-1)


def score_text(scorer):
    ids, losses, counted = scorer.ids((FOLDER / "text.txt").read_text()), [], 0
    for begin in range(0, len(ids), STRIDE):
        end = min(begin + CONTEXT, len(ids))
        rows = scorer.rows(ids[begin:end])
        losses += [-rows[i - begin - 1, ids[i]] for i in range(max(counted, begin + 1), end)]
        counted = end
        if end == len(ids):
            break
    return {"context": CONTEXT, "stride": STRIDE, "tokens": len(losses), "perplexity": perplexity(losses)}


def score_passages(scorer):
    margins, losses, tokens = [], [], []
    for line in (FOLDER / "passages.jsonl").read_text().splitlines():
        context, word = json.loads(line)["text"].rsplit(" ", 1)
        own, others = scorer.continuation(context, " " + word)
        margins.append(float((own - others).min()))
        losses.append(-own.sum())
        tokens += list(-own)
    return {"tokens": len(tokens), "accuracy": accuracy(margins), "perplexity": perplexity(losses),
            "token_perplexity": perplexity(tokens), "margins": [round(m, 4) for m in margins]}


def score_questions(scorer):
    margins, by_length = [], []
    tokens = 0
    for line in (FOLDER / "questions.jsonl").read_text().splitlines():
        sample = json.loads(line)
        choices, answer = sample["choices"], sample["answer"]
        right = choices.index(answer) if isinstance(answer, str) else answer
        own = [scorer.continuation(sample["question"], " " + choice)[0] for choice in choices]
        tokens += sum(len(one) for one in own)
        for found, values in ((margins, [one.sum() for one in own]),
                              (by_length, [one.sum() / len(choice) for one, choice in zip(own, choices)])):
            found.append(float(values[right] - max(v for i, v in enumerate(values) if i != right)))
    return {"tokens": tokens, "accuracy": accuracy(margins), "accuracy_normalised": accuracy(by_length),
            "margins": [round(m, 4) for m in margins], "margins_normalised": [round(m, 4) for m in by_length]}


def write(name, path):
    scorer = Scorer(str(path))
    figures = {"model": path.name, "arithmetic": "weights dequantised to float32, float32 sums",
               "text": score_text(scorer), "passages": score_passages(scorer), "questions": score_questions(scorer)}
    (FOLDER / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        write("tiny", Path(tiny_model.make(Path(folder) / "tiny.gguf")))
    write("smollm2", Path(sys.argv[1]))


if __name__ == "__main__":
    main()
