#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pipeline/oniguruma.h"

#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace ringside {
namespace {

constexpr int kMaxClassDepth = 64;  // nesting of classes

// Members of sets, as items of a PCRE2 class. PCRE2's own \s includes U+180E, which is not white space since Unicode
// 6.3, and its \w lacks marks.
constexpr std::string_view kSpaceItems =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWordItems = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kHexItems = "0-9A-Fa-f";

struct NamedSet {
  std::string_view name, items;
};
// Names that PCRE2 does not know, or defines differently.
constexpr NamedSet kNamedSets[] = {{"Letter", R"(\p{L})"},
                                   {"Uppercase_Letter", R"(\p{Lu})"},
                                   {"Lowercase_Letter", R"(\p{Ll})"},
                                   {"Titlecase_Letter", R"(\p{Lt})"},
                                   {"Modifier_Letter", R"(\p{Lm})"},
                                   {"Other_Letter", R"(\p{Lo})"},
                                   {"Mark", R"(\p{M})"},
                                   {"Nonspacing_Mark", R"(\p{Mn})"},
                                   {"Spacing_Mark", R"(\p{Mc})"},
                                   {"Enclosing_Mark", R"(\p{Me})"},
                                   {"Number", R"(\p{N})"},
                                   {"Decimal_Number", R"(\p{Nd})"},
                                   {"Letter_Number", R"(\p{Nl})"},
                                   {"Other_Number", R"(\p{No})"},
                                   {"Punctuation", R"(\p{P})"},
                                   {"Symbol", R"(\p{S})"},
                                   {"Separator", R"(\p{Z})"},
                                   {"Other", R"(\p{C})"},
                                   {"Control", R"(\p{Cc})"},
                                   {"Format", R"(\p{Cf})"},
                                   {"Punct", R"(\p{P})"},
                                   {"Alpha", R"(\p{Alphabetic})"},
                                   {"Alnum", R"(\p{Alphabetic}\p{Nd})"},
                                   {"Digit", R"(\p{Nd})"},
                                   {"Upper", R"(\p{Uppercase})"},
                                   {"Lower", R"(\p{Lowercase})"},
                                   {"Space", kSpaceItems},
                                   {"Word", kWordItems}};

bool Compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &place, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// A set of characters: items of a PCRE2 class, and expressions that match one character.
struct CharacterSet {
  std::string items;                // of a class
  std::vector<std::string> others;  // expressions of one character each

