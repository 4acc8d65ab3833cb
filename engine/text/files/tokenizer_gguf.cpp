#include <array>
#include <string>

#include "engine/files/gguf_reader.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_facts.h"
#include "engine/text/tokenizer_split.h"

namespace ringside {
namespace {

using TokenType = TokenizerData::TokenType;
using SpacePrefix = TokenizerData::SpacePrefix;

// GGUF's numbers for token types are those of SentencePiece.
Result<TokenType> TypeFromGguf(int64_t type) {
  switch (type) {
    case 1:
      return TokenType::kNormal;
    case 2:
      return TokenType::kUnknown;
    case 3:
      return TokenType::kControl;
    case 4:
      return TokenType::kUserDefined;
    case 0:
    case 5:
      return TokenType::kUnused;
    case 6:
      return TokenType::kByte;
    default:
      return InvalidArgument("tokenizer.ggml.token_type: unknown type " + std::to_string(type));
  }
}

Status SetPreTokenizer(std::string_view name, TokenizerData* data) {
  namespace patterns = split_patterns;
  enum class Style { kGpt2, kLlama3, kQwen2, kDigitsThenGpt2, kTekken, kO200k };
  struct Known {
    std::string_view name;
    Style style;
  };
  static constexpr std::array<Known, 25> kKnown = {{{"gpt-2", Style::kGpt2},
                                                    {"gpt2", Style::kGpt2},
                                                    {"default", Style::kGpt2},
                                                    {"", Style::kGpt2},
                                                    {"phi-2", Style::kGpt2},
                                                    {"olmo", Style::kGpt2},
                                                    {"mpt", Style::kGpt2},
                                                    {"llama-bpe", Style::kLlama3},
                                                    {"llama3", Style::kLlama3},
                                                    {"llama-v3", Style::kLlama3},
                                                    {"dbrx", Style::kLlama3},
                                                    {"smaug-bpe", Style::kLlama3},
                                                    {"falcon3", Style::kLlama3},
                                                    {"qwen2", Style::kQwen2},
                                                    {"stablelm2", Style::kQwen2},
                                                    {"deepseek-r1-qwen", Style::kQwen2},
                                                    {"megrez", Style::kQwen2},
                                                    {"smollm", Style::kDigitsThenGpt2},
                                                    {"starcoder", Style::kDigitsThenGpt2},
                                                    {"refact", Style::kDigitsThenGpt2},
                                                    {"command-r", Style::kDigitsThenGpt2},
                                                    {"codeshell", Style::kDigitsThenGpt2},
                                                    {"exaone", Style::kDigitsThenGpt2},
                                                    {"tekken", Style::kTekken},
                                                    {"gpt-4o", Style::kO200k}}};
  for (const Known& known : kKnown) {
    if (known.name != name) continue;
    switch (known.style) {
      case Style::kGpt2:
        data->split_patterns = {patterns::kGpt2};
        break;
      case Style::kLlama3:
        data->split_patterns = {patterns::kLlama3};
        data->ignore_merges = name == "llama-bpe" || name == "llama3" || name == "llama-v3" || name == "falcon3";
        break;
      case Style::kQwen2:
        data->split_patterns = {patterns::kQwen2};
        data->normalise_nfc = name != "stablelm2";
        break;
      case Style::kDigitsThenGpt2:
        data->split_patterns = {patterns::kSingleDigit, patterns::kGpt2};
        break;
      case Style::kTekken:
        data->split_patterns = {patterns::kTekken};
        data->ignore_merges = true;
        break;
      case Style::kO200k:
        data->split_patterns = {patterns::kO200k};
        break;
    }
    return Status::Ok();
  }
  return InvalidArgument("tokenizer.ggml.pre: unknown pre-tokenizer '" + std::string(name) + "'");
}

Status ReadMerges(const std::vector<std::string>& lines, TokenizerData* data) {
  data->merges.reserve(lines.size());
  for (const std::string& line : lines) {
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos || space + 1 == line.size()) {
      return InvalidArgument("tokenizer.ggml.merges: '" + line + "' is not two tokens");
    }
    data->merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return Status::Ok();
}

// Bytes, signed or not.
Result<std::string> ReadCharsmap(const GgufFile& file) {
  std::string bytes;
  const auto numbers = file.Ints("tokenizer.ggml.precompiled_charsmap");
  if (!numbers) return bytes;
  bytes.reserve(numbers->size());
  for (const int64_t number : *numbers) {
    if (number < -128 || number > 255) return InvalidArgument("tokenizer.ggml.precompiled_charsmap holds no bytes");
    bytes.push_back(static_cast<char>(number));
  }
  return bytes;
}

std::optional<TokenId> ReadId(const GgufFile& file, std::string_view key, size_t vocabulary) {
  const std::optional<int64_t> id = file.Int(key);
  if (!id || *id < 0 || *id >= static_cast<int64_t>(vocabulary)) return std::nullopt;
  return static_cast<TokenId>(*id);
}

}  // namespace

Result<TokenizerData> ReadGgufTokenizer(const GgufFile& file) {
  TokenizerData data;
  const std::string model = file.String("tokenizer.ggml.model").value_or("");
  if (model == "gpt2") {
    data.kind = TokenizerData::Kind::kByteLevelBpe;
  } else if (model == "llama") {
    data.kind = TokenizerData::Kind::kSentencePieceBpe;
  } else if (model == "t5") {
    data.kind = TokenizerData::Kind::kUnigram;
  } else {
    return InvalidArgument(model.empty()
                               ? "the file has no tokenizer (tokenizer.ggml.model)"
                               : "tokenizer.ggml.model: '" + model + "' is not supported (gpt2, llama, t5 are)");
  }
  const std::vector<std::string>* tokens = file.Strings("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->empty()) return InvalidArgument("tokenizer.ggml.tokens is missing or empty");
  data.tokens = *tokens;
  if (const auto types = file.Ints("tokenizer.ggml.token_type")) {
    for (const int64_t type : *types) {
      ASSIGN_OR_RETURN(const TokenType known, TypeFromGguf(type));
      data.types.push_back(known);
    }
  }
  const size_t count = data.tokens.size();
  data.bos = ReadId(file, "tokenizer.ggml.bos_token_id", count);
  data.eos = ReadId(file, "tokenizer.ggml.eos_token_id", count);
  const bool byte_level = data.kind == TokenizerData::Kind::kByteLevelBpe;
  const bool merges_characters = data.kind == TokenizerData::Kind::kSentencePieceBpe;
  if (byte_level) {
    const std::vector<std::string>* merges = file.Strings("tokenizer.ggml.merges");
    if (merges == nullptr) return InvalidArgument("tokenizer.ggml.merges is missing");
    RETURN_IF_ERROR(ReadMerges(*merges, &data));
    RETURN_IF_ERROR(SetPreTokenizer(file.String("tokenizer.ggml.pre").value_or(""), &data));
    if (file.Bool("tokenizer.ggml.add_space_prefix").value_or(false))
      data.space_prefix = SpacePrefix::kEveryRunIfAbsent;
  } else {
    const auto scores = file.Floats("tokenizer.ggml.scores");
    if (!scores) return InvalidArgument("tokenizer.ggml.scores is missing");
    data.scores.assign(scores->begin(), scores->end());
    data.unknown = ReadId(file, "tokenizer.ggml.unknown_token_id", count);
    if (file.Bool("tokenizer.ggml.add_space_prefix").value_or(merges_characters)) {
      data.space_prefix = SpacePrefix::kBehindSpecials;
    }
    ASSIGN_OR_RETURN(data.charsmap, ReadCharsmap(file));
    const bool extra = file.Bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
    data.white_space = {.trim_front = extra, .trim_back = extra, .collapse = extra};
  }
  // Files of Llama 3 and of Mistral's tekken leave it out, too.
  const bool begins = merges_characters || (byte_level && data.ignore_merges);
  if (file.Bool("tokenizer.ggml.add_bos_token").value_or(begins)) data.text_begin = data.bos;
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = ReadId(file, key, count)) data.end_of_turn.push_back(*id);
  }
  CompleteSpecialTokens(&data);
  return data;
}

}  // namespace ringside
