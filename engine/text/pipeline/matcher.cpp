#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pipeline/matcher.h"

#include <pcre2.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/text/pipeline/oniguruma.h"
#include "engine/text/pipeline/patterns.h"
#include "engine/text/unicode.h"
#include "engine/text/unicode_case.h"

namespace ringside {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeCompileContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

size_t AfterCharacter(std::string_view text, size_t at) {
  ++at;
  while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

using OnMatch = TextMatcher::OnMatch;

// Matches in one run of digits. `places`: offset of each digit.
bool OnTriples(const std::vector<size_t>& places, size_t end, bool cuts, OnMatch on_match) {
  const size_t digits = places.size();
  for (size_t i = 0; i < digits;) {
    const size_t next = i + ((digits - i) % 3 == 0 ? 3 : (digits - i) % 3);
    const size_t begin = places[i], stop = next < digits ? places[next] : end;
    if (cuts) {
      if ((digits - i) % 3 == 0 && !on_match(begin, begin)) return false;
    } else if (!on_match(begin, stop)) {
      return false;
    }
    i = next;
  }
  return true;
}

struct TriplesPattern {
  const char* pattern;
  bool (*is_digit)(uint32_t);
  bool to_word_end, cuts;
};
constexpr TriplesPattern kTriplesPatterns[] = {{patterns::kTriplesToWordEnd, IsDecimalDigit, true, false},
                                               {patterns::kTriples, IsNumber, false, false},
                                               {patterns::kTripleCuts, IsDecimalDigit, false, true}};

// Oniguruma's \w includes Latin-1's superscripts and fractions.
bool IsOnigurumaWord(uint32_t c) {
  return IsWordCharacter(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE);
}

bool ForEachTriple(const TriplesPattern& kind, std::string_view text, OnMatch on_match) {
  std::vector<size_t> places;
  for (size_t at = 0; at < text.size();) {
    places.clear();
    uint32_t next = 0;
    size_t end = at;
    while (end < text.size()) {
      const CodePoint c = FirstCodePoint(text.substr(end));
      next = c.value;
      if (!kind.is_digit(c.value)) break;
      places.push_back(end);
      end += c.length;
    }
    const bool wanted = !kind.to_word_end || end == text.size() || !IsOnigurumaWord(next);
    if (wanted && !OnTriples(places, end, kind.cuts, on_match)) return false;
    at = end < text.size() ? AfterCharacter(text, end) : end;
  }
  return true;
}

}  // namespace

struct TextMatcher::Scratch::Parts {
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_match_data, FreeMatchData> match{pcre2_match_data_create(1, nullptr)};

  Parts() {
    CHECK(context != nullptr);
    CHECK(match != nullptr);
    // Backtracking over a long run of spaces is linear, but each step counts; the default limit is 10 million.
    pcre2_set_match_limit(context.get(), 200'000'000);
    pcre2_set_heap_limit(context.get(), 256 << 10);  // KiB
  }
};

TextMatcher::Scratch::Scratch() : parts_(std::make_unique<Parts>()) {}
TextMatcher::Scratch::~Scratch() = default;

struct TextMatcher::Code {
  std::unique_ptr<pcre2_code, FreeCode> regex;
  const TriplesPattern* triples = nullptr;
};

TextMatcher::TextMatcher(std::string literal, std::unique_ptr<Code> code)
    : literal_(std::move(literal)), code_(std::move(code)) {}
TextMatcher::TextMatcher(TextMatcher&&) noexcept = default;
TextMatcher& TextMatcher::operator=(TextMatcher&&) noexcept = default;
TextMatcher::~TextMatcher() = default;

Result<TextMatcher> TextMatcher::Make(const TextPattern& pattern) {
  if (pattern.text.empty()) return InvalidArgument("tokenizer: a step searches for an empty pattern");
  if (pattern.literal) return TextMatcher(pattern.text, nullptr);
  auto code = std::make_unique<Code>();
  const auto* triples =
      std::ranges::find_if(kTriplesPatterns, [&](const TriplesPattern& row) { return pattern.text == row.pattern; });
  if (triples != std::end(kTriplesPatterns)) {
    code->triples = triples;
    return TextMatcher("", std::move(code));
  }
  const Result<std::string> source = PcreFromOniguruma(pattern.text);
  if (!source.ok()) {
    return InvalidArgument("tokenizer: the pattern '" + pattern.text + "': " + source.status().message());
  }
  std::unique_ptr<pcre2_compile_context, FreeCompileContext> context(pcre2_compile_context_create(nullptr));
  CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE place = 0;
  code->regex.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source->data()), source->size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &place,
                                  context.get()));
  if (code->regex == nullptr) {
    return InvalidArgument("tokenizer: the pattern '" + pattern.text + "', for PCRE2 '" + *source +
                           "', is invalid at " + std::to_string(place) + ": " + ErrorText(error));
  }
  (void)pcre2_jit_compile(code->regex.get(), PCRE2_JIT_COMPLETE);  // failure costs only speed
  return TextMatcher("", std::move(code));
}

bool TextMatcher::ForEachRegex(std::string_view text, Scratch& scratch, OnMatch on_match) const {
  const auto search = [&](size_t from, uint32_t options) {
    return pcre2_match(code_->regex.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, scratch.parts_->match.get(), scratch.parts_->context.get());
  };
  std::optional<size_t> last_end;
  for (size_t from = 0; from <= text.size();) {
    int found = search(from, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(from, PCRE2_NO_JIT);
    if (found < 0) return true;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.parts_->match.get());
    const size_t begin = ends[0], end = std::max(ends[0], ends[1]);  // \K may put the start after the end
    if (begin == end && last_end == end) {
      from = AfterCharacter(text, from);
      continue;
    }
    if (!on_match(begin, end)) return false;
    from = end;
    last_end = end;
  }
  return true;
}

bool TextMatcher::ForEach(std::string_view text, Scratch& scratch, OnMatch on_match) const {
  if (text.empty()) return true;
  if (literal_.empty()) {
    return code_->triples != nullptr ? ForEachTriple(*code_->triples, text, on_match)
                                     : ForEachRegex(text, scratch, on_match);
  }
  for (size_t at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, at + literal_.size())) {
    if (!on_match(at, at + literal_.size())) return false;
  }
  return true;
}

}  // namespace ringside