  void Add(CharacterSet set) {
    items += set.items;
    for (std::string& other : set.others) others.push_back(std::move(other));
  }
  std::string Expression() const {
    const bool one_property = items.starts_with("\\p{") && items.find('}') == items.size() - 1;
    if (others.empty() && one_property) return items;  // PCRE2 matches it faster outside a class
    if (others.empty()) return items.empty() ? "(?!)" : "[" + items + "]";
    std::string alternatives = items.empty() ? "" : "[" + items + "]";
    for (const std::string& other : others) alternatives += (alternatives.empty() ? "" : "|") + other;
    return "(?:" + alternatives + ")";
  }
  CharacterSet Negated() const {
    if (others.empty()) return {"", {items.empty() ? "(?s:.)" : "[^" + items + "]"}};
    return {"", {"(?:(?!" + Expression() + ")(?s:.))"}};
  }
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  Result<std::string> Translate() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '{' || c == '*' || c == '+' || c == '?') {
        Quantifier();
        continue;
      }
      if (c == ')') {
        if (groups_.empty()) return Unmatched(")");
        atom_ = groups_.back();
        groups_.pop_back();
        Copy(1);
        continue;
      }
      atom_ = out_.size();
      if (c == '(') {
        Group();
      } else if (c == '[') {
        ASSIGN_OR_RETURN(const CharacterSet set, Class(0));
        out_ += set.others.size() == 1 && set.items.empty() ? set.others.front() : set.Expression();
      } else if (c == '\\' && rest_.size() > 1) {
        bool known = false;
        const CharacterSet set = Escape(&known);
        if (known) {
          out_ += set.others.size() == 1 && set.items.empty() ? set.others.front() : set.Expression();
        } else if (!Boundary()) {
          CopyEscape(&out_);
        }
      } else {
        Copy(1);
        while (!rest_.empty() && (static_cast<uint8_t>(rest_.front()) & 0xC0) == 0x80) Copy(1);
      }
    }
    if (!groups_.empty()) return Unmatched("(");
    return std::move(out_);
  }

 private:
  static Status Unmatched(const char* bracket) {
    return InvalidArgument(std::string("the regular expression has an unmatched ") + bracket);
  }

  void Copy(size_t count) {
    out_ += rest_.substr(0, count);
    rest_.remove_prefix(std::min(count, rest_.size()));
  }

  // In Oniguruma, "+" after an interval repeats it; in PCRE2 it would make it possessive.
  void Quantifier() {
    const bool interval = rest_.front() == '{';
    size_t size = 1;
    if (interval) {
      while (size < rest_.size() && (std::isdigit(static_cast<uint8_t>(rest_[size])) != 0 || rest_[size] == ','))
        ++size;
      if (size == 1 || size == rest_.size() || rest_[size] != '}') {  // not a quantifier
        atom_ = out_.size();
        Copy(1);
        return;
      }
      if (rest_[1] == ',') {  // "{,m}" is "{0,m}"
        out_ += "{0";
        rest_.remove_prefix(1);
        --size;
      }
      ++size;
    }
    Copy(size);
    if (interval && rest_.starts_with('+')) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    if (rest_.starts_with('+') || rest_.starts_with('?')) Copy(1);
  }

  // The opening bracket with the group's kind and options.
  void Group() {
    groups_.push_back(out_.size());
    Copy(1);
    if (!rest_.starts_with('?')) return;
    Copy(1);
    if (rest_.starts_with("<=") || rest_.starts_with("<!")) {
      Copy(2);
    } else if (!rest_.empty() && std::string_view(":=!>").find(rest_.front()) != std::string_view::npos) {
      Copy(1);
    } else {
      while (!rest_.empty() && std::string_view("imx-").find(rest_.front()) != std::string_view::npos) {
        out_ += rest_.front() == 'm' ? 's' : rest_.front();
        rest_.remove_prefix(1);
      }
      if (rest_.starts_with(':')) Copy(1);
    }
  }

  // Consumes and translates a word boundary.
  bool Boundary() {
    const bool inside = rest_.starts_with("\\B");
    if (!inside && !rest_.starts_with("\\b")) return false;
    const std::string word = "[" + std::string(kWordItems) + "]";
    const std::string before = "(?<=" + word + ")", not_before = "(?<!" + word + ")";
    const std::string behind = "(?=" + word + ")", not_behind = "(?!" + word + ")";
    out_ += "(?:" + before + (inside ? behind : not_behind) + "|" + not_before + (inside ? not_behind : behind) + ")";
    rest_.remove_prefix(2);
    return true;
  }

  // Copies an escape that PCRE2 supports.
  void CopyEscape(std::string* out) {
    if (rest_.starts_with("\\u")) {
      *out += "\\x{" + std::string(rest_.substr(2, 4)) + "}";
      rest_.remove_prefix(std::min<size_t>(6, rest_.size()));
      return;
    }
    size_t size = std::min<size_t>(2, rest_.size());
    if (rest_.size() > 2 && rest_[2] == '{' && std::string_view("xpP").find(rest_[1]) != std::string_view::npos) {
      size = std::min(rest_.size(), rest_.find('}', 2) == std::string_view::npos ? 2 : rest_.find('}', 2) + 1);
    }
    *out += rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  // Consumes an escape that names a set. For other escapes `known` is false and nothing is consumed.
  CharacterSet Escape(bool* known) {
    *known = true;
    const char c = rest_[1];
    std::string_view items;
    if (c == 's' || c == 'S') items = kSpaceItems;
    if (c == 'w' || c == 'W') items = kWordItems;
    if (c == 'h' || c == 'H') items = kHexItems;
    if (!items.empty()) {
      rest_.remove_prefix(2);
      const CharacterSet set{std::string(items), {}};
      return std::isupper(static_cast<uint8_t>(c)) != 0 ? set.Negated() : set;
    }
    const size_t end = rest_.find('}');
    if ((c == 'p' || c == 'P') && rest_.size() > 2 && rest_[2] == '{' && end != std::string_view::npos) {
      std::string_view name = rest_.substr(3, end - 3);
      bool negated = c == 'P';
      if (name.starts_with('^')) {
        negated = !negated;
        name.remove_prefix(1);
      }
      rest_.remove_prefix(end + 1);
      CharacterSet set{Property(std::string(name)), {}};
      if (!negated) return set;
      if (set.items.rfind('\\') > 0) return set.Negated();  // several properties
      set.items[1] = 'P';
      return set;
    }
    *known = false;
    return {};
  }

  static std::string Property(const std::string& name) {
    for (const NamedSet& set : kNamedSets) {
      if (set.name == name) return std::string(set.items);
    }
    const std::string script = "\\p{sc:" + name + "}";  // PCRE2's bare names denote script extensions
    return name.size() > 2 && Compiles(script) ? script : "\\p{" + name + "}";
  }

  // "[...]", from its opening bracket on.
  Result<CharacterSet> Class(int depth) {
    if (depth > kMaxClassDepth) return InvalidArgument("the regular expression's classes are nested too deeply");
    rest_.remove_prefix(1);
    const bool negated = rest_.starts_with('^');
    if (negated) rest_.remove_prefix(1);
    CharacterSet set;
    std::vector<CharacterSet> intersected;
    for (bool first = true; !rest_.empty() && (first || rest_.front() != ']'); first = false) {
      if (rest_.starts_with("&&")) {
        rest_.remove_prefix(2);
        intersected.push_back(std::exchange(set, {}));
      } else if (rest_.starts_with("[:")) {
        RETURN_IF_ERROR(PosixSet(&set));
      } else if (rest_.front() == '[') {
        ASSIGN_OR_RETURN(CharacterSet inner, Class(depth + 1));
        set.Add(std::move(inner));
      } else {
        ClassItem(&set);
      }
    }
    if (rest_.empty()) return Unmatched("[");
    rest_.remove_prefix(1);
    for (const CharacterSet& other : intersected) {
      set = {"", {"(?:(?=" + other.Expression() + ")" + set.Expression() + ")"}};
    }
    return negated ? set.Negated() : set;
  }

  // "[:alpha:]" and similar, with Unicode's members.
  Status PosixSet(CharacterSet* set) {
    const size_t end = rest_.find(":]");
    if (end == std::string_view::npos) return Unmatched("[");
    std::string name(rest_.substr(2, end - 2));
    rest_.remove_prefix(end + 2);
    const bool negated = name.starts_with('^');
    if (negated) name.erase(0, 1);
    if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<uint8_t>(name[0])));
    CharacterSet named{name == "Xdigit" ? std::string(kHexItems) : Property(name), {}};
    if (name == "Punct") named.items += R"(\p{S})";
    set->Add(negated ? named.Negated() : std::move(named));
    return Status::Ok();
  }

  void ClassItem(CharacterSet* set) {
    if (rest_.front() == '\\' && rest_.size() > 1) {
      bool known = false;
      CharacterSet escaped = Escape(&known);
      if (known) {
        set->Add(std::move(escaped));
      } else {
        CopyEscape(&set->items);
      }
      return;
    }
    set->items += rest_.front() == ']' ? "\\]" : std::string(1, rest_.front());
    rest_.remove_prefix(1);
  }

  std::string_view rest_;
  std::string out_;
  size_t atom_ = 0;             // start of the last atom in `out_`
  std::vector<size_t> groups_;  // starts of the open groups in `out_`
};

}  // namespace

Result<std::string> PcreFromOniguruma(std::string_view pattern) { return Translator(pattern).Translate(); }

}  // namespace ringside
