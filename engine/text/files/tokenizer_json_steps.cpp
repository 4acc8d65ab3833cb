#include "engine/text/files/tokenizer_json_steps.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/base64.h"
#include "base/json/json_tree.h"
#include "engine/text/files/tokenizer_json_members.h"
#include "engine/text/pipeline/patterns.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using namespace tokenizer_json;  // NOLINT
using Json = nlohmann::json;
using NormaliserKind = NormaliserStep::Kind;
using PreTokenizerKind = PreTokenizerStep::Kind;
using Behaviour = PreTokenizerStep::Behaviour;
using Prefix = PreTokenizerStep::Prefix;

constexpr int kMaxSequenceDepth = 8;        // nesting of sequences
constexpr size_t kMaxSteps = 64;            // total
constexpr int64_t kMaxFixedLength = 65535;  // limit of a repetition count in PCRE2

Result<TextPattern> ReadPattern(const Json& step) {
  const Json* pattern = Member(step, "pattern");
  if (pattern == nullptr) return Malformed("a step has no pattern");
  const std::string regex = StringMember(*pattern, "Regex"), literal = StringMember(*pattern, "String");
  if (regex.empty() == literal.empty()) return Malformed("a step's pattern is neither a Regex nor a String");
  return regex.empty() ? TextPattern{literal, true} : TextPattern{regex, false};
}

// ---- normalisers ----

Status AddPlain(NormaliserKind kind, TokenizerData* data) {
  data->normaliser.emplace_back().kind = kind;
  return Status::Ok();
}

Status AddStrip(const Json& step, TokenizerData* data) {
  NormaliserStep& added = data->normaliser.emplace_back();
  added.kind = NormaliserKind::kStrip;
  added.left = BoolMember(step, "strip_left", true);
  added.right = BoolMember(step, "strip_right", true);
  return Status::Ok();
}

Status AddReplace(const Json& step, TokenizerData* data) {
  NormaliserStep& added = data->normaliser.emplace_back();
  added.kind = NormaliserKind::kReplace;
  ASSIGN_OR_RETURN(added.pattern, ReadPattern(step));
  added.text = StringMember(step, "content");
  return Status::Ok();
}

Status AddPrepend(const Json& step, TokenizerData* data) {
  NormaliserStep& added = data->normaliser.emplace_back();
  added.kind = NormaliserKind::kPrepend;
  added.text = StringMember(step, "prepend");
  return Status::Ok();
}

Status AddPrecompiled(const Json& step, TokenizerData* data) {
  const auto charsmap = DecodeBase64(StringMember(step, "precompiled_charsmap"));
  if (!charsmap) return Malformed("precompiled_charsmap is not base64");
  NormaliserStep& added = data->normaliser.emplace_back();
  added.kind = NormaliserKind::kPrecompiled;
  added.text = *charsmap;
  return Status::Ok();
}

// ---- pre-tokenizers ----

PreTokenizerStep SplitStep(const char* pattern, Behaviour behaviour, bool invert = false) {
  PreTokenizerStep step = Isolate(pattern);
  step.behaviour = behaviour;
  step.invert = invert;
  return step;
}

Result<Behaviour> ReadBehaviour(const Json& step) {
  const std::string name = StringMember(step, "behavior");
  const std::pair<const char*, Behaviour> known[] = {{"", Behaviour::kIsolated},
                                                     {"Isolated", Behaviour::kIsolated},
                                                     {"Removed", Behaviour::kRemoved},
                                                     {"MergedWithPrevious", Behaviour::kMergedWithPrevious},
                                                     {"MergedWithNext", Behaviour::kMergedWithNext},
                                                     {"Contiguous", Behaviour::kContiguous}};
  for (const auto& [spelling, behaviour] : known) {
    if (name == spelling) return behaviour;
  }
  return Unsupported("the behavior '" + name + "'");
}

PreTokenizerStep& AddStep(PreTokenizerKind kind, TokenizerData* data) {
  PreTokenizerStep& step = data->pre_tokenizer.emplace_back();
  step.kind = kind;
  return step;
}

