// Methods of texts, dicts and lists that change nothing; the others are in mutators.cpp.
#include <algorithm>
#include <array>

#include "session/chat/jinja/builtins.h"
#include "session/chat/jinja/evaluator.h"
#include "session/chat/jinja/text.h"

namespace ringside::jinja {
namespace {

/// Common start of text methods: charges the text and rejects arguments of the wrong type.
Status AcceptsRawText(Evaluator& evaluator, const Value& self, const BoundArguments& arguments, size_t count) {
  RETURN_IF_ERROR(evaluator.Spend(2 * self.weight()));
  for (size_t i = 0; i < count; ++i) {
    if (arguments.Has(i) && !arguments.Get(i).IsText())
      return InvalidArgument("a string method requires string arguments");
  }
  return Status::Ok();
}

template <std::string (*kOf)(std::string_view)>
Result<Value> Mapped(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  RETURN_IF_ERROR(evaluator.Spend(2 * self.weight()));
  return Value(kOf(self.Text()));
}

std::string SwappedCase(std::string_view text) {
  std::string out;
  for (const std::string_view c : CharactersOf(text)) out += IsAll(c, "isupper") ? LowerOf(c) : UpperOf(c);
  return out;
}

template <bool kLeft, bool kRight>
Result<Value> StripMethod(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const bool given = arguments.Has(0) && !arguments.Get(0).IsNone();
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, given ? 1 : 0));
  std::string_view text = self.Text();
  const Value characters = arguments.Get(0);
  if (kLeft) text = given ? StripLeft(text, characters.Text()) : StripLeft(text);
  if (kRight) text = given ? StripRight(text, characters.Text()) : StripRight(text);
  return Value(text);
}

Result<Value> ListOfTexts(Evaluator& evaluator, const std::vector<std::string_view>& texts) {
  RETURN_IF_ERROR(evaluator.Spend(4 * static_cast<int64_t>(texts.size())));
  std::vector<Value> values(texts.begin(), texts.end());
  return MakeList(std::move(values));
}

template <bool kRight>
Result<Value> Split(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const bool given = arguments.Has(0) && !arguments.Get(0).IsNone();
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, given ? 1 : 0));
  const Value most = arguments.Get(1, int64_t{-1});
  if (!most.IsInteger()) return InvalidArgument("'split' requires an integer as its maximum");
  const int64_t count = most.Integer() < 0 ? kNoLimit : most.Integer();
  if (!given)
    return ListOfTexts(evaluator, kRight ? SplitWordsFromRight(self.Text(), count) : SplitWords(self.Text(), count));
  const Value separator = arguments.Get(0);
  if (separator.Text().empty()) return InvalidArgument("split() does not accept an empty separator");
  return ListOfTexts(evaluator, kRight ? SplitAtFromRight(self.Text(), separator.Text(), count)
                                       : SplitAt(self.Text(), separator.Text(), count));
}

Result<Value> SplitLines(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(evaluator.Spend(2 * self.weight()));
  return ListOfTexts(evaluator, LinesOf(self.Text(), arguments.Get(0, false).Truth()));
}

template <bool kRight>
Result<Value> Partition(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, 1));
  const std::string_view text = self.Text();
  const Value separator = arguments.Get(0);
  if (separator.Text().empty()) return InvalidArgument("split() does not accept an empty separator");
  const size_t at = kRight ? text.rfind(separator.Text()) : text.find(separator.Text());
  std::vector<Value> parts;
  if (at == text.npos) {
    parts = kRight ? std::vector<Value>{"", "", self} : std::vector<Value>{self, "", ""};
  } else {
    parts = {Value(text.substr(0, at)), separator, Value(text.substr(at + separator.Text().size()))};
  }
  return MakeSequence(SequenceValue::Kind::kTuple, std::move(parts));
}

template <bool kAtEnd>
Result<Value> BeginsOrEnds(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  const Value what = arguments.Get(0);
  const bool tuple = what.AsSequence() != nullptr && what.AsSequence()->kind == SequenceValue::Kind::kTuple;
  RETURN_IF_ERROR(evaluator.Spend(what.weight()));
  const std::vector<Value> choices = tuple ? what.AsSequence()->items : std::vector<Value>{what};
  bool holds = false;
  for (const Value& choice : choices) {
    if (!choice.IsText()) return InvalidArgument("'startswith' and 'endswith' require a string or a tuple of strings");
    holds = holds || (kAtEnd ? self.Text().ends_with(choice.Text()) : self.Text().starts_with(choice.Text()));
  }
  return Value(holds);
}

