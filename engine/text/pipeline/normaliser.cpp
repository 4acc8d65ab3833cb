#include "engine/text/pipeline/normaliser.h"

#include <utility>

#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"

namespace ringside {
namespace {

std::string WithoutMarks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    if (!IsMark(c.value)) out += text.substr(0, c.length);
    text.remove_prefix(c.length);
  }
  return out;
}

std::string Replaced(std::string_view text, const TextMatcher& matcher, const std::string& by,
                     TextMatcher::Scratch& scratch) {
  std::string out;
  size_t copied = 0;
  matcher.ForEach(text, scratch, [&](size_t begin, size_t end) {
    out += text.substr(copied, begin - copied);
    out += by;
    copied = end;
    return true;
  });
  return out += text.substr(copied);
}

}  // namespace

Result<Normaliser> Normaliser::Make(std::span<const NormaliserStep> steps) {
  Normaliser made;
  for (const NormaliserStep& step : steps) {
    Step& added = made.steps_.emplace_back();
    added.step = step;
    if (step.kind == NormaliserStep::Kind::kReplace) {
      ASSIGN_OR_RETURN(TextMatcher matcher, TextMatcher::Make(step.pattern));
      added.matcher.push_back(std::move(matcher));
    }
    if (step.kind == NormaliserStep::Kind::kPrecompiled) {
      ASSIGN_OR_RETURN(added.charsmap, Charsmap::Make(step.text));
      added.step.text.clear();
    }
  }
  return made;
}

std::string Normaliser::Apply(const Step& made, std::string text, TextMatcher::Scratch& scratch) {
  using Kind = NormaliserStep::Kind;
  const NormaliserStep& step = made.step;
  switch (step.kind) {
    case Kind::kNfc:
      return Normalise(text, NormalForm::kC);
    case Kind::kNfd:
      return Normalise(text, NormalForm::kD);
    case Kind::kNfkc:
      return Normalise(text, NormalForm::kKC);
    case Kind::kNfkd:
      return Normalise(text, NormalForm::kKD);
    case Kind::kLowercase:
      return ToLower(text);
    case Kind::kStripAccents:
      return WithoutMarks(text);
    case Kind::kStrip:
      if (step.left) TrimLeft(&text);
      if (step.right) TrimRight(&text);
      return text;
    case Kind::kReplace:
      return Replaced(text, made.matcher.front(), step.text, scratch);
    case Kind::kPrepend:
      return text.empty() ? text : step.text + text;
    case Kind::kPrecompiled:
      return made.charsmap.ApplyToGraphemes(text);
    case Kind::kByteLevel:
      return ToByteLevel(text);
  }
  return text;
}

std::string Normaliser::Apply(std::string text, TextMatcher::Scratch& scratch) const {
  for (const Step& step : steps_) text = Apply(step, std::move(text), scratch);
  return text;
}

}  // namespace ringside