Status AddSplit(const Json& step, TokenizerData* data) {
  PreTokenizerStep& split = AddStep(PreTokenizerKind::kSplit, data);
  ASSIGN_OR_RETURN(split.pattern, ReadPattern(step));
  ASSIGN_OR_RETURN(split.behaviour, ReadBehaviour(step));
  split.invert = BoolMember(step, "invert", false);
  // The known patterns cover every text, so the removal of gaps has no effect.
  const char* const whole[] = {patterns::kGpt2, patterns::kLlama3, patterns::kQwen2, patterns::kTekken,
                               patterns::kO200k};
  if (split.behaviour == Behaviour::kRemoved && split.invert &&
      std::ranges::any_of(whole, [&](const char* known) { return split.pattern.text == known; })) {
    split.behaviour = Behaviour::kIsolated;
    split.invert = false;
  }
  return Status::Ok();
}

Status AddDigits(const Json& step, TokenizerData* data) {
  const bool single = BoolMember(step, "individual_digits", false);
  data->pre_tokenizer.push_back(
      SplitStep(patterns::kSingleDigit, single ? Behaviour::kIsolated : Behaviour::kContiguous));
  return Status::Ok();
}

Status AddPunctuation(const Json& step, TokenizerData* data) {
  ASSIGN_OR_RETURN(const Behaviour behaviour, ReadBehaviour(step));
  data->pre_tokenizer.push_back(SplitStep(patterns::kPunctuation, behaviour));
  return Status::Ok();
}

Status AddWhitespace(const Json&, TokenizerData* data) {
  data->pre_tokenizer.push_back(SplitStep(patterns::kWords, Behaviour::kRemoved, true));
  return Status::Ok();
}

Status AddWhitespaceSplit(const Json&, TokenizerData* data) {
  data->pre_tokenizer.push_back(SplitStep(patterns::kSpace, Behaviour::kRemoved));
  return Status::Ok();
}

Status AddCharDelimiterSplit(const Json& step, TokenizerData* data) {
  PreTokenizerStep& split = AddStep(PreTokenizerKind::kSplit, data);
  split.pattern.text = StringMember(step, "delimiter");
  split.pattern.literal = true;
  split.behaviour = Behaviour::kRemoved;
  return Status::Ok();
}

Status AddFixedLength(const Json& step, TokenizerData* data) {
  const Json* length = Member(step, "length");
  const int64_t count = length != nullptr && length->is_number_integer() ? length->get<int64_t>() : 0;
  if (count < 1 || count > kMaxFixedLength) {
    return Malformed("FixedLength's length is not between 1 and " + std::to_string(kMaxFixedLength));
  }
  data->pre_tokenizer.push_back(Isolate("(?m:.{1," + std::to_string(count) + "})"));
  return Status::Ok();
}

Status AddMetaspace(const Json& step, TokenizerData* data) {
  if (StringMember(step, "replacement") != kLowerOneEighthBlock) return Unsupported("a Metaspace replacement");
  const std::string scheme = StringMember(step, "prepend_scheme");
  const bool always = scheme == "always" || (scheme.empty() && BoolMember(step, "add_prefix_space", true));
  PreTokenizerStep& added = AddStep(PreTokenizerKind::kMetaspace, data);
  added.replacement = kLowerOneEighthBlock;
  added.prefix = always ? Prefix::kAlways : scheme == "first" ? Prefix::kFirst : Prefix::kNever;
  added.split = BoolMember(step, "split", true);
  return Status::Ok();
}

Status AddByteLevel(const Json& step, TokenizerData* data) {
  if (BoolMember(step, "add_prefix_space", true)) AddStep(PreTokenizerKind::kPrefixSpace, data);
  if (BoolMember(step, "use_regex", true)) data->pre_tokenizer.push_back(Isolate(patterns::kGpt2));
  AddStep(PreTokenizerKind::kByteLevel, data);
  return Status::Ok();
}

Status AddUnicodeScripts(const Json&, TokenizerData* data) {
  AddStep(PreTokenizerKind::kScripts, data);
  return Status::Ok();
}

// ---- both ----

struct Reader {
  const char* type;
  Status (*read)(const Json& step, TokenizerData* data);
};
constexpr Reader kNormalisers[] = {
    {"NFC", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kNfc, data); }},
    {"NFD", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kNfd, data); }},
    {"NFKC", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kNfkc, data); }},
    {"NFKD", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kNfkd, data); }},
    {"Lowercase", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kLowercase, data); }},
    {"StripAccents", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kStripAccents, data); }},
    {"ByteLevel", [](const Json&, TokenizerData* data) { return AddPlain(NormaliserKind::kByteLevel, data); }},
    {"Strip", AddStrip},
    {"Replace", AddReplace},
    {"Prepend", AddPrepend},
    {"Precompiled", AddPrecompiled}};
