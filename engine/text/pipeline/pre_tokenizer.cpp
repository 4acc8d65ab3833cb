#include "engine/text/pipeline/pre_tokenizer.h"

#include <optional>
#include <string>

#include "engine/text/pipeline/script_classes.h"
#include "engine/text/pipeline/split_parts.h"
#include "engine/text/unicode.h"

namespace ringside {
namespace {

using Kind = PreTokenizerStep::Kind;
using Behaviour = PreTokenizerStep::Behaviour;
using Prefix = PreTokenizerStep::Prefix;

}  // namespace

Result<PreTokenizer> PreTokenizer::Make(std::span<const PreTokenizerStep> steps, bool to_bytes, bool spelled) {
  PreTokenizer made;
  made.spelled_ = spelled && to_bytes;
  if (to_bytes && !steps.empty() && steps.back().kind == Kind::kByteLevel) steps = steps.first(steps.size() - 1);
  for (const PreTokenizerStep& step : steps) {
    Step& added = made.steps_.emplace_back();
    added.step = step;
    made.spelled_ = made.spelled_ || (to_bytes && step.kind == Kind::kByteLevel);
    const bool removes =
        step.kind == Kind::kScripts || (step.kind == Kind::kSplit && step.behaviour == Behaviour::kRemoved);
    made.keeps_all_ = made.keeps_all_ && !removes;
    if (step.kind != Kind::kSplit && step.kind != Kind::kMetaspace) continue;
    if (step.kind == Kind::kMetaspace) added.step.pattern = {.text = step.replacement, .literal = true};
    ASSIGN_OR_RETURN(TextMatcher matcher, TextMatcher::Make(added.step.pattern));
    added.matcher.push_back(std::move(matcher));
  }
  return made;
}

bool PreTokenizer::SplitAt(size_t step, const TextMatcher& matcher, Behaviour behaviour, bool invert, Word word,
                           const Run& run) const {
  const auto go_on = [&](size_t begin, size_t end) {
    return From(step + 1, {word.text.substr(begin, end - begin), word.first && begin == 0}, run);
  };
  SplitParts parts(behaviour, go_on);
  size_t previous = 0;
  const bool whole = matcher.ForEach(word.text, run.scratch, [&](size_t begin, size_t end) {
    if (previous < begin && !parts.Add(previous, begin, invert)) return false;
    previous = end;
    return parts.Add(begin, end, !invert);
  });
  if (!whole) return false;
  if (previous < word.text.size() && !parts.Add(previous, word.text.size(), invert)) return false;
  return parts.Finish();
}

bool PreTokenizer::Metaspace(size_t index, Word word, const Run& run) const {
  const Step& step = steps_[index];
  std::string text = ReplaceAll(word.text, " ", step.step.replacement);
  const bool wanted = step.step.prefix == Prefix::kAlways || (step.step.prefix == Prefix::kFirst && word.first);
  if (wanted && !text.starts_with(step.step.replacement)) text.insert(0, step.step.replacement);
  if (!step.step.split) return From(index + 1, {text, word.first}, run);
  return SplitAt(index, step.matcher.front(), Behaviour::kMergedWithNext, false, {text, word.first}, run);
}

bool PreTokenizer::SplitAtScripts(size_t index, Word word, const Run& run) const {
  std::optional<int> script;
  size_t begin = 0;
  const auto take = [&](size_t end) {
    return !script || From(index + 1, {word.text.substr(begin, end - begin), word.first && begin == 0}, run);
  };
  for (size_t at = 0; at < word.text.size();) {
    const CodePoint c = FirstCodePoint(word.text.substr(at));
    if (const std::optional<int> own = ScriptClass(c.value); own && own != script) {
      if (!take(at)) return false;
      script = own;
      begin = at;
    }
    at += c.length;
  }
  return take(word.text.size());
}

bool PreTokenizer::From(size_t index, Word word, const Run& run) const {
  if (word.text.empty()) return true;
  if (index == steps_.size()) {
    if (!spelled_) return run.take(word.text);
    std::string bytes;
    return run.take(ByteLevelToBytes(word.text, &bytes) ? bytes : word.text);
  }
  const Step& step = steps_[index];
  switch (step.step.kind) {
    case Kind::kSplit:
      return SplitAt(index, step.matcher.front(), step.step.behaviour, step.step.invert, word, run);
    case Kind::kPrefixSpace:
      return word.text.starts_with(' ') ? From(index + 1, word, run)
                                        : From(index + 1, {" " + std::string(word.text), word.first}, run);
    case Kind::kByteLevel:
      return From(index + 1, {ToByteLevel(word.text), word.first}, run);
    case Kind::kMetaspace:
      return Metaspace(index, word, run);
    case Kind::kScripts:
      return SplitAtScripts(index, word, run);
  }
  return true;
}

bool PreTokenizer::Split(std::string_view text, bool first, TextMatcher::Scratch& scratch, OnWord take) const {
  return From(0, {text, first}, {scratch, take});
}

}  // namespace ringside
