#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/text/gpt2_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_facts.h"
#include "engine/text/tokenizer_split.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using Json = nlohmann::json;
using TokenType = TokenizerData::TokenType;
using SpacePrefix = TokenizerData::SpacePrefix;

constexpr int64_t kMaxTokens = 1 << 21;

Status Unsupported(const std::string& what) { return InvalidArgument("tokenizer.json: " + what + " is not supported"); }
Status Wrong(const std::string& what) { return InvalidArgument("tokenizer.json: " + what); }

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string StringMember(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

bool BoolMember(const Json& object, const char* key, bool otherwise) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_boolean() ? member->get<bool>() : otherwise;
}

std::optional<TokenId> IdOf(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto id = value.get<int64_t>();
  return id >= 0 && id < kMaxTokens ? std::optional(static_cast<TokenId>(id)) : std::nullopt;
}

/// A missing file is null.
Result<Json> ReadJson(const std::string& path, bool required) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return required ? Result<Json>(IoError("cannot read " + path)) : Result<Json>(Json());
  std::stringstream bytes;
  bytes << file.rdbuf();
  Json json = Json::parse(bytes.view(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument(path + " is not JSON");
  return json;
}

void PutToken(TokenId id, const std::string& name, TokenType type, TokenizerData* data) {
  const auto i = static_cast<size_t>(id);
  if (i >= data->tokens.size()) {
    data->tokens.resize(i + 1);
    data->types.resize(i + 1, TokenType::kUnused);
  }
  data->tokens[i] = name;
  data->types[i] = type;
}

Status ReadMerge(const Json& merge, TokenizerData* data) {
  if (merge.is_string()) {
    const auto& line = merge.get_ref<const std::string&>();
    const size_t space = line.find(' ', 1);
    if (space == std::string::npos || space + 1 == line.size()) return Wrong("merge '" + line + "' is not two tokens");
    data->merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    data->merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
  } else {
    return Wrong("a merge is neither \"a b\" nor [\"a\", \"b\"]");
  }
  return Status::Ok();
}

Status ReadModel(const Json& model, TokenizerData* data) {
  const std::string type = StringMember(model, "type");
  if (!type.empty() && type != "BPE") return Unsupported("model '" + type + "'");
  const Json* vocab = Member(model, "vocab");
  const Json* merges = Member(model, "merges");
  if (vocab == nullptr || !vocab->is_object() || merges == nullptr || !merges->is_array()) {
    return Wrong("model.vocab or model.merges is missing");
  }
  for (const auto& [name, value] : vocab->items()) {
    const auto id = IdOf(value);
    if (!id) return Wrong("token '" + name + "' has no valid id");
    PutToken(*id, name, TokenType::kNormal, data);
  }
  for (const Json& merge : *merges) RETURN_IF_ERROR(ReadMerge(merge, data));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!StringMember(model, affix).empty()) return Unsupported(affix);
  }
  data->ignore_merges = BoolMember(model, "ignore_merges", false);
  if (BoolMember(model, "byte_fallback", false)) {
    data->kind = TokenizerData::Kind::kSentencePieceBpe;
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      if (const auto found = vocab->find(name); found != vocab->end()) {
        data->types[static_cast<size_t>(*IdOf(*found))] = TokenType::kByte;
      }
    }
  }
  if (const std::string unknown = StringMember(model, "unk_token"); !unknown.empty()) {
    if (const auto found = vocab->find(unknown); found != vocab->end()) {
      data->unknown = IdOf(*found);
      data->types[static_cast<size_t>(*data->unknown)] = TokenType::kUnknown;
    }
  }
  return Status::Ok();
}

Status ReadAddedTokens(const Json& tokens, TokenizerData* data) {
  if (!tokens.is_array()) return Wrong("added_tokens is no list");
  for (const Json& token : tokens) {
    const Json* id_value = Member(token, "id");
    const auto id = id_value != nullptr ? IdOf(*id_value) : std::nullopt;
    const std::string name = StringMember(token, "content");
    if (!id || name.empty()) return Wrong("an added token has no id or no content");
    const bool special = BoolMember(token, "special", false);
    PutToken(*id, name, special ? TokenType::kControl : TokenType::kUserDefined, data);
    if (BoolMember(token, "lstrip", false)) data->strip_left.push_back(*id);
    if (BoolMember(token, "rstrip", false)) data->strip_right.push_back(*id);
  }
  return Status::Ok();
}

