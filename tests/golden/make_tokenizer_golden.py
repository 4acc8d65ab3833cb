#!/usr/bin/env python3
"""Writes the references of tests/engine/text/tokenizer_golden_test.cpp: digests of the token ids that the Python
`tokenizers` and `sentencepiece` libraries give for thousands of strings.
    make_tokenizer_golden.py MODEL.gguf [NAME]
With NAME it makes only the sets whose names start with it.

The strings come from a generator that the test has too (class Strings), so only digests are stored: 32 bits per string.
For SmolLM2 the tokenizer is built from the model's own vocabulary. For the other families small tokenizers are trained
here on generated text, with the families' pre-tokenizer patterns, and stored in tokenizer/<name>/. Needs gguf,
tokenizers, sentencepiece, mistral-common."""
import base64
import codecs
import io
import json
import re
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "tokenizer"
MASK = (1 << 64) - 1
SOURCE = json.loads((HERE / "fragments.json").read_text())
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


class Strings:
    """String number i of the test: bytes, some of them invalid UTF-8. A fixed generator (splitmix64),
    identical in C++."""

    def __init__(self):
        self.fragments = [f.encode() for f in SOURCE["fragments"]]
        self.ranges = SOURCE["ranges"]
        self.longs = [text.encode() * count for text, count in SOURCE["long_runs"]]

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        return self.next() % n

    def fragment(self):
        return self.fragments[self.below(len(self.fragments))]

    def character(self):
        low, high = self.ranges[self.below(len(self.ranges))]
        code = low + self.below(high - low + 1)
        return chr(0xFFFD if 0xD800 <= code < 0xE000 else code).encode()

    def mixed(self):
        return b"".join(self.fragment() if self.below(2) else self.character() for _ in range(1 + self.below(16)))

    def __call__(self, i):
        if i < len(self.longs):
            return self.longs[i]
        self.state = i
        kind = self.below(10)
        if kind < 4:
            parts = []
            for _ in range(1 + self.below(12)):
                parts += [self.fragment(), [b"", b" ", b"\n", b"  ", b" "][self.below(5)]]
            return b"".join(parts)
        if kind == 4:
            return b"".join(self.character() for _ in range(1 + self.below(30)))
        if kind == 5:
            return self.mixed()
        if kind == 6:
            before, unit = self.fragment(), self.fragment() if self.below(2) else self.character()
            return before + unit * (1 + self.below(200)) + self.fragment()
        if kind == 7:
            return bytes(self.below(256) for _ in range(1 + self.below(48)))
        if kind == 8:
            text = bytearray(self.mixed())
            for _ in range(1 + self.below(3)):
                at = self.below(len(text) + 1)
                if self.below(2):
                    del text[at:at + 1 + self.below(3)]
                else:
                    text.insert(at, self.below(256))
            return bytes(text)
        return b"".join([self.character(), b" ", b"  ", b"\n", b"a", self.fragment()][self.below(6)]
                        for _ in range(1 + self.below(20)))


STRINGS = Strings()


def digest(numbers):
    """FNV-1a over 32-bit numbers, folded to 32 bits."""
    h = 0xCBF29CE484222325
    for n in numbers:
        h = ((h ^ n) * 0x100000001B3) & MASK
    return (h ^ (h >> 32)) & 0xFFFFFFFF


def write_digests(name, count, numbers_of):
    digests = [digest(numbers_of(STRINGS(i))) for i in range(count)]
    np.array(digests, dtype="<u4").tofile(HERE / f"{name}.u32")
    print(f"{name}: {count} strings")


def decoded(data):
    """The characters that Python decodes, then the number of text bytes completed by each byte. Python holds back half
    a surrogate one byte longer than necessary: there only the characters count."""
    text = list(data.decode("utf-8", "replace").encode())
    if re.search(rb"\xed[\xa0-\xbf]", data):
        return text
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return text + [len(decoder.decode(bytes([b])).encode()) for b in data] + [len(decoder.decode(b"", True).encode())]


def encoded(tokenizer):
    """Ids as content (special tokens are text), a separator, ids as markup."""
    def numbers(data):
        text = data.decode("utf-8", "replace")
        tokenizer.encode_special_tokens = True
        content = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        return content + [0xFFFFFFFF] + tokenizer.encode(text, add_special_tokens=False).ids
    return numbers


