// Text to ids and back, with small tokenizers of each kind. Input: the tokenizer and the lengths of the text's pieces,
// then the text. The result does not depend on the split.
#include <algorithm>

#include "engine/text/stop_rule.h"
#include "engine/text/unicode.h"
#include "tests/fuzz/text/use_tokenizer.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

constexpr const char* kNames[] = {"gpt2", "llama2", "llama3", "mistral", "qwen2", "tekken", "unigram"};

const Tokenizer& TokenizerOf(size_t index) {
  static const auto tokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> made;
    for (const std::string name : kNames) {
      made.push_back(
          std::move(MakeTokenizer(ReadHuggingFaceTokenizer(GoldenFolder("tokenizer/" + name)).value()).value()));
    }
    return made;
  }();
  return *tokenizers[index];
}

void Tokenise(const Tokenizer& tokenizer, std::string_view text) {
  const TextPiece pieces[] = {{"<s>", true}, {std::string(text), false}};
  const std::vector<TokenId> ids = tokenizer.EncodeAll(pieces);
  const auto count = static_cast<int64_t>(ids.size());
  Require(tokenizer.Encode(pieces, count) == ids && (count == 0 || !tokenizer.Encode(pieces, count - 1)),
          "a limit of tokens is a limit of tokens");
  Detokenizer detokenizer(tokenizer);
  std::string shown, bytes;
  for (const TokenId id : ids) {
    Require(id >= 0 && id < tokenizer.vocab_size(), "an id is of the vocabulary");
    shown += detokenizer.Push(id);
    bytes += tokenizer.TokenBytes(id);
  }
  shown += detokenizer.Finish();
  Require(shown == ToValidUtf8(bytes), "token by token or at once, the text is the same");
}

void ReadText(std::string_view text, Choices choices) {
  std::string whole, in_pieces, pending, held_back;
  (void)DecodeUtf8(text, true, &whole);
  StopRule one({"stop", "st\xc3\xa9"}, {}, 0), many({"stop", "st\xc3\xa9"}, {}, 0);
  const StopRule::Verdict verdict = one.Push(1, std::string(text));
  const std::string unstopped = verdict.text + (verdict.stop ? "" : one.Finish());
  bool stopped = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string piece(rest.substr(0, std::min<size_t>(1 + choices.Below(8), rest.size())));
    rest.remove_prefix(piece.size());
    pending += piece;
    pending.erase(0, DecodeUtf8(pending, rest.empty(), &in_pieces));
    if (stopped) continue;
    const StopRule::Verdict said = many.Push(1, piece);
    held_back += said.text;
    stopped = said.stop;
  }
  Require(whole == in_pieces && whole == ToValidUtf8(text), "UTF-8 in pieces is the same text");
  Require(stopped == verdict.stop && held_back + (stopped ? "" : many.Finish()) == unstopped,
          "an answer stops at the same place");
  const std::string normal = NormaliseNfc(whole);
  Require(NormaliseNfc(normal) == normal && ToValidUtf8(normal) == normal, "normal text stays as it is");
  for (std::string_view rest = whole; !rest.empty(); rest.remove_prefix(FirstCodePoint(rest).length)) {
    (void)IsUnicodeSpace(FirstCodePoint(rest).value);
    (void)LastCodePoint(rest);
  }
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (char i = 0; i < 7; ++i) {
    seeds.push_back(
        JoinParts({std::string{i, 1, 2, 3, 7, 0, 5},
                   "Hello, it's 12345 o'clock.\r\n\n  \xc3\xa9\xcc\x81\xe1\xba\xad\xef\xac\x81 "
                   "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb "
                   "<|im_end|></s> \xe4\xbd\xa0\xe5\xa5\xbd st\xc3\xa9\xff\xed\xa0\x80 \t\xc2\xa0 stopp stop it"}));
  }
  return seeds;
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const auto parts = SplitParts(data, size, 2);
  Choices choices(parts[0]);
  const Tokenizer& tokenizer = TokenizerOf(choices.Below(std::size(kNames)));
  Tokenise(tokenizer, parts[1]);
  ReadText(parts[1], choices);
  return 0;
}
