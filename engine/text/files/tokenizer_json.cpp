#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json/json_tree.h"
#include "engine/text/files/tokenizer_json_members.h"
#include "engine/text/files/tokenizer_json_steps.h"
#include "engine/text/files/tokenizer_texts.h"
#include "engine/text/tokenizer_facts.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using namespace tokenizer_json;  // NOLINT
using Json = nlohmann::json;
using TokenType = TokenizerData::TokenType;

std::optional<TokenId> IdOf(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  const auto id = value.get<int64_t>();
  return id >= 0 && id < kMaxFileTokens ? std::optional(static_cast<TokenId>(id)) : std::nullopt;
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
    if (space == std::string::npos || space + 1 == line.size())
      return Malformed("merge '" + line + "' is not two tokens");
    data->merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    data->merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
  } else {
    return Malformed("a merge is neither \"a b\" nor [\"a\", \"b\"]");
  }
  return Status::Ok();
}

Status ReadBpe(const Json& model, TokenizerData* data) {
  const Json* vocab = Member(model, "vocab");
  const Json* merges = Member(model, "merges");
  if (vocab == nullptr || !vocab->is_object() || merges == nullptr || !merges->is_array()) {
    return Malformed("model.vocab or model.merges is missing");
  }
  for (const auto& [name, value] : vocab->items()) {
    const auto id = IdOf(value);
    if (!id) return Malformed("token '" + name + "' has no valid id");
    PutToken(*id, name, TokenType::kNormal, data);
  }
  for (const Json& merge : *merges) RETURN_IF_ERROR(ReadMerge(merge, data));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!StringMember(model, affix).empty()) return Unsupported(affix);
  }
  const Json* dropout = Member(model, "dropout");
  if (dropout != nullptr && dropout->is_number() && dropout->get<double>() > 0) {
    return Unsupported("a model with dropout");
  }
  data->kind = TokenizerData::Kind::kSentencePieceBpe;
  data->ignore_merges = BoolMember(model, "ignore_merges", false);
  data->fuse_unknown = BoolMember(model, "fuse_unk", false);
  if (const std::string unknown = StringMember(model, "unk_token"); !unknown.empty()) {
    if (const auto found = vocab->find(unknown); found != vocab->end()) data->unknown = IdOf(*found);
  }
  return Status::Ok();
}

// Rounds a score as the library's JSON parser does: the digits as an integer, times or divided by a power of ten. With
// 17 digits the result is one ulp off the nearest double, which decides between equal segmentations.
double RoundLikeLibrary(double score) {
  char text[64];
  const char* end = std::to_chars(text, text + sizeof text, std::abs(score)).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  const char* p = text;
  for (; p != end && *p != 'e'; ++p) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*p - '0');
    exponent -= fraction ? 1 : 0;
  }
  int written = 0;
  if (p != end) std::from_chars(p + (p[1] == '+' ? 2 : 1), end, written);
  exponent += written;
  const double power = std::pow(10.0, std::abs(exponent));
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, score);
}