constexpr Reader kPreTokenizers[] = {{"Split", AddSplit},
                                     {"Digits", AddDigits},
                                     {"Punctuation", AddPunctuation},
                                     {"Whitespace", AddWhitespace},
                                     {"WhitespaceSplit", AddWhitespaceSplit},
                                     {"CharDelimiterSplit", AddCharDelimiterSplit},
                                     {"FixedLength", AddFixedLength},
                                     {"UnicodeScripts", AddUnicodeScripts},
                                     {"Metaspace", AddMetaspace},
                                     {"ByteLevel", AddByteLevel}};

struct StepKind {
  const char* name;     // in messages
  const char* members;  // key of a sequence's members
  std::span<const Reader> readers;
};

Status ReadStep(const StepKind& kind, const Json& step, int depth, TokenizerData* data) {
  const std::string type = StringMember(step, "type");
  if (type == "Sequence") {
    const Json* list = Member(step, kind.members);
    if (list == nullptr || !list->is_array())
      return Malformed(std::string("a ") + kind.name + " sequence has no steps");
    if (depth == kMaxSequenceDepth) return Unsupported(std::string("a ") + kind.name + " of deeply nested sequences");
    for (const Json& inner : *list) RETURN_IF_ERROR(ReadStep(kind, inner, depth + 1, data));
    return Status::Ok();
  }
  if (data->normaliser.size() + data->pre_tokenizer.size() > kMaxSteps) {
    return Unsupported(std::string("a ") + kind.name + " of more than " + std::to_string(kMaxSteps) + " steps");
  }
  for (const Reader& reader : kind.readers) {
    if (type == reader.type) return reader.read(step, data);
  }
  return Unsupported(std::string(kind.name) + " '" + type + "'");
}

Result<bool> StripsSpace(const Json& decoder, int depth) {
  const std::string type = StringMember(decoder, "type");
  if (type == "Sequence") {
    const Json* list = Member(decoder, "decoders");
    if (list == nullptr || !list->is_array()) return Malformed("a decoder sequence has no steps");
    if (depth == kMaxSequenceDepth) return Unsupported("a decoder of deeply nested sequences");
    bool strips = false;
    for (const Json& inner : *list) {
      ASSIGN_OR_RETURN(const bool step, StripsSpace(inner, depth + 1));
      strips = strips || step;
    }
    return strips;
  }
  if (type == "Metaspace") {
    const std::string scheme = StringMember(decoder, "prepend_scheme");
    return scheme.empty() ? BoolMember(decoder, "add_prefix_space", true) : scheme != "never";
  }
  if (type == "Strip") {
    const Json* start = Member(decoder, "start");
    return StringMember(decoder, "content") == " " && start != nullptr && start->is_number() &&
           start->get<double>() >= 1;
  }
  const char* const others[] = {"ByteLevel", "ByteFallback", "Fuse", "Replace"};
  if (std::ranges::any_of(others, [&](const char* known) { return type == known; })) return false;
  return Unsupported("decoder '" + type + "'");
}

Result<Json> Parse(std::string_view text) {
  Json json = ParseJsonTree(text, kLargeJson);
  if (json.is_discarded()) return Malformed("a step is not JSON");
  return json;
}

}  // namespace

Status ReadNormaliserSteps(std::string_view json, TokenizerData* data) {
  ASSIGN_OR_RETURN(const Json step, Parse(json));
  return ReadStep({"normalizer", "normalizers", kNormalisers}, step, 0, data);
}

Status ReadPreTokenizerSteps(std::string_view json, TokenizerData* data) {
  ASSIGN_OR_RETURN(const Json step, Parse(json));
  return ReadStep({"pre-tokenizer", "pretokenizers", kPreTokenizers}, step, 0, data);
}

Result<bool> DecoderStripsLeadingSpace(std::string_view json) {
  ASSIGN_OR_RETURN(const Json decoder, Parse(json));
  return StripsSpace(decoder, 0);
}

}  // namespace ringside