Status ReadNormaliser(const Json& normaliser, TokenizerData* data) {
  const std::string type = StringMember(normaliser, "type");
  if (type == "Sequence") {
    const Json* steps = Member(normaliser, "normalizers");
    if (steps == nullptr || !steps->is_array()) return Wrong("a normalizer sequence has no steps");
    for (const Json& step : *steps) {
      if (StringMember(step, "type") == "Sequence") return Unsupported("a sequence inside a sequence");
      RETURN_IF_ERROR(ReadNormaliser(step, data));
    }
    return Status::Ok();
  }
  if (type == "NFC") {
    data->normalise_nfc = true;
    return Status::Ok();
  }
  if (type == "Prepend" && StringMember(normaliser, "prepend") == kLowerOneEighthBlock) {
    data->space_prefix = SpacePrefix::kEveryRun;
    data->kind = TokenizerData::Kind::kSentencePieceBpe;
    return Status::Ok();
  }
  const Json* pattern = Member(normaliser, "pattern");
  if (type == "Replace" && pattern != nullptr && StringMember(*pattern, "String") == " " &&
      StringMember(normaliser, "content") == kLowerOneEighthBlock) {
    data->kind = TokenizerData::Kind::kSentencePieceBpe;
    return Status::Ok();
  }
  return Unsupported("normalizer '" + type + "'");
}

Status ReadSplit(const Json& split, TokenizerData* data) {
  const Json* pattern = Member(split, "pattern");
  const std::string behavior = StringMember(split, "behavior");
  const bool inverted = BoolMember(split, "invert", false);
  if (pattern == nullptr) return Wrong("a Split has no pattern");
  if (data->kind == TokenizerData::Kind::kSentencePieceBpe && StringMember(*pattern, "String") == " ") {
    return Status::Ok();  // no space is left to split at
  }
  // "Removed" with "invert" keeps the matches and drops what no match covers; the known patterns cover everything.
  if (behavior != "Isolated" && !(behavior == "Removed" && inverted)) return Unsupported("Split behavior " + behavior);
  if (const std::string regex = StringMember(*pattern, "Regex"); !regex.empty()) {
    data->split_patterns.push_back(regex);
  } else if (const std::string text = StringMember(*pattern, "String"); !text.empty()) {
    if (text.find("\\E") != std::string::npos) return Unsupported("Split at '" + text + "'");
    data->split_patterns.push_back("\\Q" + text + "\\E");
  } else {
    return Wrong("a Split has no pattern");
  }
  return Status::Ok();
}

Status ReadMetaspace(const Json& metaspace, TokenizerData* data) {
  if (StringMember(metaspace, "replacement") != kLowerOneEighthBlock) return Unsupported("a Metaspace replacement");
  if (BoolMember(metaspace, "split", true) && Member(metaspace, "split") != nullptr) {
    return Unsupported("Metaspace with split");
  }
  data->kind = TokenizerData::Kind::kSentencePieceBpe;
  const std::string scheme = StringMember(metaspace, "prepend_scheme");
  const bool always = scheme == "always" || (scheme.empty() && BoolMember(metaspace, "add_prefix_space", true));
  data->space_prefix = always              ? SpacePrefix::kEveryRunIfAbsent
                       : scheme == "first" ? SpacePrefix::kFirstRunIfAbsent
                                           : SpacePrefix::kNone;
  return Status::Ok();
}

// `byte_level` becomes true where the bytes' alphabet is asked for.
Status ReadPreTokenizer(const Json& step, TokenizerData* data, bool* byte_level) {
  const std::string type = StringMember(step, "type");
  if (type == "Sequence") {
    const Json* steps = Member(step, "pretokenizers");
    if (steps == nullptr || !steps->is_array()) return Wrong("a pre-tokenizer sequence has no steps");
    for (const Json& inner : *steps) {
      if (StringMember(inner, "type") == "Sequence") return Unsupported("a sequence inside a sequence");
      if (*byte_level) return Unsupported("a pre-tokenizer behind ByteLevel");
      RETURN_IF_ERROR(ReadPreTokenizer(inner, data, byte_level));
    }
    return Status::Ok();
  }
  if (type == "Split") return ReadSplit(step, data);
  if (type == "Metaspace") return ReadMetaspace(step, data);
  if (type == "Digits") {
    const bool single = BoolMember(step, "individual_digits", false);
    data->split_patterns.emplace_back(single ? split_patterns::kSingleDigit : split_patterns::kDigits);
    return Status::Ok();
  }
  if (type == "ByteLevel") {
    *byte_level = true;
    if (BoolMember(step, "add_prefix_space", true)) {
      if (!data->split_patterns.empty()) return Unsupported("ByteLevel with add_prefix_space behind another step");
      data->space_prefix = SpacePrefix::kEveryRunIfAbsent;
    }
    if (BoolMember(step, "use_regex", true)) data->split_patterns.emplace_back(split_patterns::kGpt2);
    return Status::Ok();
  }
  return Unsupported("pre-tokenizer '" + type + "'");
}

// A token's spelling in tokenizer_config.json: a string or an object with "content".
std::optional<TokenId> NamedToken(const Json& config, const char* key, const TokenizerData& data) {
  const Json* value = Member(config, key);
  if (value == nullptr) return std::nullopt;
  const std::string name = value->is_string() ? value->get<std::string>() : StringMember(*value, "content");
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (!name.empty() && data.tokens[i] == name) return static_cast<TokenId>(i);
  }
  return std::nullopt;
}

