// Makes documents under formats by random choices among the allowed tokens, and reports whether given documents are
// accepted.
//
//     grammar_documents MODEL.gguf < requests > answers
//
// Both streams have one JSON object per line: {"kind": "json_schema" | "json_object" | "regex" | "grammar", "text",
// "documents": n, "seed", "accept": [text, ...]} is answered with {"documents": [...], "unfinished": n, "accepted":
// [bool, ...]} or {"error", "param"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/files/gguf_reader.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/text/tokenizer.h"

namespace ringside {
namespace {

using nlohmann::json;

constexpr int kFreeTokens = 60;    // from here on, closing tokens are preferred
constexpr int kMostTokens = 3000;  // then the document is abandoned

AnswerFormat::Kind KindOf(const std::string& name) {
  if (name == "json_object") return AnswerFormat::Kind::kJsonObject;
  if (name == "regex") return AnswerFormat::Kind::kRegex;
  if (name == "grammar") return AnswerFormat::Kind::kGbnf;
  return AnswerFormat::Kind::kJsonSchema;
}

class Writer {
 public:
  Writer(const Tokenizer& tokenizer, uint64_t seed) : tokenizer_(tokenizer), random_(seed) {
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      for (const char* closing : {"}", "]", "\""}) {
        if (tokenizer.TokenBytes(id) == closing) closing_.push_back(id);
      }
    }
  }

  /// A document, or nothing if it does not terminate.
  std::optional<std::string> Write(const std::shared_ptr<const Grammar>& grammar) {
    GrammarMatcher matcher(grammar);
    std::vector<uint32_t> mask(static_cast<size_t>(tokenizer_.vocab_size() + 31) / 32);
    std::string text;
    for (int i = 0; i < kMostTokens; ++i) {
      if (matcher.may_end() && (!matcher.may_continue() || i > kFreeTokens || random_() % 2 == 0)) return text;
      if (!matcher.FillMask(mask).ok()) return std::nullopt;
      const TokenId id = Choose(mask, i > kFreeTokens);
      if (id < 0 || !matcher.Take(id).ok()) return std::nullopt;
      text += tokenizer_.TokenBytes(id);
    }
    return std::nullopt;
  }

 private:
  static bool Allows(const std::vector<uint32_t>& mask, TokenId id) {
    return (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
  }
  TokenId Choose(const std::vector<uint32_t>& mask, bool closes) {
    for (size_t i = 0; closes && i < closing_.size(); ++i) {
      if (Allows(mask, closing_[i])) return closing_[i];
    }
    allowed_.clear();
    for (TokenId id = 0; id < tokenizer_.vocab_size(); ++id) {
      if (Allows(mask, id)) allowed_.push_back(id);
    }
    return allowed_.empty() ? -1 : allowed_[random_() % allowed_.size()];
  }

  const Tokenizer& tokenizer_;
  std::mt19937_64 random_;
  std::vector<TokenId> closing_, allowed_;
};

json Answer(GrammarCache& cache, const Tokenizer& tokenizer, const json& request) {
  const auto grammar =
      cache.Get({.kind = KindOf(request.at("kind")), .text = request.value("text", std::string()), .param = "format"});
  if (!grammar.ok()) return {{"error", grammar.status().message()}, {"param", grammar.status().param()}};
  json answer = {{"documents", json::array()}, {"accepted", json::array()}, {"unfinished", 0}};
  Writer writer(tokenizer, request.value("seed", uint64_t{1}));
  for (int i = request.value("documents", 0); i > 0; --i) {
    if (const auto document = writer.Write(*grammar)) {
      answer["documents"].push_back(*document);
    } else {
      answer["unfinished"] = answer["unfinished"].get<int>() + 1;
    }
  }
  for (const std::string text : request.value("accept", json::array())) {
    GrammarMatcher matcher(*grammar);
    answer["accepted"].push_back(matcher.Append(text).ok() && matcher.may_end());
  }
  return answer;
}

int Main(const std::string& model) {
  auto file = GgufFile::Open(model);
  if (!file.ok()) return std::cerr << file.status().ToString() << "\n", 1;
  auto data = ReadGgufTokenizer(*file);
  if (!data.ok()) return std::cerr << data.status().ToString() << "\n", 1;
  auto tokenizer = MakeTokenizer(std::move(*data));
  if (!tokenizer.ok()) return std::cerr << tokenizer.status().ToString() << "\n", 1;
  GrammarCache cache(**tokenizer);
  std::string line;
  while (std::getline(std::cin, line)) {
    // Invalid UTF-8 is replaced by U+FFFD, which the reader detects.
    std::cout << Answer(cache, **tokenizer, json::parse(line)).dump(-1, ' ', true, json::error_handler_t::replace)
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return argc == 2 ? ringside::Main(argv[1]) : 2; }
