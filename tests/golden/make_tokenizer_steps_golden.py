#!/usr/bin/env python3
"""Writes the references of tests/engine/text/tokenizer_steps_test.cpp: digests of the token ids that the library
`tokenizers` gives for a few hundred strings, for every step of a tokenizer.json, for every pre-tokenizer name in GGUF
files, and for the flags of added tokens.
    make_tokenizer_steps_golden.py

One vocabulary serves all byte-level cases. It is trained on whole lines, so that its merges cross every boundary at
which a step should split. The character-level ones use Llama 2's and T5's small vocabularies. Needs tokenizers."""
import json

import numpy as np
from make_tokenizer_golden import (GPT2, HERE, LLAMA3, O200K, QWEN2, STRINGS, TEKKEN, byte_level, digest, encoded,
                                   train)

FIRST, COUNT = 100, 250  # strings; those before are very long
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPARK = DEEPSEEK3.replace(r"[\r\n]*|\s*[\r\n]+|", r"|[\r\n]|")
LATIN = (r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-"
         r"\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{"
         r"3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{"
         r"1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1"
         r"D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x"
         r"{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE"
         r"0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x"
         r"{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E"
         r"}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A"
         r"680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13"
         r"}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{1"
         r"0C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}")
CJK, KANA = "[一-龥ࠀ-一가-퟿]+", "[一-龥぀-ゟ゠-ヿ]+"
ASIAN = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"
YOUTU = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + KANA
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        + CONTRACTIONS + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + CONTRACTIONS
        + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
JAIS2 = (LLAMA3[:-len(r"|\s+(?!\S)|\s+")] + "".join(rf"|\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4))
         + r"|\s{1,2}(?!\S)|\s{1}")
QWEN35 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
EXAONE_MOE = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]"
              r"|\s+(?!\S)|\s+")

# By name in GGUF files: patterns that isolate their matches, one after another; "digits" for the step Digits.
PATTERNS = {
    "gpt-2": [GPT2], "smollm": ["digits", GPT2], "llama-bpe": [LLAMA3], "qwen2": [QWEN2], "qwen35": [QWEN35],
    "stablelm2": [QWEN2], "tekken": [TEKKEN], "gpt-4o": [O200K], "jais-2": [JAIS2], "olmo": [GPT2],
    "command-r": ["digits", GPT2],
    "deepseek-llm": ["[\r\n]", f"\\s?[{LATIN}]+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", CJK, r"\p{N}+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, "digits"],
    "deepseek-v3": [r"\p{N}{1,3}", KANA, DEEPSEEK3], "spark2_5": [r"\p{N}{1,3}", KANA, SPARK, "digits"],
    "youtu": [YOUTU, O200K.replace("{1,3}", "")],
    "bloom": [BLOOM], "viking": [BLOOM, "digits"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", "digits",
                  r"[\p{P}!-/:-@\[-`{-~]", GPT2],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K], "kimi-k2": [KIMI],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"], "bailingmoe": [BAILING],
    "seed-coder": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "ufakzeka": [QWEN2[len(CONTRACTIONS) + 1:]],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", ASIAN, DEEPSEEK3], "laguna": ["[^\\n]+|[\\n]+", QWEN2],
    "exaone-moe": [EXAONE_MOE],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]}
NFC = {"qwen2", "qwen35", "olmo", "command-r"}
WHOLE_WORDS = {"llama-bpe", "tekken", "youtu", "minicpm5"}


def step(kind, **members):
    return {"type": kind, **members}


def split(pattern, behavior="Isolated", invert=False, literal=False):
    return step("Split", pattern={"String" if literal else "Regex": pattern}, behavior=behavior, invert=invert)


def replace(pattern, content, literal=False):
    return step("Replace", pattern={"String" if literal else "Regex": pattern}, content=content)


def steps(*pre_tokenizers):
    return step("Sequence", pretokenizers=list(pre_tokenizers))


def norms(*normalizers):
    return step("Sequence", normalizers=list(normalizers))


def bytes_step(prefix=False, regex=False):
    return step("ByteLevel", add_prefix_space=prefix, trim_offsets=True, use_regex=regex)


def metaspace(scheme="always", cut=True):
    return step("Metaspace", replacement="\u2581", prepend_scheme=scheme, split=cut)


FALCON = steps(step("Punctuation", behavior="Contiguous"), bytes_step(regex=True), step("Digits", individual_digits=False),
               split("[0-9][0-9][0-9]"))
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")