def training_text(lines):
    texts = (STRINGS(1_000_000 + i) for i in range(lines))
    return [text.decode("utf-8", "replace") for text in texts]


def smollm2(model):
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    field = {k: f for k, f in gguf.GGUFReader(model).fields.items() if k.startswith("tokenizer.")}
    assert field["tokenizer.ggml.pre"].contents() == "smollm"
    tokens, kinds = field["tokenizer.ggml.tokens"].contents(), field["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in field["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, kind in zip(tokens, kinds) if kind == 3])
    return tokenizer


def byte_level(pattern, nfc=False, digits=False, ignore_merges=False):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps += [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        steps += [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train(tokenizer, vocabulary, specials, ordinary=(), alphabet=True):
    from tokenizers import AddedToken, pre_tokenizers, trainers
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[], show_progress=False, min_frequency=3,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if alphabet else [])
    tokenizer.train_from_iterator(training_text(6000), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in specials])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in ordinary])
    return tokenizer


def keep(name, tokenizer, count, config=None, spaced_merges=False):
    from tokenizers import Tokenizer
    folder = HERE / name
    folder.mkdir(parents=True, exist_ok=True)
    data = json.loads(tokenizer.to_str())
    if spaced_merges:  # the older spelling
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    write_digests(name, count, encoded(Tokenizer.from_file(str(folder / "tokenizer.json"))))


def character_bpe(ranked, normaliser, pre_tokenizer):
    """A SentencePiece-like tokenizer as model converters build it: every split of a token into two is a merge, ranked
    by the token's score. `ranked`: tokens, best first, after the special and byte tokens."""
    from tokenizers import Tokenizer, decoders, models
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ranked
    ids = {t: i for i, t in enumerate(tokens)}
    merges = []
    for token in ranked:
        splits = [(token[:k], token[k:]) for k in range(1, len(token))]
        merges += sorted((s for s in splits if s[0] in ids and s[1] in ids), key=lambda s: (ids[s[0]], ids[s[1]]))
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normaliser, pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def sentencepiece_model():
    import sentencepiece
    model = io.BytesIO()
    known = set("".join(SOURCE["fragments"])) - set("\0\u2581")  # the rest is left to byte tokens
    lines = ["".join(c for c in line if c in known) for text in training_text(6000) for line in text.split("\n")]
    lines = [line for line in lines if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=1500, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=True, split_digits=True, allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1,
        user_defined_symbols=["<tool_call>"])
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def keep_sentencepiece(name, processor, count):
    """The vocabulary as a metadata-only GGUF file, the digests from the sentencepiece library."""
    import gguf
    size = processor.get_piece_size()
    tokens, scores, kinds = [], [], []
    for i in range(size):
        piece = processor.id_to_piece(i)
        kind = (gguf.TokenType.UNKNOWN if processor.is_unknown(i) else gguf.TokenType.CONTROL if processor.is_control(i)
                else gguf.TokenType.BYTE if processor.is_byte(i) else gguf.TokenType.USER_DEFINED
                if piece == "<tool_call>" else gguf.TokenType.NORMAL)
        tokens.append(piece), scores.append(processor.get_score(i)), kinds.append(int(kind))
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    # The library takes NUL for the end, and U+2581 for a space, as we do.
    write_digests(name, count, lambda data: processor.encode(data.decode("utf-8", "replace")))
    return [t for t, k in zip(tokens, kinds) if k == 1]


def normalisation_rules():
    """A small charsmap with every kind of rule: white space, deleted characters, compatibility forms, and combining
    marks. (SentencePiece's own nmt_nfkc takes 240 kB.)"""
    rules = {c: " " for c in "\t\n\r\f\u00a0\u1680\u2003\u2028\u202f\u3000\ufeff"}
    rules |= {c: "" for c in "\x01\x02\x7f\u0085\u200b\u00ad"}
    for low, high in ((0xA0, 0x24F), (0x1E00, 0x1EFF), (0x2070, 0x218F), (0xFB00, 0xFB4F), (0xFF01, 0xFF9F)):
        for c in map(chr, range(low, high + 1)):
            if unicodedata.normalize("NFKC", c) != c:
                rules.setdefault(c, unicodedata.normalize("NFKC", c))
            parts = unicodedata.normalize("NFD", c)
            if 1 < len(parts) < 4:
                rules.setdefault(parts, c)
    return "".join("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) + "\n" for rule in rules.items())


def unigram_model(**options):
    import sentencepiece
    model = io.BytesIO()
    known = set("".join(SOURCE["fragments"])) - set("\0\u2581")
    lines = ["".join(c for c in line if c in known) for text in training_text(6000) for line in text.split("\n")]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in lines if line]), model_writer=model, model_type="unigram",
        vocab_size=1000, character_coverage=0.98, minloglevel=2, num_threads=1, **options)
    return strip_trainer(model.getvalue())