Status ReadUnigram(const Json& model, TokenizerData* data) {
  const Json* vocab = Member(model, "vocab");
  if (vocab == nullptr || !vocab->is_array()) return Malformed("model.vocab of a Unigram is not a list");
  if (static_cast<int64_t>(vocab->size()) > kMaxFileTokens) return Malformed("model.vocab has too many tokens");
  data->kind = TokenizerData::Kind::kUnigram;
  for (const Json& token : *vocab) {
    if (!token.is_array() || token.size() != 2 || !token[0].is_string() || !token[1].is_number()) {
      return Malformed("a token of a Unigram is not [\"text\", score]");
    }
    data->tokens.push_back(token[0].get<std::string>());
    const auto score = token[1].get<double>();
    const bool common = std::abs(score) > 1e-5 && std::abs(score) < 1e15;  // digits and power are exact
    data->scores.push_back(common ? RoundLikeLibrary(score) : score);
  }
  data->types.assign(data->tokens.size(), TokenType::kNormal);
  if (const Json* unknown = Member(model, "unk_id")) {
    data->unknown = IdOf(*unknown);
    if (!data->unknown || static_cast<size_t>(*data->unknown) >= data->tokens.size()) {
      return Malformed("model.unk_id is not a token id");
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
  for (size_t i = 0; i < data->tokens.size(); ++i) {
    if (data->types[i] == TokenType::kNormal && ByteOfToken(data->tokens[i])) data->types[i] = TokenType::kByte;
  }
  return Status::Ok();
}

Status ReadAddedTokens(const Json& tokens, TokenizerData* data) {
  if (!tokens.is_array()) return Malformed("added_tokens is not a list");
  for (const Json& token : tokens) {
    const Json* id_value = Member(token, "id");
    // Not an optional: with -fsanitize=thread, g++ 12 reports its copy in `flags` as an uninitialized read.
    const TokenId id = id_value != nullptr ? IdOf(*id_value).value_or(-1) : -1;
    const std::string name = StringMember(token, "content");
    if (id < 0 || name.empty()) return Malformed("an added token has no id or no content");
    const bool special = BoolMember(token, "special", false);
    PutToken(id, name, special ? TokenType::kControl : TokenType::kUserDefined, data);
    const TokenizerData::AddedToken flags{.id = id,
                                          .strip_left = BoolMember(token, "lstrip", false),
                                          .strip_right = BoolMember(token, "rstrip", false),
                                          .single_word = BoolMember(token, "single_word", false),
                                          .normalised = BoolMember(token, "normalized", !special)};
    if (flags != TokenizerData::AddedToken{.id = id}) data->added.push_back(flags);
  }
  return Status::Ok();
}

// The token that the post-processor puts before a text; "" for none.
std::string FirstSpecialToken(const Json& processor, int depth) {
  if (const Json* steps = Member(processor, "processors"); steps != nullptr && steps->is_array() && depth < 4) {
    for (const Json& step : *steps) {
      if (std::string name = FirstSpecialToken(step, depth + 1); !name.empty()) return name;
    }
  }
  const std::string type = StringMember(processor, "type");
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    const Json* token = Member(processor, "cls");
    return token != nullptr && token->is_array() && !token->empty() ? token->front().get<std::string>() : "";
  }
  const Json* single = Member(processor, "single");
  if (single == nullptr || !single->is_array() || single->empty()) return "";
  const Json* first = Member(single->front(), "SpecialToken");
  return first == nullptr ? "" : StringMember(*first, "id");
}

// Byte-level if a step maps bytes to characters.
Status ChooseKind(TokenizerData* data) {
  const bool byte_level =
      std::ranges::any_of(data->normaliser, [](const auto& s) { return s.kind == NormaliserStep::Kind::kByteLevel; }) ||
      std::ranges::any_of(data->pre_tokenizer,
                          [](const auto& s) { return s.kind == PreTokenizerStep::Kind::kByteLevel; });
  if (!byte_level) return Status::Ok();
  const bool bytes_as_tokens = std::ranges::find(data->types, TokenType::kByte) != data->types.end();
  if (data->kind != TokenizerData::Kind::kSentencePieceBpe || bytes_as_tokens) {
    return Unsupported("ByteLevel together with byte_fallback or Unigram");
  }
  data->kind = TokenizerData::Kind::kByteLevelBpe;
  return Status::Ok();
}

bool PrependsSpace(const TokenizerData& data) {
  return std::ranges::any_of(data.normaliser,
                             [](const auto& step) {
                               return step.kind == NormaliserStep::Kind::kPrepend && step.text == kLowerOneEighthBlock;
                             }) ||
         std::ranges::any_of(data.pre_tokenizer, [](const auto& step) {
           return step.kind == PreTokenizerStep::Kind::kMetaspace && step.prefix != PreTokenizerStep::Prefix::kNever;
         });
}

Result<TokenizerData> Assemble(const Json& json) {
  TokenizerData data;
  data.dialect = TokenizerData::Dialect::kTokenizers;
  const Json* model = Member(json, "model");
  if (model == nullptr) return Malformed("model is missing");
  RETURN_IF_ERROR(ReadModel(*model, &data));
  if (const Json* added = Member(json, "added_tokens")) RETURN_IF_ERROR(ReadAddedTokens(*added, &data));
  if (const Json* normaliser = Member(json, "normalizer")) {
    RETURN_IF_ERROR(ReadNormaliserSteps(normaliser->dump(), &data));
  }
  if (const Json* step = Member(json, "pre_tokenizer")) RETURN_IF_ERROR(ReadPreTokenizerSteps(step->dump(), &data));
  RETURN_IF_ERROR(ChooseKind(&data));
  if (const Json* decoder = Member(json, "decoder")) {
    ASSIGN_OR_RETURN(data.strips_leading_space, DecoderStripsLeadingSpace(decoder->dump()));
  } else {
    data.strips_leading_space = PrependsSpace(data);
  }
  data.strips_leading_space = data.strips_leading_space && data.kind != TokenizerData::Kind::kByteLevelBpe;
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
  } catch (const nlohmann::json::exception& error) {  // an unexpected shape that no check above covers
    return Malformed(error.what());
  }
}

}  // namespace

Result<TokenizerData> ReadTokenizerJson(std::string_view text) {
  const Json json = ParseJsonTree(text, kLargeJson);
  if (json.is_discarded()) return InvalidArgument("tokenizer.json is not JSON");
  return AssembleChecked(json);
}

// Builds the equivalent tokenizer.json.
Result<TokenizerData> ReadVocabAndMerges(std::string_view vocab, std::string_view text) {
  Json tokens = ParseJsonTree(vocab, kLargeJson);
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
