// Mistral's tekken.json: a pattern, byte strings in merge order, and special tokens before them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/json/json_tree.h"
#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/pipeline/patterns.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using Json = nlohmann::json;
using TokenType = TokenizerData::TokenType;

// Special tokens by id, for files that list none.
constexpr const char* kDefaultSpecials[] = {"<unk>",
                                            "<s>",
                                            "</s>",
                                            "[INST]",
                                            "[/INST]",
                                            "[AVAILABLE_TOOLS]",
                                            "[/AVAILABLE_TOOLS]",
                                            "[TOOL_RESULTS]",
                                            "[/TOOL_RESULTS]",
                                            "[TOOL_CALLS]",
                                            "[IMG]",
                                            "<pad>",
                                            "[IMG_BREAK]",
                                            "[IMG_END]",
                                            "[PREFIX]",
                                            "[MIDDLE]",
                                            "[SUFFIX]",
                                            "[SYSTEM_PROMPT]",
                                            "[/SYSTEM_PROMPT]",
                                            "[TOOL_CONTENT]"};

Status Malformed(const std::string& what) { return InvalidArgument("tekken.json: " + what); }

Status ReadSpecials(const Json& json, size_t count, TokenizerData* data) {
  const auto named = json.find("special_tokens");
  const bool names = named != json.end() && !named->is_null();
  for (size_t i = 0; i < count; ++i) {
    const bool usual = !names && i < std::size(kDefaultSpecials);
    data->tokens.push_back(usual ? kDefaultSpecials[i] : "<SPECIAL_" + std::to_string(i) + ">");
    data->types.push_back(TokenType::kControl);
  }
  if (!names) return Status::Ok();
  for (const Json& token : *named) {
    const auto rank = token.at("rank").get<int64_t>();
    if (rank < 0 || rank >= static_cast<int64_t>(count)) return Malformed("a special token's rank is out of range");
    data->tokens[static_cast<size_t>(rank)] = token.at("token_str").get<std::string>();
  }
  return Status::Ok();
}

Result<TokenizerData> Read(const Json& json) {
  const Json& config = json.at("config");
  const auto size = config.at("default_vocab_size").get<int64_t>();
  const auto specials = config.at("default_num_special_tokens").get<int64_t>();
  if (specials < 0 || size > kMaxFileTokens || size - specials < 256)
    return Malformed("its vocabulary has an impossible size");
  const Json& vocab = json.at("vocab");
  const auto count = static_cast<size_t>(size - specials);
  if (!vocab.is_array() || vocab.size() < count) return Malformed("its vocabulary is smaller than its declared size");
  TokenizerData data;
  data.kind = TokenizerData::Kind::kByteLevelBpe;
  data.ignore_merges = true;
  data.pre_tokenizer = {Isolate(config.at("pattern").get<std::string>()), {.kind = PreTokenizerStep::Kind::kByteLevel}};
  RETURN_IF_ERROR(ReadSpecials(json, static_cast<size_t>(specials), &data));
  for (size_t rank = 0; rank < count; ++rank) {
    const auto bytes = DecodeBase64(vocab[rank].at("token_bytes").get<std::string>());
    if (!bytes || bytes->empty() || vocab[rank].at("rank").get<int64_t>() != static_cast<int64_t>(rank)) {
      return Malformed("token " + std::to_string(rank) + " is malformed: its bytes are missing or its rank differs");
    }
    if (rank < 256 && *bytes != std::string(1, static_cast<char>(rank)))
      return Malformed("its first tokens are not bytes");
    std::string& name = data.tokens.emplace_back();
    for (const char byte : *bytes) AppendCodePoint(ByteLevelCharacter(static_cast<uint8_t>(byte)), &name);
  }
  data.types.resize(data.tokens.size(), TokenType::kNormal);
  data.scores.resize(data.tokens.size());
  for (size_t i = 0; i < data.scores.size(); ++i) data.scores[i] = -static_cast<double>(i);  // earlier merges first
  const auto find = [&](const char* name) -> std::optional<TokenId> {
    const auto end = data.tokens.begin() + specials;
    const auto found = std::find(data.tokens.begin(), end, name);
    return found == end ? std::nullopt : std::optional(static_cast<TokenId>(found - data.tokens.begin()));
  };
  data.bos = find("<s>");
  data.eos = find("</s>");
  data.text_begin = data.bos;
  return data;
}

}  // namespace

Result<TokenizerData> ReadTekken(std::string_view text) {
  const Json json = ParseJsonTree(text, kLargeJson);
  if (json.is_discarded()) return Malformed("it is not JSON");
  try {
    return Read(json);
  } catch (const Json::exception& error) {
    return Malformed(error.what());
  }
}

}  // namespace ringside