def named_cases():
    """Name, then the parts of a tokenizer.json that replace those of the small byte-level one."""
    for name, patterns in PATTERNS.items():
        made = [step("Digits", individual_digits=True) if p == "digits" else split(p) for p in patterns]
        yield "gguf:" + name, "bytes", {
            "pre_tokenizer": steps(*made, bytes_step()), "normalizer": step("NFC") if name in NFC else None,
            "model": {"ignore_merges": name in WHOLE_WORDS}}
    yield "gguf:falcon", "bytes", {"pre_tokenizer": FALCON}


def pre_tokenizer_cases():
    for behavior in BEHAVIORS:
        for invert in (False, True):
            yield f"split {behavior} {invert}", split(r"\p{L}\p{M}*|\d{2}|  +", behavior, invert)
        yield f"literal {behavior}", split("e", behavior, literal=True)
        yield f"empty {behavior}", split(r"[0-9]*", behavior)
        yield f"punctuation {behavior}", step("Punctuation", behavior=behavior)
    yield "digits", step("Digits", individual_digits=False)
    yield "single digits", step("Digits", individual_digits=True)
    yield "white space", step("Whitespace")
    yield "no white space", step("WhitespaceSplit")
    yield "delimiter", step("CharDelimiterSplit", delimiter="\u4e16")
    yield "fixed length", step("FixedLength", length=5)
    yield "scripts", step("UnicodeScripts")
    for scheme in ("always", "first", "never"):
        for cut in (False, True):
            yield f"metaspace {scheme} {cut}", steps(split(r"\d"), metaspace(scheme, cut))
    yield "nested", steps(steps(split(r"\s"), steps(step("Digits", individual_digits=True))), split(r"[aeiou]+"))
    for name, pattern in {
            "posix": r"[[:upper:]]+|[[:punct:]]|[[:^alpha:]\n]{2}", "nested class": r"[a-f[0-9[\u4e00-\u9fff]]]+|[^\s[a-z]]",
            "intersection": r"[\p{L}&&[^aeiou]&&\p{Latin}]+", "hexadecimal": r"\h+|\H", "word": r"\w+|\W",
            "repeated interval": r"\p{N}{1,3}+|\p{L}{2}+", "lines": r"^\s*|\S+$", "names": r"\p{Letter}+|\p{Punct}|\p{^L}",
            "dot": r"(?m:a.)|e.", "scripts by name": r"\p{Han}+|\p{Hiragana}+|\p{Greek}+", "escapes": r"\x{41}|\u00e9|\t|[\]\-\\]",
            "boundary": r"\b\d+\b|\B.\B", "not space in class": r"[^\S\r\n]+|[\S&&\D]{3}", "open interval": r"\p{L}{,2}x|a{1,}"
    }.items():
        yield "regex " + name, split(pattern)


def normalizer_cases():
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        yield kind, step(kind)
    yield "unaccented", norms(step("NFD"), step("StripAccents"), step("Lowercase"), step("NFC"))
    for left, right in ((True, True), (True, False), (False, True)):
        yield f"strip {left} {right}", step("Strip", strip_left=left, strip_right=right)
    yield "replace", norms(replace(r"\s+", " "), replace("e", "\u00e9", literal=True))
    yield "prepend", norms(step("Prepend", prepend="\u2581x"), replace(" ", "\u2581", literal=True))


def added(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False,
            "special": False} | flags


def added_cases():
    for special in (False, True):
        words = (["CAN'T", "o'clock", "12:30", "\u4e16\u754c", "C:\\dir"] if special else
                 ["cache", "ring", "a", "\u4e16\u754c", "7", "the", "Hello World"])
        for flags in ({}, {"single_word": True}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True},
                      {"lstrip": True, "rstrip": True, "single_word": True}):
            yield f"{special} {sorted(flags)}", [added(w, special=special, **flags) for w in words], None
        lower = [added(w, special=special, normalized=n) for w, n in (("CAN'T", True), ("O'clock", True), ("12:30", False))]
        yield f"{special} normalised", lower, step("Lowercase")
        yield f"{special} normalised words", [t | {"single_word": True, "lstrip": True} for t in lower], step("Lowercase")
        spaces = [added(w, special=special, normalized=True) for w in words[:3]]
        yield f"{special} behind a space", spaces, norms(step("Prepend", prepend="\u2581"),
                                                         replace(" ", "\u2581", literal=True))
    yield "spaces", [added(" " * n, normalized=True) for n in range(2, 9)] + [added("\t\t"), added("\n\n")], None


