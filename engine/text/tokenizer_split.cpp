#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/tokenizer_split.h"

#include <pcre2.h>

#include <optional>
#include <utility>

#include "base/check.h"

namespace ringside {

namespace split_patterns {
const char kGpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kO200k[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char kSingleDigit[] = R"(\p{N})";
const char kDigits[] = R"(\p{N}+)";
}  // namespace split_patterns

namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// PCRE2's own \s has U+180E, which is no white space since Unicode 6.3, so it is spelled out.
constexpr std::string_view kSpaceClass =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::string SpellOutSpace(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' || (escaped == 'S' && !in_class)) {
        if (!in_class) out += escaped == 's' ? "[" : "[^";
        out += kSpaceClass;
        if (!in_class) out += ']';
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return "error " + std::to_string(code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

// What one call of Split needs for its matches.
struct TextSplitter::Scratch {
  std::unique_ptr<pcre2_match_context, FreeMatchContext> context{pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_match_data, FreeMatchData> match{pcre2_match_data_create(1, nullptr)};

  Scratch() {
    CHECK(context != nullptr);
    CHECK(match != nullptr);
    // Backtracking over one long run of spaces is linear but counts every step; the default limit is 10 million.
    pcre2_set_match_limit(context.get(), 200'000'000);
    pcre2_set_heap_limit(context.get(), 256 << 10);  // KiB
  }
};

struct TextSplitter::Pattern {
  std::unique_ptr<pcre2_code, FreeCode> code;

  struct Range {
    size_t begin, end;
  };
  // The first match at or behind `from`, if there is one and it stays within the limits.
  std::optional<Range> Match(std::string_view text, size_t from, Scratch& scratch) const {
    const auto match = [&](uint32_t options) {
      return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, scratch.match.get(), scratch.context.get());
    };
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found < 0) return std::nullopt;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(scratch.match.get());
    return Range{ends[0], ends[1]};
  }

  bool Split(std::string_view text, Scratch& scratch, const TakeWord& take) const {
    size_t word_begin = 0, from = 0;  // [word_begin, from) is a gap still open, of characters where an empty match lay
    const auto close_word = [&](size_t end) {
      const std::string_view word = text.substr(word_begin, end - word_begin);
      word_begin = end;
      return word.empty() || take(word);
    };
    while (from < text.size()) {
      const std::optional<Range> match = Match(text, from, scratch);
      if (!match) break;
      if (match->end <= match->begin) {  // an empty match cuts nothing; go on behind the next character
        from = match->begin + 1;
        while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) ++from;
        continue;
      }
      if (!close_word(match->begin) || !close_word(match->end)) return false;
      from = match->end;
    }
    return close_word(text.size());
  }
};

TextSplitter::TextSplitter(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}
TextSplitter::TextSplitter(TextSplitter&&) noexcept = default;
TextSplitter& TextSplitter::operator=(TextSplitter&&) noexcept = default;
TextSplitter::~TextSplitter() = default;

Result<TextSplitter> TextSplitter::Make(const std::vector<std::string>& patterns) {
  std::vector<Pattern> compiled;
  for (const std::string& pattern : patterns) {
    const std::string source = SpellOutSpace(pattern);
    int error = 0;
    PCRE2_SIZE place = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
    if (code == nullptr) {
      return InvalidArgument("tokenizer: the split pattern '" + source + "' is wrong at " + std::to_string(place) +
                             ": " + ErrorText(error));
    }
    compiled.push_back({std::unique_ptr<pcre2_code, FreeCode>(code)});
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // only speed is lost if it fails
  }
  return TextSplitter(std::move(compiled));
}

bool TextSplitter::SplitFrom(size_t pattern, std::string_view text, Scratch& scratch, const TakeWord& take) const {
  if (pattern == patterns_.size()) return take(text);
  return patterns_[pattern].Split(text, scratch,
                                  [&](std::string_view word) { return SplitFrom(pattern + 1, word, scratch, take); });
}

bool TextSplitter::Split(std::string_view text, const TakeWord& take) const {
  if (text.empty()) return true;
  Scratch scratch;
  return SplitFrom(0, text, scratch, take);
}

}  // namespace ringside