template <bool kAtEnd>
Result<Value> Remove(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, 1));
  const std::string_view text = self.Text();
  const Value what = arguments.Get(0);
  const size_t size = what.Text().size();
  if (kAtEnd) return text.ends_with(what.Text()) ? Value(text.substr(0, text.size() - size)) : self;
  return text.starts_with(what.Text()) ? Value(text.substr(size)) : self;
}

/// find(), rfind(), index() and rindex().
template <bool kRight, bool kMust>
Result<Value> FindText(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, 1));
  const std::string_view text = self.Text();
  const Value part = arguments.Get(0);
  const size_t at = kRight ? text.rfind(part.Text()) : text.find(part.Text());
  if (at == text.npos && kMust) return InvalidArgument("substring not found");
  return Value(at == text.npos ? int64_t{-1} : LengthOf(text.substr(0, at)));
}

Result<Value> Count(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, 1));
  return Value(CountOf(self.Text(), arguments.Get(0).Text()));
}

Result<Value> ReplaceMethod(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(AcceptsRawText(evaluator, self, arguments, 2));
  return evaluator.CallBuiltin(*FindFilter("replace"), self,
                               {{arguments.Get(0), arguments.Get(1), arguments.Get(2, int64_t{-1})}, {}});
}

Result<Value> JoinMethod(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  ASSIGN_OR_RETURN(const Value list, evaluator.Iterate(arguments.Get(0)));
  for (const Value& item : list.AsSequence()->items) {
    if (!item.IsText()) return InvalidArgument(std::string("only texts are joined, and there is a ") + item.TypeName());
  }
  return evaluator.CallBuiltin(*FindFilter("join"), list, {{self}, {}});
}

constexpr std::string_view kIsAll[] = {"isalpha", "isdigit", "isalnum", "isspace", "isupper", "islower"};
template <size_t kIndex>
Result<Value> AllCharacters(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  RETURN_IF_ERROR(evaluator.Spend(2 * self.weight()));
  return Value(IsAll(self.Text(), kIsAll[kIndex]));
}

template <bool kLeft>
Result<Value> Justify(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(evaluator.Spend(self.weight()));
  const Value width = arguments.Get(0), fill = arguments.Get(1, " ");
  if (!width.IsInteger() || !fill.IsText() || LengthOf(fill.Text()) != 1)
    return InvalidArgument("'ljust' and 'rjust' require a width and a fill character");
  const int64_t missing = width.Integer() - LengthOf(self.Text());
  if (missing <= 0) return self;
  RETURN_IF_ERROR(
      evaluator.SpendBytes(self.Text().size() + 4 * static_cast<size_t>(std::min(missing, int64_t{1} << 40))));
  std::string blanks;
  for (int64_t i = 0; i < missing; ++i) blanks += fill.Text();
  return Value(kLeft ? self.Text() + blanks : blanks + self.Text());
}

/// "{} {0} {name}"; without conversions and format specifications.
Result<Value> FormatMethod(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(evaluator.Spend(self.weight()));
  const std::string_view format = self.Text();
  const Arguments& given = arguments.given();
  std::string out;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
      out += c;
      ++i;
      continue;
    }
    if (c == '}') return InvalidArgument("unmatched '}' in a format string");
    if (c != '{') {
      out += c;
      continue;
    }
    const size_t end = format.find('}', i);
    if (end == format.npos) return InvalidArgument("unmatched '{' in a format string");
    const std::string_view name = format.substr(i + 1, end - i - 1);
    i = end;
    const bool number = std::ranges::all_of(name, [](char d) { return d >= '0' && d <= '9'; });
    const size_t index = name.empty()                ? next++
                         : number && name.size() < 4 ? static_cast<size_t>(std::stoi(std::string(name)))
                                                     : given.positional.size();
    const auto keyword = std::ranges::find(given.keywords, name, &std::pair<std::string, Value>::first);
    const Value* value = number && index < given.positional.size()    ? &given.positional[index]
                         : !number && keyword != given.keywords.end() ? &keyword->second
                                                                      : nullptr;
    if (value == nullptr) return InvalidArgument("no value for '{" + std::string(name) + "}'");
    RETURN_IF_ERROR(evaluator.Spend(value->weight()));
    ASSIGN_OR_RETURN(const std::string text, ToText(*value));
    RETURN_IF_ERROR(evaluator.SpendBytes(text.size()));
    out += text;
  }
  RETURN_IF_ERROR(evaluator.SpendBytes(out.size()));
  return Value(std::move(out));
}

Result<Value> GetMethod(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(self.AsMapping()->entries.size()) / 8));
  const Value* found = self.AsMapping()->Find(arguments.Get(0));
  return found == nullptr ? arguments.Get(1, Value::None{}) : *found;
}