def strip_trainer(model):
    """The model without the rules' source, which the trainer stores next to the compiled ones."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.normalization_rule_tsv = ""
    return proto.SerializeToString()


def keep_model(name, model, count):
    """SentencePiece's file itself; ids and, unless one is unknown or the text contains U+2581, which represents a
    space, a separator and the bytes of their text."""
    import sentencepiece
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    (HERE / f"{name}.model").write_bytes(model)

    def numbers(data):
        given = data.decode("utf-8", "replace")
        ids = processor.encode(given)
        if "\u2581" in given or any(processor.is_unknown(i) for i in ids):
            return ids
        return ids + [0xFFFFFFFF] + list(processor.decode(ids).encode())
    write_digests(name, count, numbers)


def unigram_json(model, content):
    """transformers' conversion of SentencePiece's file. With `content`, special tokens get a spelling that occurs in no
    text: there we never match one, but the library would."""
    from sentencepiece import sentencepiece_model_pb2
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    special = [i for i, piece in enumerate(proto.pieces) if piece.type in (2, 3)]
    vocabulary = [(f"\0{i}\0" if content and i in special else piece.piece, piece.score)
                  for i, piece in enumerate(proto.pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
        normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    if not content:
        tokenizer.add_special_tokens([AddedToken(vocabulary[i][0], special=True, normalized=False) for i in special])
        tokenizer.add_special_tokens([AddedToken("<|user|>", special=True, normalized=False, rstrip=True)])
    return tokenizer


def encoded_apart(*pair):
    """With tokenizers read from JSON, whose parser rounds the scores in its own way."""
    from tokenizers import Tokenizer
    content, markup = (Tokenizer.from_str(tokenizer.to_str()) for tokenizer in pair)

    def numbers(data):
        text = data.decode("utf-8", "replace")
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for tokenizer in (content, markup)]
        return ids[0] + [0xFFFFFFFF] + ids[1]
    return numbers


def older(tokenizer):
    """As transformers built it earlier: white space separates words and is dropped."""
    from tokenizers import Regex, normalizers, pre_tokenizers
    precompiled = normalizers.Precompiled(base64.b64decode(
        json.loads(tokenizer.to_str())["normalizer"]["normalizers"][0]["precompiled_charsmap"]))
    tokenizer.normalizer = normalizers.Sequence([precompiled, normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                       pre_tokenizers.Metaspace(prepend_scheme="always")])
    return tokenizer


def keep_unigram_gguf(name, model):
    """The model as a metadata-only GGUF file."""
    import gguf
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "t5")
    writer.add_tokenizer_model("t5")
    writer.add_token_list([piece.piece for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([piece.type for piece in proto.pieces])
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    writer.add_unk_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def unigrams():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write(normalisation_rules())
        rules.flush()
        model = unigram_model(normalization_rule_tsv=rules.name)
    keep_model("unigram", model, 10000)
    keep_unigram_gguf("unigram", model)
    (HERE / "unigram").mkdir(exist_ok=True)
    (HERE / "unigram" / "tokenizer.json").write_text(
        json.dumps(json.loads(unigram_json(model, False).to_str()), ensure_ascii=False, separators=(",", ":")))
    pair = [unigram_json(model, content) for content in (True, False)]
    write_digests("unigram_json", 10000, encoded_apart(*pair))
    write_digests("unigram_older", 10000, encoded_apart(*map(older, pair)))
    keep_model("unigram_bytes", unigram_model(
        normalization_rule_name="identity", remove_extra_whitespaces=False, byte_fallback=True, split_digits=True,
        allow_whitespace_only_pieces=True, user_defined_symbols=["<tool_call>"]), 10000)


def keep_gguf(name, tokenizer, pre):
    """The vocabulary of tokenizer.json as a metadata-only GGUF file."""
    import gguf
    data = json.loads(tokenizer.to_str())
    added = {t["id"]: t for t in data["added_tokens"]}
    by_id = {i: t for t, i in data["model"]["vocab"].items()} | {i: t["content"] for i, t in added.items()}
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([by_id[i] for i in range(len(by_id))])
    writer.add_token_types([1 if i not in added else 3 if added[i]["special"] else 4 for i in range(len(by_id))])
    writer.add_token_merges([" ".join(m) for m in data["model"]["merges"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def bpe():
    from tokenizers import normalizers, pre_tokenizers, AddedToken
    keep("gpt2", train(byte_level(None), 900, ["<|endoftext|>"]), 3000, spaced_merges=True)
    llama3 = train(byte_level(LLAMA3, ignore_merges=True), 900, ["<|begin_of_text|>", "<|eot_id|>", "<|im_start|>"])
    keep("llama3", llama3, 3000)
    keep_gguf("llama3", llama3, "llama-bpe")
    qwen2 = train(byte_level(QWEN2, nfc=True), 900, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<tool_call>"])
    keep("qwen2", qwen2, 3000)
    keep_gguf("qwen2", qwen2, "qwen2")
    keep("tekken", train(byte_level(TEKKEN, ignore_merges=True), 900, ["[INST]", "</s>"]), 2000)
    o200k = train(byte_level(O200K), 900, ["<|start|>", "<|end|>"])
    keep("o200k", o200k, 2000)
    keep_gguf("o200k", o200k, "gpt-4o")
    keep("digits", train(byte_level(None, digits=True), 900, ["<|im_start|>"]), 2000)
def sentencepiece():
    from tokenizers import normalizers, pre_tokenizers, AddedToken
    model = sentencepiece_model()
    ranked = keep_sentencepiece("sentencepiece", model, 4000)
    (HERE / "sentencepiece.model").write_bytes(strip_trainer(model.serialized_model_proto()))
    prepend = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    llama2 = character_bpe(ranked, prepend, None)
    llama2.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    llama2.add_special_tokens([AddedToken("<|user|>", special=True, normalized=False, rstrip=True)])
    keep("llama2", llama2, 3000, {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": True})
    mistral = character_bpe(ranked, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    mistral.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    keep("mistral", mistral, 3000)


def mistral_tekken():
    """A tekken.json of the vocabulary of tekken/, with digests from mistral-common. That library requires a rank for
    each byte first."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    vocabulary = json.loads((HERE / "tekken" / "tokenizer.json").read_text())["model"]["vocab"]
    byte_of = spelled_bytes()
    merged = [bytes(byte_of[c] for c in token) for token in sorted(vocabulary, key=vocabulary.get)]
    tokens = [bytes([b]) for b in range(256)] + [token for token in merged if len(token) > 1]
    folder = HERE / "mistral_tekken"
    folder.mkdir(exist_ok=True)
    specials = 30
    (folder / "tekken.json").write_text(json.dumps({
        "config": {"pattern": TEKKEN, "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) + specials - 5,
                   "default_num_special_tokens": specials, "version": "v3"},
        "vocab": [{"rank": i, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                  for i, token in enumerate(tokens)]}, separators=(",", ":")))
    tokenizer = Tekkenizer.from_file(folder / "tekken.json")
    write_digests("mistral_tekken", 10000,
                  lambda data: tokenizer.encode(data.decode("utf-8", "replace"), bos=False, eos=False))


def spelled_bytes():
    """The byte of each character of GPT-2's alphabet."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(others)}


def main():
    made = {"text": lambda: write_digests("text", 4000, decoded),
            "smollm2": lambda: write_digests("smollm2", 12000, encoded(smollm2(sys.argv[1]))),
            "bpe": bpe, "sentencepiece": sentencepiece, "unigram": unigrams,
            "mistral_tekken": mistral_tekken}
    for name, make in made.items():
        if len(sys.argv) < 3 or name.startswith(sys.argv[2]):
            make()


if __name__ == "__main__":
    main()
