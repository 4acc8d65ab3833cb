// Reads a tokenizer from a folder: its own file and the configurations next to it.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json/json_tree.h"
#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/gpt2_tokenizer.h"
#include "engine/text/tokenizer_facts.h"

namespace ringside {
namespace {

using Json = nlohmann::json;
using TokenType = TokenizerData::TokenType;

constexpr const char kFairseqFile[] = "sentencepiece.bpe.model";
constexpr const char* kSentencePieceFiles[] = {"tokenizer.model", "spiece.model", "sentencepiece.model", kFairseqFile};

bool Has(const std::string& folder, const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(folder + "/" + file, ignored);
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("cannot read " + path);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// Null if the file is missing.
Result<Json> ReadJsonFile(const std::string& path) {
  auto text = ReadText(path);
  if (!text.ok()) return Json();
  Json json = ParseJsonTree(*text, kLargeJson);
  if (json.is_discarded()) return InvalidArgument(path + " is not JSON");
  return json;
}

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool IsTrue(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

// A token's spelling: a string or an object with "content".
std::string SpellingOf(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  const Json* content = Member(token, "content");
  return content != nullptr && content->is_string() ? content->get<std::string>() : "";
}

std::optional<TokenId> NamedToken(const Json& config, const char* key, const TokenizerData& data) {
  const Json* value = Member(config, key);
  const std::string name = value == nullptr ? "" : SpellingOf(*value);
  const auto found = std::ranges::find(data.tokens, name);
  if (name.empty() || found == data.tokens.end()) return std::nullopt;
  return static_cast<TokenId>(found - data.tokens.begin());
}

// generation_config.json gives one id or a list.
std::vector<TokenId> IdList(const Json& config, const char* key) {
  std::vector<TokenId> ids;
  const Json* value = Member(config, key);
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& entry : list) {
    const int64_t id = entry.is_number_integer() ? entry.get<int64_t>() : -1;
    if (id >= 0 && id < kMaxFileTokens) ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

// Tokens that tokenizer_config.json adds to a file that does not define them.
Status AddTokens(const Json& config, TokenizerData* data) {
  const Json* added = Member(config, "added_tokens_decoder");
  if (added == nullptr || !added->is_object()) return Status::Ok();
  for (const auto& [key, token] : added->items()) {
    size_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const std::string name = SpellingOf(token);
    if (error != std::errc() || end != key.data() + key.size() || id >= size_t{kMaxFileTokens} || name.empty()) {
      return InvalidArgument("tokenizer_config.json: an added token has no id or no content");
    }
    // The tokenizer's own file takes precedence.
    if (id < data->tokens.size() && data->types[id] != TokenType::kNormal) continue;
    if (id >= data->tokens.size()) {
      data->tokens.resize(id + 1);
      data->types.resize(id + 1, TokenType::kUnused);
      if (!data->scores.empty()) data->scores.resize(id + 1);
    }
    data->tokens[id] = name;
    data->types[id] = IsTrue(token, "special") ? TokenType::kControl : TokenType::kUserDefined;
    const TokenizerData::AddedToken flags{.id = static_cast<TokenId>(id),
                                          .strip_left = IsTrue(token, "lstrip"),
                                          .strip_right = IsTrue(token, "rstrip"),
                                          .single_word = IsTrue(token, "single_word")};
    if (flags != TokenizerData::AddedToken{.id = flags.id}) data->added.push_back(flags);
  }
  return Status::Ok();
}

/// XGLM uses fairseq's ids: four special tokens replace the file's first three, and seven dummy tokens are appended.
Status NumberAsFairseq(TokenizerData* data) {
  constexpr const char* kOwn[] = {"<s>", "<pad>", "</s>", "<unk>"};
  constexpr size_t kReplaced = 3;
  constexpr int kAppendedTokens = 7;
  if (data->tokens.size() < kReplaced || data->unknown.value_or(0) >= TokenId{kReplaced}) {
    return InvalidArgument(std::string(kFairseqFile) + ": its first three pieces are not <unk>, <s> and </s>");
  }
  data->tokens.emplace(data->tokens.begin());
  data->types.emplace(data->types.begin());
  data->scores.emplace(data->scores.begin());
  for (size_t id = 0; id < std::size(kOwn); ++id) {
    data->tokens[id] = kOwn[id];
    data->types[id] = TokenType::kControl;
    data->scores[id] = 0;
  }
  for (int i = 0; i < kAppendedTokens; ++i) {
    data->tokens.push_back("<madeupword" + std::to_string(i) + ">");
    data->types.push_back(TokenType::kUnused);
    data->scores.push_back(0);
  }
  data->bos = 0;
  data->eos = data->text_begin = 2;
  data->unknown = 3;
  data->types[3] = TokenType::kUnknown;
  return Status::Ok();
}

// BOS and EOS: from the configurations if they name them, else from the tokenizer's own file.
void SetBosAndEos(const Json& config, const Json& generation, TokenizerData* data) {
  const auto known = [&](std::optional<TokenId> id) {
    return id && static_cast<size_t>(*id) < data->tokens.size() ? id : std::nullopt;
  };
  if (config.is_object() && config.contains("bos_token")) data->bos = NamedToken(config, "bos_token", *data);
  if (const auto eos = NamedToken(config, "eos_token", *data)) data->eos = eos;
  data->end_of_turn = IdList(generation, "eos_token_id");
  if (!data->eos && !data->end_of_turn.empty()) data->eos = data->end_of_turn.front();
  if (!data->bos) {
    if (const auto ids = IdList(generation, "bos_token_id"); !ids.empty()) data->bos = ids.front();
  }
  data->bos = known(data->bos);
  data->eos = known(data->eos);
  const Json* adds = Member(config, "add_bos_token");
  if (adds != nullptr && adds->is_boolean()) data->text_begin = adds->get<bool>() ? data->bos : std::nullopt;
  data->text_begin = known(data->text_begin);
  CompleteSpecialTokens(data);
}

Result<TokenizerData> ReadOwnFile(const std::string& folder, const Json& config) {
  if (Has(folder, "tokenizer.json")) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(folder + "/tokenizer.json"));
    return ReadTokenizerJson(text);
  }
  if (Has(folder, "tekken.json")) {
    ASSIGN_OR_RETURN(const std::string text, ReadText(folder + "/tekken.json"));
    return ReadTekken(text);
  }
  for (const char* name : kSentencePieceFiles) {
    if (!Has(folder, name)) continue;
    ASSIGN_OR_RETURN(const std::string bytes, ReadText(folder + "/" + name));
    ASSIGN_OR_RETURN(TokenizerData data, ReadSentencePieceModel(bytes));
    if (name == std::string_view(kFairseqFile)) RETURN_IF_ERROR(NumberAsFairseq(&data));
    RETURN_IF_ERROR(AddTokens(config, &data));
    const bool with_bos = data.text_begin && data.text_begin == data.bos;
    if (with_bos && config.contains("bos_token")) data.text_begin = NamedToken(config, "bos_token", data);
    return data;
  }
  if (!Has(folder, "vocab.json")) return IoError("cannot read " + folder + "/tokenizer.json");
  ASSIGN_OR_RETURN(const std::string vocab, ReadText(folder + "/vocab.json"));
  ASSIGN_OR_RETURN(const std::string merges, ReadText(folder + "/merges.txt"));
  return ReadVocabAndMerges(vocab, merges);
}

}  // namespace

bool HasTokenizerFile(const std::string& folder) {
  return Has(folder, "tokenizer.json") || Has(folder, "tekken.json") ||
         std::ranges::any_of(kSentencePieceFiles, [&](const char* name) { return Has(folder, name); });
}

Result<TokenizerData> ReadHuggingFaceTokenizer(const std::string& folder) {
  ASSIGN_OR_RETURN(const Json config, ReadJsonFile(folder + "/tokenizer_config.json"));
  ASSIGN_OR_RETURN(const Json generation, ReadJsonFile(folder + "/generation_config.json"));
  ASSIGN_OR_RETURN(TokenizerData data, ReadOwnFile(folder, config));
  SetBosAndEos(config, generation, &data);
  return data;
}

Result<TokenizerData> ReadGpt2Tokenizer(std::string_view vocab, std::string_view merges) {
  ASSIGN_OR_RETURN(TokenizerData data, ReadVocabAndMerges(vocab, merges));
  SetBosAndEos(Json(), Json(), &data);
  return data;
}

}  // namespace ringside
