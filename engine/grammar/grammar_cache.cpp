#include "engine/grammar/grammar_cache.h"

#include <optional>

#include "base/limits.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema/json_schema.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

constexpr size_t kMostGrammars = 1024;

Result<GrammarSource> WholeRegex(const std::string& pattern) {
  GrammarSource source;
  const RuleId start = source.AddRule("answer");
  ASSIGN_OR_RETURN(const ExpressionId body, ReadRegex(pattern, &source, {}));
  source.Define(start, body);
  source.SetStart(start);
  return source;
}

/// The rules that all answers follow under which tools may be called.
Result<GrammarSource> WithCalls(Result<GrammarSource> answer, const AnswerFormat& format) {
  GrammarSource source;
  std::optional<ExpressionId> text;
  if (format.kind != AnswerFormat::Kind::kText) {
    if (!answer.ok()) return answer.status();
    source = std::move(*answer);
    text = source.Rule(source.start());
  }
  ASSIGN_OR_RETURN(const ExpressionId body, AddToolCalls(*format.calls, text ? &*text : nullptr, &source));
  const RuleId start = source.AddRule("answer");
  source.Define(start, body);
  source.SetStart(start);
  return source;
}

/// What tells two formats apart.
std::string KeyOf(const AnswerFormat& format) {
  std::string key = static_cast<char>('0' + static_cast<int>(format.kind)) + format.text;
  if (format.calls == nullptr) return key;
  const ToolCallRules& calls = *format.calls;
  key += '\0';
  for (const bool flag : {calls.may_call, calls.must_call, calls.several}) key += flag ? '1' : '0';
  for (const bool strict : calls.strict) key += strict ? 's' : '-';
  for (const std::string& name : calls.names) key += ',' + name;
  key += static_cast<char>('0' + static_cast<int>(calls.syntax));
  return key + '\n' + calls.schema_param + '\n' + calls.tools;
}

Status WithParam(const Status& status, const std::string& param) {
  const std::string& reason = status.reason();
  return {status.code(), status.message(), status.param().empty() ? param : status.param(),
          reason.empty() ? "invalid_value" : reason};
}

}  // namespace

Result<GrammarSource> SourceOf(const AnswerFormat& format) {
  const size_t tools = format.calls == nullptr ? 0 : format.calls->tools.size();
  if (tools > static_cast<size_t>(limits::kMaxGrammarTextBytes)) {
    return InvalidArgument(
        "All tools together have at most " + std::to_string(limits::kMaxGrammarTextBytes) + " bytes.", "tools",
        "string_above_max_length");
  }
  if (format.text.size() > static_cast<size_t>(limits::kMaxGrammarTextBytes)) {
    return InvalidArgument("A format has at most " + std::to_string(limits::kMaxGrammarTextBytes) + " bytes.",
                           format.param, "string_above_max_length");
  }
  if (ToValidUtf8(format.text) != format.text) {
    return InvalidArgument("The format is not UTF-8.", format.param, "invalid_value");
  }
  Result<GrammarSource> source = InvalidArgument("There is no grammar of free text.");
  switch (format.kind) {
    case AnswerFormat::Kind::kText:
      break;
    case AnswerFormat::Kind::kJsonObject:
      source = AnyJsonObject();
      break;
    case AnswerFormat::Kind::kJsonSchema:
      source = ReadJsonSchema(format.text, format.param);
      break;
    case AnswerFormat::Kind::kRegex:
      source = WholeRegex(format.text);
      break;
    case AnswerFormat::Kind::kGbnf:
      source = ReadGbnf(format.text);
      break;
  }
  if (format.calls != nullptr) source = WithCalls(std::move(source), format);
  if (!source.ok()) return WithParam(source.status(), format.param);
  return source;
}

std::shared_ptr<const GrammarVocabulary> GrammarCache::Vocabulary() {
  std::call_once(once_, [this] { vocabulary_ = std::make_shared<const GrammarVocabulary>(tokenizer_); });
  return vocabulary_;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::Get(const AnswerFormat& format) {
  if (format.free()) return std::shared_ptr<const Grammar>();
  const std::string key = KeyOf(format);
  {
    std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
  }
  // Two that ask for the same at once both compile it: rare, and no one waits for a stranger's grammar.
  ASSIGN_OR_RETURN(GrammarSource source, SourceOf(format));
  Result<std::shared_ptr<const Grammar>> made = Grammar::Make(source, Vocabulary());
  if (!made.ok() && format.calls != nullptr && !format.calls->any_arguments) {
    // Schemas that are too large together; what must not be left out of them is still there.
    AnswerFormat lighter = format;
    auto rules = std::make_shared<ToolCallRules>(*format.calls);
    rules->any_arguments = true;
    lighter.calls = std::move(rules);
    ASSIGN_OR_RETURN(source, SourceOf(lighter));
    made = Grammar::Make(source, Vocabulary());
  }
  const bool of_calls = format.calls != nullptr && format.kind == AnswerFormat::Kind::kText;
  if (!made.ok()) return WithParam(made.status(), of_calls ? "tools" : format.param);
  std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->second;
  entries_.emplace_front(key, *made);
  by_key_.emplace(key, entries_.begin());
  // What is in use lives on until its answers have ended.
  size_t bytes = 0;
  auto kept = entries_.begin();
  for (size_t count = 0; kept != entries_.end() && count < kMostGrammars; ++kept, ++count) {
    bytes += kept->first.size() + kept->second->bytes();
    if (count > 0 && bytes > static_cast<size_t>(limits::kMaxGrammarCacheBytes)) break;
  }
  for (auto at = kept; at != entries_.end(); ++at) by_key_.erase(at->first);
  entries_.erase(kept, entries_.end());
  return *made;
}

size_t GrammarCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace ringside
