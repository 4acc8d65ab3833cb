// Benchmarks tokenization of hostile texts: CPU seconds per megabyte, for each kind of text at two sizes, so that
// superlinear growth shows. Prints one JSON object per measurement.
//   tokenizer_bench (--gguf FILE | --folder FOLDER) [--megabytes 1,4] [--markup]
//                   [--added COUNT] [--max-tokens COUNT]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <limits>
#include <random>

#include "engine/files/gguf_reader.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

// CPU time of this thread: independent of the machine's load.
double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Kind {
  const char* name;
  std::string unit;            // repeated
  uint32_t low = 0, high = 0;  // or random characters of this range
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = {
      {"prose", "The quick brown fox jumps over the lazy dog, twice. "},
      {"random letters", "", 'a', 'z'},
      {"random capitals", "", 'A', 'Z'},
      {"random ideographs", "", 0x4E00, 0x9FFF},
      {"random Hangul", "", 0xAC00, 0xD7A3},
      {"random signs", "", 0x21, 0x2F},
      {"random control bytes", "", 1, 8},
      {"one letter", "a"},
      {"two letters", "ab"},
      {"letter and sign", "a'"},
      {"spaces", " "},
      {"newlines", "\n"},
      {"spaces and newlines", "                \n"},
      {"digits", "7"},
      {"signs", "="},
      {"combining marks", "\u0301\u0323"},
      {"combining marks, one class", "\u0301"},
      {"capitals behind an ideograph", "\u4E00AAAAAAAAAAAAAAAA"},
      {"not UTF-8", "\xFF"},
      {"beginning of a special token", "<|im_star"},
      {"reserved token, almost", "<|reserved_special_token_"},
      {"opening brackets", "<"},
      {"beginnings of added tokens", "<unused"},
  };
  return kinds;
}

std::string MakeText(const Kind& kind, size_t bytes) {
  std::string text;
  text.reserve(bytes + 16);
  std::mt19937 random(1);
  while (text.size() < bytes) {
    if (kind.unit.empty()) {
      AppendCodePoint(kind.low + static_cast<uint32_t>(random() % (kind.high - kind.low + 1)), &text);
    } else {
      text += kind.unit;
    }
  }
  return text;
}

int Main(int argc, char** argv) {
  std::string gguf, folder;
  std::vector<double> sizes = {1, 4};
  bool markup = false;
  int added = 0;
  int64_t max_tokens = std::numeric_limits<int64_t>::max();
  CLI::App app("Measures tokenising hostile texts.");
  auto* group = app.add_option_group("model");
  group->add_option("--gguf", gguf);
  group->add_option("--folder", folder, "with a tokenizer.json");
  group->require_option(1);
  app.add_option("--megabytes", sizes)->delimiter(',');
  app.add_option("--added", added, "user-defined tokens <unused0>, <unused1> ... added to the vocabulary");
  app.add_option("--max-tokens", max_tokens, "what the tokenizer may give; -1 tokens: there are more");
  app.add_flag("--markup", markup, "read special tokens in the text");
  CLI11_PARSE(app, argc, argv);
  const auto read = [&]() -> Result<TokenizerData> {
    if (gguf.empty()) return ReadHuggingFaceTokenizer(folder);
    ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(gguf));
    return ReadGgufTokenizer(file);
  };
  TokenizerData data = MustHave(read());
  data.types.resize(data.tokens.size(), TokenizerData::TokenType::kNormal);
  for (int i = 0; i < added; ++i) {
    data.tokens.push_back("<unused" + std::to_string(i) + ">");
    data.types.push_back(TokenizerData::TokenType::kUserDefined);
    if (!data.scores.empty()) data.scores.push_back(0);
  }
  const auto tokenizer = MustHave(MakeTokenizer(std::move(data)));
  for (const Kind& kind : Kinds()) {
    for (const double megabytes : sizes) {
      const TextPiece piece{MakeText(kind, static_cast<size_t>(megabytes * (1 << 20))), markup};
      const double begin = ProcessorSeconds();
      const auto ids = tokenizer->Encode({&piece, 1}, max_tokens);
      const int64_t tokens = ids ? std::ssize(*ids) : -1;
      fmt::print("{{\"name\":\"tokenize\",\"text\":\"{}\",\"megabytes\":{},\"tokens\":{},\"seconds_per_mb\":{:.3f}}}\n",
                 kind.name, megabytes, tokens, (ProcessorSeconds() - begin) / megabytes);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