def character_cases():
    escape = replace(" ", "\u2581", literal=True)
    yield "gemma", {"normalizer": escape, "pre_tokenizer": split(" ", "MergedWithPrevious", literal=True)}
    yield "no bytes", {"normalizer": escape, "model": {"byte_fallback": False, "fuse_unk": True}}
    yield "no bytes, one by one", {"normalizer": escape, "model": {"byte_fallback": False, "fuse_unk": False}}
    yield "whole words", {"normalizer": None, "pre_tokenizer": metaspace("always"), "model": {"ignore_merges": True}}
    for scheme in ("always", "first", "never"):
        for cut in (False, True):
            yield f"{scheme} {cut}", {"normalizer": step("NFKC"), "pre_tokenizer": metaspace(scheme, cut)}
    yield "words", {"normalizer": step("Lowercase"),
                    "pre_tokenizer": steps(step("WhitespaceSplit"), step("Digits", individual_digits=True), metaspace())}


def unigram_cases():
    yield "metaspace", {"normalizer": norms(step("NFKC"), replace(" {2,}", " ")), "pre_tokenizer": metaspace("first")}
    yield "digits", {"normalizer": step("Lowercase"),
                     "pre_tokenizer": steps(metaspace("always"), step("Digits", individual_digits=True))}
    yield "plain", {"normalizer": None, "pre_tokenizer": step("Whitespace")}


def cases():
    yield from named_cases()
    for name, pre_tokenizer in pre_tokenizer_cases():
        yield "cut:" + name, "bytes", {"pre_tokenizer": steps(pre_tokenizer, bytes_step())}
    yield "cut:prefix", "bytes", {"pre_tokenizer": bytes_step(True, True)}
    yield "cut:falcon", "bytes", {"pre_tokenizer": FALCON}
    yield "normal:bytes", "bytes", {"normalizer": norms(step("NFC"), step("ByteLevel")), "pre_tokenizer": None}
    for name, normalizer in normalizer_cases():
        yield "normal:" + name, "bytes", {"normalizer": normalizer}
    for name, tokens, normalizer in added_cases():
        yield "added:" + name, "bytes", {"normalizer": normalizer, "added": tokens}
    for name, patch in character_cases():
        yield "characters:" + name, "llama2", patch
    for name, patch in unigram_cases():
        yield "unigram:" + name, "unigram", patch


def patched(base, patch):
    data = json.loads(json.dumps(base))
    data["model"].update(patch.get("model", {}))
    for key in ("normalizer", "pre_tokenizer"):
        if key in patch:
            data[key] = patch[key]
    for token in patch.get("added", []):
        size = max(list(data["model"]["vocab"].values()) + [t["id"] for t in data["added_tokens"]]) + 1
        known = data["model"]["vocab"].get(token["content"], size)
        data["added_tokens"].append({"id": known} | token)
    data["added_tokens"].sort(key=lambda t: t["id"])
    return data


def bases():
    known = {name: json.loads((HERE / name / "tokenizer.json").read_text()) for name in ("bytes", "llama2", "unigram")}
    known["unigram"]["added_tokens"] = []  # the library finds special tokens in text, as pieces; we never do
    for i in range(3):
        known["unigram"]["model"]["vocab"][i][0] = f"\0special {i}\0"
    return known


def main():
    from tokenizers import Tokenizer
    whole = train(byte_level("<|[^<]{1,40}"), 1500, ["<|im_start|>", "<|im_end|>"], ["<tool_call>"])
    data = json.loads(whole.to_str())
    data["pre_tokenizer"] = bytes_step(regex=True)
    (HERE / "bytes").mkdir(exist_ok=True)
    (HERE / "bytes" / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    known, kept, digests = bases(), [], []
    for name, base, patch in cases():
        numbers = encoded(Tokenizer.from_str(json.dumps(patched(known[base], patch))))
        digests += [digest(numbers(STRINGS(i))) for i in range(FIRST, FIRST + COUNT)]
        kept.append({"name": name, "base": base, "patch": patch})
        print(name)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in kept)
    (HERE / "steps.json").write_text("[\n" + lines + "\n]\n")
    np.array(digests, dtype="<u4").tofile(HERE / "steps.u32")


if __name__ == "__main__":
    main()
