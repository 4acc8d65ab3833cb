#include "engine/grammar/grammar_cache.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/limits.h"
#include "base/worker_pool.h"
#include "engine/grammar/gbnf.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema/json_schema.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

constexpr size_t kMaxGrammars = 1024;
constexpr int64_t kEntryBytes = 256;  // plus its key, twice
constexpr int64_t kLighterShare = 4;  // fraction of a budget for the retry without optional schemas

Result<GrammarSource> WholeRegex(const std::string& pattern, GrammarBudget& budget) {
  GrammarSource source(budget);
  const RuleId start = source.AddRule("");
  ASSIGN_OR_RETURN(const ExpressionId body, ReadRegex(pattern, &source, {}));
  source.Define(start, body);
  source.SetStart(start);
  return source;
}

/// The grammar of an answer that may also call tools.
Result<GrammarSource> WithCalls(Result<GrammarSource> answer, const AnswerFormat& format, GrammarBudget& budget) {
  GrammarSource source(budget);
  std::optional<ExpressionId> text;
  if (format.kind != AnswerFormat::Kind::kText) {
    if (!answer.ok()) return answer.status();
    source = std::move(*answer);
    text = source.Rule(source.start());
  }
  ASSIGN_OR_RETURN(const ExpressionId body, AddToolCalls(*format.calls, text ? &*text : nullptr, &source));
  const RuleId start = source.AddRule("");
  source.Define(start, body);
  source.SetStart(start);
  return source;
}

/// The cache key of a format.
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

/// True if some tools are not strict, so that their schemas may be dropped.
bool HasNonStrictTools(const ToolCallRules& calls) {
  const auto tools = static_cast<size_t>(std::ranges::count(calls.tools, '\n')) + 1;
  return !calls.any_arguments && static_cast<size_t>(std::ranges::count(calls.strict, true)) < tools;
}

Status WithParam(const Status& status, const std::string& param) {
  const std::string& reason = status.reason();
  return {status.code(), status.message(), status.param().empty() ? param : status.param(),
          reason.empty() ? "invalid_value" : reason};
}

}  // namespace

Result<GrammarSource> SourceOf(const AnswerFormat& format, GrammarBudget& budget) {
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
    return InvalidArgument("The format is not valid UTF-8.", format.param, "invalid_value");
  }
  Result<GrammarSource> source = InvalidArgument("There is no grammar of free text.");
  switch (format.kind) {
    case AnswerFormat::Kind::kText:
      break;
    case AnswerFormat::Kind::kJsonObject:
      source = AnyJsonObject(budget);
      break;
    case AnswerFormat::Kind::kJsonSchema:
      source = ReadJsonSchema(format.text, format.param, budget);
      break;
    case AnswerFormat::Kind::kRegex:
      source = WholeRegex(format.text, budget);
      break;
    case AnswerFormat::Kind::kGbnf:
      source = ReadGbnf(format.text, budget);
      break;
  }
  if (format.calls != nullptr) source = WithCalls(std::move(source), format, budget);
  if (source.ok() && !budget.ok()) source = budget.status();
  if (!source.ok()) return WithParam(source.status(), format.param);
  return source;
}

std::shared_ptr<const GrammarVocabulary> GrammarCache::Vocabulary() {
  std::call_once(once_, [this] { vocabulary_ = std::make_shared<const GrammarVocabulary>(tokenizer_); });
  return vocabulary_;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::Compile(const AnswerFormat& format,
                                                             const std::function<bool()>& abandoned) {
  const bool lenient = format.calls != nullptr && HasNonStrictTools(*format.calls);
  GrammarBudget::Limits most;
  if (lenient) most.steps -= most.steps / kLighterShare;
  GrammarBudget budget(most, abandoned);
  const Result<GrammarSource> source = SourceOf(format, budget);
  Result<std::shared_ptr<const Grammar>> made =
      source.ok() ? Grammar::Make(*source, Vocabulary(), memory_) : source.status();
  const bool too_large = source.ok() || !budget.ok();
  if (!made.ok() && made.status().code() == StatusCode::kInvalidArgument && lenient && too_large) {
    // The schemas are too large together: retry without those of tools that are not strict.
    AnswerFormat lighter = format;
    auto rules = std::make_shared<ToolCallRules>(*format.calls);
    rules->any_arguments = true;
    lighter.calls = std::move(rules);
    GrammarBudget rest({.steps = GrammarBudget::Limits().steps / kLighterShare}, abandoned);
    ASSIGN_OR_RETURN(const GrammarSource lighter_source, SourceOf(lighter, rest));
    made = Grammar::Make(lighter_source, Vocabulary(), memory_);
  }
  const bool of_calls = format.calls != nullptr && format.kind == AnswerFormat::Kind::kText;
  if (!made.ok()) return WithParam(made.status(), of_calls ? "tools" : format.param);
  return made;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::Get(const AnswerFormat& format, const std::string& owner,
                                                         const std::function<bool()>& abandoned) {
  if (format.free()) return std::shared_ptr<const Grammar>();
  ASSIGN_OR_RETURN(std::shared_ptr<const Grammar> found, Find(format, abandoned));
  return pins_->Pin(std::move(found), owner);
}

std::shared_ptr<const Grammar> GrammarCache::FindCompiled(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::Find(const AnswerFormat& format,
                                                          const std::function<bool()>& abandoned) {
  const std::string key = KeyOf(format);
  if (auto found = FindCompiled(key)) return found;
  Result<std::shared_ptr<const Grammar>> made = std::shared_ptr<const Grammar>();
  RETURN_IF_ERROR(RunLongWork([&] {
    // Equal requests often arrive together: another one may have compiled it while this one was queued.
    made = FindCompiled(key);
    if (*made == nullptr) made = Compile(format, abandoned);
    if (made.ok()) made = Keep(key, *made);
  }));
  return made;
}

std::shared_ptr<const Grammar> GrammarCache::Keep(const std::string& key, std::shared_ptr<const Grammar> made) {
  std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) return found->second->second;
  const int64_t bytes = 2 * std::ssize(key) + kEntryBytes;
  MakeRoom(bytes);
  if (entries_.size() == kMaxGrammars) Drop(std::prev(entries_.end()));
  key_bytes_ += bytes;
  entries_.emplace_front(key, made);
  by_key_.emplace(key, entries_.begin());
  return made;
}

void GrammarCache::MakeRoom(int64_t bytes) {
  for (auto at = entries_.end(); at != entries_.begin();) {
    if (memory_->bytes() + key_bytes_ + bytes <= limits::kMaxGrammarCacheBytes) return;
    const auto entry = std::prev(at);
    entry->second.use_count() == 1 ? Drop(entry) : void(at = entry);
  }
}

void GrammarCache::Drop(std::list<Entry>::iterator entry) {
  key_bytes_ -= 2 * std::ssize(entry->first) + kEntryBytes;
  by_key_.erase(entry->first);
  entries_.erase(entry);
}

size_t GrammarCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

int64_t GrammarCache::bytes() const {
  std::lock_guard lock(mutex_);
  return memory_->bytes() + key_bytes_;
}

}  // namespace ringside