// generation_config.json gives one id or a list.
std::vector<TokenId> IdList(const Json& config, const char* key) {
  std::vector<TokenId> ids;
  const Json* value = Member(config, key);
  if (value == nullptr) return ids;
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& entry : list) {
    if (const auto id = IdOf(entry)) ids.push_back(*id);
  }
  return ids;
}

// True if the post-processor puts the token `bos` in front of a text.
bool PostProcessorAddsBos(const Json& processor, const std::string& bos, int depth) {
  if (const Json* steps = Member(processor, "processors"); steps != nullptr && steps->is_array() && depth < 4) {
    for (const Json& step : *steps) {
      if (PostProcessorAddsBos(step, bos, depth + 1)) return true;
    }
  }
  const Json* single = Member(processor, "single");
  if (single == nullptr || !single->is_array() || single->empty()) return false;
  const Json* first = Member(single->front(), "SpecialToken");
  return first != nullptr && StringMember(*first, "id") == bos;
}

Result<TokenizerData> Assemble(const Json& json, const Json& config, const Json& generation) {
  TokenizerData data;
  const Json* model = Member(json, "model");
  if (model == nullptr) return Wrong("model is missing");
  RETURN_IF_ERROR(ReadModel(*model, &data));
  if (const Json* added = Member(json, "added_tokens")) RETURN_IF_ERROR(ReadAddedTokens(*added, &data));
  if (const Json* normaliser = Member(json, "normalizer")) RETURN_IF_ERROR(ReadNormaliser(*normaliser, &data));
  bool byte_level = false;
  if (const Json* step = Member(json, "pre_tokenizer")) RETURN_IF_ERROR(ReadPreTokenizer(*step, &data, &byte_level));
  if (byte_level == (data.kind == TokenizerData::Kind::kSentencePieceBpe)) {
    return Unsupported(byte_level ? "ByteLevel together with byte_fallback or Metaspace" : "BPE on characters");
  }
  if (!byte_level && !data.split_patterns.empty()) return Unsupported("a Split of a SentencePiece-style tokenizer");
  data.bos = NamedToken(config, "bos_token", data);
  data.eos = NamedToken(config, "eos_token", data);
  data.end_of_turn = IdList(generation, "eos_token_id");
  if (!data.eos && !data.end_of_turn.empty()) data.eos = data.end_of_turn.front();
  if (!data.bos) {
    if (const auto ids = IdList(generation, "bos_token_id"); !ids.empty()) data.bos = ids.front();
  }
  const auto valid = [&](std::optional<TokenId> id) { return id && static_cast<size_t>(*id) < data.tokens.size(); };
  if (!valid(data.bos)) data.bos.reset();
  if (!valid(data.eos)) data.eos.reset();
  const Json* processor = Member(json, "post_processor");
  const bool template_adds = data.bos && processor != nullptr &&
                             PostProcessorAddsBos(*processor, data.tokens[static_cast<size_t>(*data.bos)], 0);
  data.add_bos = BoolMember(config, "add_bos_token", template_adds);
  CompleteSpecialTokens(&data);
  return data;
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return IoError("cannot read " + path);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// vocab.json and merges.txt as a tokenizer.json would say it.
Json FromVocabAndMerges(Json vocab, std::string_view text) {
  Json merges = Json::array();
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty() && !(merges.empty() && line.starts_with("#version"))) merges.push_back(line);
  }
  return {{"model", {{"vocab", std::move(vocab)}, {"merges", std::move(merges)}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
}

Result<TokenizerData> AssembleGpt2(const Json& vocab, std::string_view merges, const Json& config,
                                   const Json& generation) {
  auto read = Assemble(FromVocabAndMerges(vocab, merges), config, generation);
  if (read.ok()) return read;
  return Status(read.status().code(), "vocab.json, merges.txt, read as " + read.status().message());
}

}  // namespace

Result<TokenizerData> ReadHuggingFaceTokenizer(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  std::error_code ignored;
  const bool one = std::filesystem::exists(path, ignored) || !std::filesystem::exists(folder + "/vocab.json", ignored);
  ASSIGN_OR_RETURN(const Json json, ReadJson(one ? path : folder + "/vocab.json", /*required=*/true));
  ASSIGN_OR_RETURN(const std::string merges, one ? std::string() : ReadText(folder + "/merges.txt"));
  ASSIGN_OR_RETURN(const Json config, ReadJson(folder + "/tokenizer_config.json", /*required=*/false));
  ASSIGN_OR_RETURN(const Json generation, ReadJson(folder + "/generation_config.json", /*required=*/false));
  try {
    return one ? Assemble(json, config, generation) : AssembleGpt2(json, merges, config, generation);
  } catch (const nlohmann::json::exception& error) {  // a shape that no check above expects
    return Wrong(error.what());
  }
}

Result<TokenizerData> ReadGpt2Tokenizer(std::string_view vocab, std::string_view merges) {
  const Json json = Json::parse(vocab, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("vocab.json is not JSON");
  try {
    return AssembleGpt2(json, merges, Json(), Json());
  } catch (const nlohmann::json::exception& error) {
    return Wrong(error.what());
  }
}

}  // namespace ringside
