#include "engine/convert/tokenizer_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/text/files/gguf_pre_tokenizers.h"
#include "engine/text/pipeline/patterns.h"

namespace ringside {
namespace {

using Json = nlohmann::ordered_json;
using TokenType = TokenizerData::TokenType;

bool IsAdded(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown;
}

// As in tekken.json; neither format can express it.
bool MergesByScore(const TokenizerData& data) { return data.merges.empty() && !data.scores.empty(); }

Json Pattern(const TextPattern& pattern) { return {{pattern.literal ? "String" : "Regex", pattern.text}}; }

Json ByteLevel(bool prefix, bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", regex}};
}

Json Split(const PreTokenizerStep& step) {
  constexpr const char* kBehaviours[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  return {{"type", "Split"},
          {"pattern", Pattern(step.pattern)},
          {"behavior", kBehaviours[static_cast<size_t>(step.behaviour)]},
          {"invert", step.invert}};
}

// ByteLevel comprises up to three steps.
Result<Json> PreTokenizer(const TokenizerData& data) {
  using Kind = PreTokenizerStep::Kind;
  Json steps = Json::array();
  const auto& given = data.pre_tokenizer;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool prefix = given[i].kind == Kind::kPrefixSpace;
    size_t last = i + (prefix ? 1 : 0);
    const bool regex = last < given.size() && given[last] == Isolate(patterns::kGpt2);
    if (regex) ++last;
    if (last < given.size() && given[last].kind == Kind::kByteLevel) {
      steps.push_back(ByteLevel(prefix, regex));
      i = last;
    } else if (given[i].kind == Kind::kSplit) {
      steps.push_back(Split(given[i]));
    } else {
      return InvalidArgument("the tokenizer's pre-tokenizer cannot be written as tokenizer.json");
    }
  }
  if (steps.empty()) return ByteLevel(false, false);
  return steps.size() == 1 ? steps.front() : Json{{"type", "Sequence"}, {"pretokenizers", steps}};
}

Result<Json> Normaliser(const TokenizerData& data) {
  using Kind = NormaliserStep::Kind;
  const std::pair<Kind, const char*> plain[] = {{Kind::kNfc, "NFC"},
                                                {Kind::kNfd, "NFD"},
                                                {Kind::kNfkc, "NFKC"},
                                                {Kind::kNfkd, "NFKD"},
                                                {Kind::kLowercase, "Lowercase"},
                                                {Kind::kStripAccents, "StripAccents"}};
  Json steps = Json::array();
  for (const NormaliserStep& step : data.normaliser) {
    const auto* found = std::ranges::find(plain, step.kind, &std::pair<Kind, const char*>::first);
    if (found == std::end(plain)) {
      return InvalidArgument("the tokenizer's normaliser cannot be written as tokenizer.json");
    }
    steps.push_back({{"type", found->second}});
  }
  if (steps.empty()) return Json();
  return steps.size() == 1 ? steps.front() : Json{{"type", "Sequence"}, {"normalizers", steps}};
}

Result<std::string> TokenizerJson(const TokenizerData& data) {
  ASSIGN_OR_RETURN(const Json normaliser, Normaliser(data));
  ASSIGN_OR_RETURN(const Json pre_tokenizer, PreTokenizer(data));
  Json vocab = Json::object(), added = Json::array(), merges = Json::array();
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const TokenType type = data.types[i];
    if (type == TokenType::kUnused) continue;
    vocab[data.tokens[i]] = i;
    if (!IsAdded(type)) continue;
    const auto flagged = std::ranges::find(data.added, static_cast<TokenId>(i), &TokenizerData::AddedToken::id);
    const auto flags = flagged == data.added.end() ? TokenizerData::AddedToken() : *flagged;
    added.push_back({{"id", i},
                     {"content", data.tokens[i]},
                     {"single_word", flags.single_word},
                     {"lstrip", flags.strip_left},
                     {"rstrip", flags.strip_right},
                     {"normalized", flags.normalised},
                     {"special", type != TokenType::kUserDefined}});
  }
  for (const auto& [left, right] : data.merges) merges.push_back({left, right});
  const Json model = {{"type", "BPE"},
                      {"fuse_unk", data.fuse_unknown},
                      {"ignore_merges", data.ignore_merges},
                      {"vocab", vocab},
                      {"merges", merges}};
  const Json json = {{"version", "1.0"},
                     {"added_tokens", added},
                     {"normalizer", normaliser},
                     {"pre_tokenizer", pre_tokenizer},
                     {"decoder", {{"type", "ByteLevel"}}},
                     {"model", model}};
  return json.dump() + "\n";
}

// SentencePiece's numbers.
int64_t GgufType(TokenType type) {
  switch (type) {
    case TokenType::kUnknown:
      return 2;
    case TokenType::kControl:
      return 3;
    case TokenType::kUserDefined:
      return 4;
    case TokenType::kUnused:
      return 5;
    case TokenType::kByte:
      return 6;
    default:
      return 1;
  }
}

// Drops unused tokens, which no text produces, whatever their names in a file.
TokenizerData Comparable(TokenizerData data) {
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (data.types[i] == TokenType::kUnused) data.tokens[i].clear();
  }
  while (!data.types.empty() && data.types.back() == TokenType::kUnused) data.types.pop_back(), data.tokens.pop_back();
  if (!data.scores.empty()) data.scores.resize(data.tokens.size());
  return data;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> TokenizerFiles(const TokenizerData& data,
                                                                        const std::string& chat_template,
                                                                        const SamplingParams* sampling) {
  if (data.kind != TokenizerData::Kind::kByteLevelBpe) {
    return InvalidArgument("a SentencePiece tokenizer of a GGUF file cannot be written as tokenizer.json");
  }
  if (MergesByScore(data)) return InvalidArgument("a tokenizer without a list of merges cannot be written");
  ASSIGN_OR_RETURN(const std::string text, TokenizerJson(data));
  Json config = {{"add_bos_token", data.text_begin.has_value()}}, generation = Json::object();
  if (data.bos) config["bos_token"] = data.tokens[static_cast<size_t>(*data.bos)];
  if (data.eos) config["eos_token"] = data.tokens[static_cast<size_t>(*data.eos)];
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  if (data.bos) generation["bos_token_id"] = *data.bos;
  if (data.eos) generation["eos_token_id"] = data.end_of_turn;  // otherwise its first entry would become EOS
  if (sampling != nullptr) {
    generation["temperature"] = sampling->temperature;
    generation["top_p"] = sampling->top_p;
    generation["top_k"] = sampling->top_k;
    generation["min_p"] = sampling->min_p;
    generation["repetition_penalty"] = sampling->repetition_penalty;
  }
  return std::vector<std::pair<std::string, std::string>>{{"tokenizer.json", text},
                                                          {"tokenizer_config.json", config.dump(2) + "\n"},
                                                          {"generation_config.json", generation.dump(2) + "\n"}};
}

Result<std::vector<GgufEntry>> GgufTokenizer(const TokenizerData& data, const std::string& chat_template) {
  const bool byte_level = data.kind == TokenizerData::Kind::kByteLevelBpe;
  const bool unigram = data.kind == TokenizerData::Kind::kUnigram;
  if (!unigram && !data.charsmap.empty()) {
    return InvalidArgument("a tokenizer with a charsmap that is not unigram cannot be written to a GGUF file");
  }
  if (byte_level && data.merges.empty())
    return InvalidArgument("a tokenizer without a list of merges cannot be written");
  const bool prefix = byte_level && !data.pre_tokenizer.empty() &&
                      data.pre_tokenizer.front().kind == PreTokenizerStep::Kind::kPrefixSpace;
  std::vector<GgufEntry> out;
  const auto add = [&](const char* key, auto value) { out.push_back({std::string("tokenizer.") + key, value}); };
  add("ggml.model", std::string(byte_level ? "gpt2" : unigram ? "t5" : "llama"));
  add("ggml.tokens", data.tokens);
  std::vector<int64_t> types;
  for (const TokenType type : data.types) types.push_back(GgufType(type));
  add("ggml.token_type", types);
  if (byte_level) {
    // GGUF has a key for the prefix space.
    TokenizerData rest = data;
    if (prefix) rest.pre_tokenizer.erase(rest.pre_tokenizer.begin());
    const auto name = NameGgufPreTokenizer(rest);
    if (!name) return InvalidArgument("the tokenizer's pre-tokenizer has no name in GGUF files");
    add("ggml.pre", std::string(*name));
    std::vector<std::string> merges;
    for (const auto& [left, right] : data.merges) merges.push_back(left + " " + right);
    add("ggml.merges", merges);
  } else if (data.scores.empty()) {
    return InvalidArgument("a SentencePiece tokenizer without scores cannot be written to a GGUF file");
  } else {
    add("ggml.scores", data.scores);
    if (data.unknown) add("ggml.unknown_token_id", int64_t{*data.unknown});
    if (data.white_space.collapse) add("ggml.remove_extra_whitespaces", true);
    if (!data.charsmap.empty()) {
      add("ggml.precompiled_charsmap", std::vector<uint8_t>(data.charsmap.begin(), data.charsmap.end()));
    }
  }
  add("ggml.add_space_prefix", prefix || data.white_space.prefix);
  add("ggml.add_bos_token", data.text_begin.has_value());
  if (data.bos) add("ggml.bos_token_id", int64_t{*data.bos});
  if (data.eos) add("ggml.eos_token_id", int64_t{*data.eos});
  const char* const others[] = {"ggml.eot_token_id", "ggml.eom_token_id"};
  size_t next = 0;
  for (const TokenId id : data.end_of_turn) {
    if (id != data.eos && next < std::size(others)) add(others[next++], int64_t{id});
  }
  if (!chat_template.empty()) add("chat_template", chat_template);
  return out;
}

std::vector<GgufEntry> GgufSampling(const SamplingParams& sampling) {
  return {{"general.sampling.temp", sampling.temperature},
          {"general.sampling.top_p", sampling.top_p},
          {"general.sampling.top_k", sampling.top_k},
          {"general.sampling.min_p", sampling.min_p},
          {"general.sampling.penalty_repeat", sampling.repetition_penalty}};
}

std::string DifferentTokenizer(const TokenizerData& a, const TokenizerData& b) {
  const TokenizerData x = Comparable(a), y = Comparable(b);
  const std::pair<const char*, bool> facts[] = {
      {"kind", x.kind == y.kind},
      {"tokens", x.tokens == y.tokens},
      {"types of tokens", x.types == y.types},
      {"scores", x.scores == y.scores},
      {"merges", x.merges == y.merges && x.ignore_merges == y.ignore_merges},
      {"pre-tokenizer", x.pre_tokenizer == y.pre_tokenizer},
      {"normaliser", x.normaliser == y.normaliser && x.charsmap == y.charsmap},
      {"white space", x.white_space == y.white_space},
      {"flags of added tokens", x.added == y.added},
      {"first token of a text", x.bos == y.bos && x.text_begin == y.text_begin},
      {"last token of a text", x.eos == y.eos},
      {"unknown token", x.unknown == y.unknown},
      {"ends of an answer", x.end_of_turn == y.end_of_turn},
  };
  const auto found = std::ranges::find_if(facts, [](const auto& fact) { return !fact.second; });
  return found == std::end(facts) ? "" : found->first;
}

}  // namespace ringside
