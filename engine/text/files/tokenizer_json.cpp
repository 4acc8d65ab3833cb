#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/base64.h"
#include "engine/text/files/tokenizer_texts.h"
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

void PutToken(TokenId id, const std::string& name, TokenType type, TokenizerData* data) {
  const auto i = static_cast<size_t>(id);
  if (i >= data->tokens.size()) {
    data->tokens.resize(i + 1);
    data->types.resize(i + 1, TokenType::kUnused);
  }
  data->tokens[i] = name;
  data->types[i] = type;
}

// Not on bytes.
void BuildOnCharacters(TokenizerData* data) {
  if (data->kind == TokenizerData::Kind::kByteLevelBpe) data->kind = TokenizerData::Kind::kSentencePieceBpe;
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

Status ReadBpe(const Json& model, TokenizerData* data) {
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
  if (const std::string unknown = StringMember(model, "unk_token"); !unknown.empty()) {
    if (const auto found = vocab->find(unknown); found != vocab->end()) data->unknown = IdOf(*found);
  }
  return Status::Ok();
}

Status ReadUnigram(const Json& model, TokenizerData* data) {
  const Json* vocab = Member(model, "vocab");
  if (vocab == nullptr || !vocab->is_array()) return Wrong("model.vocab of a Unigram is no list");
  if (static_cast<int64_t>(vocab->size()) > kMaxTokens) return Wrong("model.vocab has too many tokens");
  data->kind = TokenizerData::Kind::kUnigram;
  for (const Json& token : *vocab) {
    if (!token.is_array() || token.size() != 2 || !token[0].is_string() || !token[1].is_number()) {
      return Wrong("a token of a Unigram is not [\"text\", score]");
    }
    data->tokens.push_back(token[0].get<std::string>());
    data->scores.push_back(token[1].get<double>());
  }
  data->types.assign(data->tokens.size(), TokenType::kNormal);
  if (const Json* unknown = Member(model, "unk_id")) {
    data->unknown = IdOf(*unknown);
    if (!data->unknown || static_cast<size_t>(*data->unknown) >= data->tokens.size()) {
      return Wrong("model.unk_id is no token");
    }
  }
  return Status::Ok();
}

Status ReadModel(const Json& model, TokenizerData* data) {
  const std::string type = StringMember(model, "type");
  if (type == "Unigram") {
    RETURN_IF_ERROR(ReadUnigram(model, data));
  } else if (type.empty() || type == "BPE") {
    RETURN_IF_ERROR(ReadBpe(model, data));
  } else {
    return Unsupported("model '" + type + "'");
  }
  if (data->unknown) data->types[static_cast<size_t>(*data->unknown)] = TokenType::kUnknown;
  if (!BoolMember(model, "byte_fallback", false)) return Status::Ok();
  BuildOnCharacters(data);
  for (size_t i = 0; i < data->tokens.size(); ++i) {
    if (data->types[i] == TokenType::kNormal && ByteOfToken(data->tokens[i])) data->types[i] = TokenType::kByte;
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

// What the steps in front of the model do to the text besides what they leave in TokenizerData.
struct Steps {
  int normalised = 0;           // the rank of the last step of the normaliser, see ReadNormaliser
  bool escapes_spaces = false;  // as U+2581
  bool byte_level = false;      // the bytes' alphabet is asked for
};

// One step, which may come behind those of its own rank and below only: that is the order in which we do them.
Status ReadNormaliserStep(const Json& step, const std::string& type, TokenizerData* data, Steps* steps) {
  const auto reach = [&](int rank) -> Status {
    if (rank < steps->normalised) return Unsupported("normalizer '" + type + "' behind the one before it");
    steps->normalised = rank;
    return Status::Ok();
  };
  const Json* pattern = Member(step, "pattern");
  const std::string content = StringMember(step, "content");
  if (type == "Precompiled") {
    const auto charsmap = DecodeBase64(StringMember(step, "precompiled_charsmap"));
    if (!charsmap || !data->charsmap.empty()) return Wrong("precompiled_charsmap is not base64, or there are two");
    data->charsmap = *charsmap;
    return reach(1);
  }
  if (type == "NFC") {
    data->normalise_nfc = true;
    return reach(2);
  }
  if (type == "Strip") {
    data->white_space.trim_front = BoolMember(step, "strip_left", true);
    data->white_space.trim_back = BoolMember(step, "strip_right", true);
    return reach(3);
  }
  if (type == "Replace" && pattern != nullptr && StringMember(*pattern, "Regex") == " {2,}" &&
      (content == " " || content == kLowerOneEighthBlock)) {
    data->white_space.collapse = true;
    return reach(4);
  }
  if (type == "Prepend" && StringMember(step, "prepend") == kLowerOneEighthBlock) {
    data->space_prefix = SpacePrefix::kEveryRun;
    BuildOnCharacters(data);
    return reach(5);
  }
  if (type == "Replace" && pattern != nullptr && StringMember(*pattern, "String") == " " &&
      content == kLowerOneEighthBlock) {
    steps->escapes_spaces = true;
    BuildOnCharacters(data);
    return reach(6);
  }
  return Unsupported("normalizer '" + type + "'");
}

Status ReadNormaliser(const Json& normaliser, TokenizerData* data, Steps* steps) {
  const std::string type = StringMember(normaliser, "type");
  if (type != "Sequence") return ReadNormaliserStep(normaliser, type, data, steps);
  const Json* list = Member(normaliser, "normalizers");
  if (list == nullptr || !list->is_array()) return Wrong("a normalizer sequence has no steps");
  for (const Json& step : *list) {
    if (StringMember(step, "type") == "Sequence") return Unsupported("a sequence inside a sequence");
    RETURN_IF_ERROR(ReadNormaliserStep(step, StringMember(step, "type"), data, steps));
  }
  return Status::Ok();
}

Status ReadSplit(const Json& split, TokenizerData* data) {
  const Json* pattern = Member(split, "pattern");
  const std::string behavior = StringMember(split, "behavior");
  const bool inverted = BoolMember(split, "invert", false);
  if (pattern == nullptr) return Wrong("a Split has no pattern");
  if (data->kind != TokenizerData::Kind::kByteLevelBpe && StringMember(*pattern, "String") == " ") {
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
  data->white_space.begins_words = BoolMember(metaspace, "split", true);
  BuildOnCharacters(data);
  const std::string scheme = StringMember(metaspace, "prepend_scheme");
  const bool always = scheme == "always" || (scheme.empty() && BoolMember(metaspace, "add_prefix_space", true));
  data->space_prefix = always              ? SpacePrefix::kEveryRunIfAbsent
                       : scheme == "first" ? SpacePrefix::kFirstRunIfAbsent
                                           : SpacePrefix::kNone;
  return Status::Ok();
}

Status ReadPreTokenizer(const Json& step, TokenizerData* data, Steps* steps) {
  const std::string type = StringMember(step, "type");
  if (type == "Sequence") {
    const Json* list = Member(step, "pretokenizers");
    if (list == nullptr || !list->is_array()) return Wrong("a pre-tokenizer sequence has no steps");
    for (const Json& inner : *list) {
      if (StringMember(inner, "type") == "Sequence") return Unsupported("a sequence inside a sequence");
      if (steps->byte_level) return Unsupported("a pre-tokenizer behind ByteLevel");
      RETURN_IF_ERROR(ReadPreTokenizer(inner, data, steps));
    }
    return Status::Ok();
  }
  if (type == "Split") return ReadSplit(step, data);
  if (type == "Metaspace") {
    steps->escapes_spaces = true;
    return ReadMetaspace(step, data);
  }
  if (type == "WhitespaceSplit") {
    if (steps->escapes_spaces) return Unsupported("WhitespaceSplit behind Metaspace");
    data->white_space.separates = true;
    return Status::Ok();
  }
  if (type == "Digits") {
    const bool single = BoolMember(step, "individual_digits", false);
    data->split_patterns.emplace_back(single ? split_patterns::kSingleDigit : split_patterns::kDigits);
    return Status::Ok();
  }
  if (type == "ByteLevel") {
    steps->byte_level = true;
    if (BoolMember(step, "add_prefix_space", true)) {
      if (!data->split_patterns.empty()) return Unsupported("ByteLevel with add_prefix_space behind another step");
      data->space_prefix = SpacePrefix::kEveryRunIfAbsent;
    }
    if (BoolMember(step, "use_regex", true)) data->split_patterns.emplace_back(split_patterns::kGpt2);
    return Status::Ok();
  }
  return Unsupported("pre-tokenizer '" + type + "'");
}

// The token that the post-processor puts in front of a text; "" for none.
std::string FirstSpecialToken(const Json& processor, int depth) {
  if (const Json* steps = Member(processor, "processors"); steps != nullptr && steps->is_array() && depth < 4) {
    for (const Json& step : *steps) {
      if (std::string name = FirstSpecialToken(step, depth + 1); !name.empty()) return name;
    }
  }
  const Json* single = Member(processor, "single");
  if (single == nullptr || !single->is_array() || single->empty()) return "";
  const Json* first = Member(single->front(), "SpecialToken");
  return first == nullptr ? "" : StringMember(*first, "id");
}

Result<TokenizerData> Assemble(const Json& json) {
  TokenizerData data;
  const Json* model = Member(json, "model");
  if (model == nullptr) return Wrong("model is missing");
  RETURN_IF_ERROR(ReadModel(*model, &data));
  if (const Json* added = Member(json, "added_tokens")) RETURN_IF_ERROR(ReadAddedTokens(*added, &data));
  Steps steps;
  if (const Json* normaliser = Member(json, "normalizer")) RETURN_IF_ERROR(ReadNormaliser(*normaliser, &data, &steps));
  if (const Json* step = Member(json, "pre_tokenizer")) RETURN_IF_ERROR(ReadPreTokenizer(*step, &data, &steps));
  const bool characters = data.kind != TokenizerData::Kind::kByteLevelBpe;
  if (characters) data.dialect = TokenizerData::Dialect::kTokenizers;
  if (steps.byte_level == characters) {
    return Unsupported(characters ? "ByteLevel together with byte_fallback, Unigram or Metaspace"
                                  : "BPE on characters");
  }
  if (!characters && (!data.charsmap.empty() || data.white_space != TokenizerData::WhiteSpace())) {
    return Unsupported("ByteLevel together with Precompiled, Strip or WhitespaceSplit");
  }
  if (characters && !data.split_patterns.empty()) return Unsupported("a Split of a SentencePiece-style tokenizer");
  if (characters && data.white_space.separates && data.space_prefix != SpacePrefix::kEveryRunIfAbsent) {
    return Unsupported("WhitespaceSplit without a space in front of each word");
  }
  if (data.kind == TokenizerData::Kind::kUnigram && !steps.escapes_spaces)
    return Unsupported("Unigram without Metaspace");
  if (data.kind == TokenizerData::Kind::kUnigram) data.scores.resize(data.tokens.size());
  const Json* processor = Member(json, "post_processor");
  const std::string bos = processor == nullptr ? "" : FirstSpecialToken(*processor, 0);
  const auto found = std::ranges::find(data.tokens, bos);
  if (!bos.empty() && found != data.tokens.end()) data.bos = static_cast<TokenId>(found - data.tokens.begin());
  data.text_begin = data.bos;
  return data;
}

Result<TokenizerData> AssembleChecked(const Json& json) {
  try {
    return Assemble(json);
  } catch (const nlohmann::json::exception& error) {  // a shape that no check above expects
    return Wrong(error.what());
  }
}

}  // namespace

Result<TokenizerData> ReadTokenizerJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("tokenizer.json is not JSON");
  return AssembleChecked(json);
}

// As a tokenizer.json would say it.
Result<TokenizerData> ReadVocabAndMerges(std::string_view vocab, std::string_view text) {
  Json tokens = Json::parse(vocab, nullptr, /*allow_exceptions=*/false);
  if (tokens.is_discarded()) return InvalidArgument("vocab.json is not JSON");
  Json merges = Json::array();
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty() && !(merges.empty() && line.starts_with("#version"))) merges.push_back(line);
  }
  const Json json = {{"model", {{"vocab", std::move(tokens)}, {"merges", std::move(merges)}}},
                     {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
  auto read = AssembleChecked(json);
  if (read.ok()) return read;
  return Status(read.status().code(), "vocab.json, merges.txt, read as " + read.status().message());
}

}  // namespace ringside