/// keys(), values() and items().
template <bool kKeys, bool kValues>
Result<Value> View(Evaluator& evaluator, const Value& self, const BoundArguments&) {
  RETURN_IF_ERROR(evaluator.Spend(static_cast<int64_t>(self.AsMapping()->entries.size())));
  std::vector<Value> items;
  for (const auto& [key, value] : self.AsMapping()->entries) {
    if (kKeys && kValues) {
      ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceValue::Kind::kTuple, {key, value}));
      items.push_back(std::move(pair));
    } else {
      items.push_back(kKeys ? key : value);
    }
  }
  return MakeSequence(SequenceValue::Kind::kView, std::move(items));
}

Result<Value> Copy(Evaluator&, const Value& self, const BoundArguments&) { return self; }

template <bool kCount>
Result<Value> FindInList(Evaluator& evaluator, const Value& self, const BoundArguments& arguments) {
  RETURN_IF_ERROR(evaluator.Spend(self.weight()));
  const std::vector<Value>& items = self.AsSequence()->items;
  const Value what = arguments.Get(0);
  const auto equal = [&](const Value& item) { return Equal(item, what); };
  if (kCount) return Value(static_cast<int64_t>(std::ranges::count_if(items, equal)));
  const auto found = std::ranges::find_if(items, equal);
  if (found == items.end()) return InvalidArgument("value not found in the list");
  return Value(static_cast<int64_t>(found - items.begin()));
}

constexpr std::array kTextMethods = {
    Builtin{"upper", {}, Mapped<UpperOf>},
    Builtin{"lower", {}, Mapped<LowerOf>},
    Builtin{"casefold", {}, Mapped<LowerOf>},
    Builtin{"title", {}, Mapped<TitleOf>},
    Builtin{"capitalize", {}, Mapped<CapitalisedOf>},
    Builtin{"swapcase", {}, Mapped<SwappedCase>},
    Builtin{"strip", {"chars"}, StripMethod<true, true>},
    Builtin{"lstrip", {"chars"}, StripMethod<true, false>},
    Builtin{"rstrip", {"chars"}, StripMethod<false, true>},
    Builtin{"split", {"sep", "maxsplit"}, Split<false>},
    Builtin{"rsplit", {"sep", "maxsplit"}, Split<true>},
    Builtin{"splitlines", {"keepends"}, SplitLines},
    Builtin{"partition", {"!sep"}, Partition<false>},
    Builtin{"rpartition", {"!sep"}, Partition<true>},
    Builtin{"startswith", {"!prefix"}, BeginsOrEnds<false>},
    Builtin{"endswith", {"!suffix"}, BeginsOrEnds<true>},
    Builtin{"removeprefix", {"!prefix"}, Remove<false>},
    Builtin{"removesuffix", {"!suffix"}, Remove<true>},
    Builtin{"find", {"!sub"}, FindText<false, false>},
    Builtin{"rfind", {"!sub"}, FindText<true, false>},
    Builtin{"index", {"!sub"}, FindText<false, true>},
    Builtin{"rindex", {"!sub"}, FindText<true, true>},
    Builtin{"count", {"!sub"}, Count},
    Builtin{"replace", {"!old", "!new", "count"}, ReplaceMethod},
    Builtin{"join", {"!iterable"}, JoinMethod},
    Builtin{"format", {"*"}, FormatMethod},
    Builtin{"ljust", {"!width", "fillchar"}, Justify<true>},
    Builtin{"rjust", {"!width", "fillchar"}, Justify<false>},
    Builtin{"isalpha", {}, AllCharacters<0>},
    Builtin{"isdigit", {}, AllCharacters<1>},
    Builtin{"isalnum", {}, AllCharacters<2>},
    Builtin{"isspace", {}, AllCharacters<3>},
    Builtin{"isupper", {}, AllCharacters<4>},
    Builtin{"islower", {}, AllCharacters<5>},
};

constexpr std::array kDictMethods = {
    Builtin{"get", {"!key", "default"}, GetMethod},
    Builtin{"keys", {}, View<true, false>},
    Builtin{"values", {}, View<false, true>},
    Builtin{"items", {}, View<true, true>},
    Builtin{"copy", {}, Copy},
};

constexpr std::array kListMethods = {
    Builtin{"index", {"!value"}, FindInList<false>},
    Builtin{"count", {"!value"}, FindInList<true>},
    Builtin{"copy", {}, Copy},
};

}  // namespace

std::span<const Builtin> TextMethods() { return kTextMethods; }
std::span<const Builtin> DictMethods() { return kDictMethods; }
std::span<const Builtin> ListMethods() { return kListMethods; }

}  // namespace ringside::jinja
