#include <string>

#include "engine/files/gguf_reader.h"
#include "engine/text/files/gguf_pre_tokenizers.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_facts.h"

namespace ringside {
namespace {

using TokenType = TokenizerData::TokenType;

// GGUF uses SentencePiece's numbers for token types.
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

// Pre-tokenizer of a vocabulary with merges; some names imply a vocabulary of characters. `begins`: default of
// add_bos_token.
Status SetPreTokenizer(const GgufFile& file, TokenizerData* data, bool* begins) {
  std::string name = file.String("tokenizer.ggml.pre").value_or("");
  if (name.empty()) name = GgufPreTokenizerOf(file.String("general.architecture").value_or(""));
  std::optional<GgufPreTokenizer> known = FindGgufPreTokenizer(name);
  if (!known) return InvalidArgument("tokenizer.ggml.pre: unknown pre-tokenizer '" + name + "'");
  data->normaliser = std::move(known->normaliser);
  data->pre_tokenizer = std::move(known->steps);
  data->ignore_merges = known->ignore_merges;
  data->dialect = TokenizerData::Dialect::kTokenizers;
  *begins = known->begins;
  if (!known->on_characters) return Status::Ok();
  data->kind = TokenizerData::Kind::kSentencePieceBpe;
  data->types.resize(data->tokens.size(), TokenType::kNormal);
  for (size_t i = 0; i < data->tokens.size(); ++i) {
    if (data->types[i] == TokenType::kNormal && ByteOfToken(data->tokens[i])) data->types[i] = TokenType::kByte;
  }
  return Status::Ok();
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

// Bytes, signed or unsigned.
Result<std::string> ReadCharsmap(const GgufFile& file) {
  std::string bytes;
  const auto numbers = file.Ints("tokenizer.ggml.precompiled_charsmap");
  if (!numbers) return bytes;
  bytes.reserve(numbers->size());
  for (const int64_t number : *numbers) {
    if (number < -128 || number > 255)
      return InvalidArgument("tokenizer.ggml.precompiled_charsmap has a value that is not a byte");
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
  bool begins = merges_characters;
  if (byte_level) {
    const std::vector<std::string>* merges = file.Strings("tokenizer.ggml.merges");
    if (merges == nullptr) return InvalidArgument("tokenizer.ggml.merges is missing");
    RETURN_IF_ERROR(ReadMerges(*merges, &data));
    RETURN_IF_ERROR(SetPreTokenizer(file, &data, &begins));
    if (file.Bool("tokenizer.ggml.add_space_prefix").value_or(false)) {
      data.pre_tokenizer.insert(data.pre_tokenizer.begin(), {.kind = PreTokenizerStep::Kind::kPrefixSpace});
    }
  } else {
    const auto scores = file.Floats("tokenizer.ggml.scores");
    if (!scores) return InvalidArgument("tokenizer.ggml.scores is missing");
    data.scores.assign(scores->begin(), scores->end());
    data.unknown = ReadId(file, "tokenizer.ggml.unknown_token_id", count);
    ASSIGN_OR_RETURN(data.charsmap, ReadCharsmap(file));
    const bool extra = file.Bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
    const bool prefix = file.Bool("tokenizer.ggml.add_space_prefix").value_or(merges_characters);
    data.white_space = {.trim_front = extra, .trim_back = extra, .collapse = extra, .prefix = prefix};
  }
  if (file.Bool("tokenizer.ggml.add_bos_token").value_or(begins)) data.text_begin = data.bos;
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = ReadId(file, key, count)) data.end_of_turn.push_back(*id);
  }
  CompleteSpecialTokens(&data);
  return data;
}

}  // namespace ringside
