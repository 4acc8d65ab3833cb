#include "engine/files/module_pattern.h"

#include <fmt/format.h>

#include <algorithm>

namespace ringside {
namespace {

using Instruction = ModulePattern::Instruction;
using InstructionKind = Instruction::Kind;
using Program = ModulePattern::Program;

constexpr std::string_view kRegex = "re:";
constexpr size_t kMaxInstructions = 4096;
constexpr int kMaxDepth = 16, kMaxRepeats = 64;

std::bitset<256> Range(unsigned char first, unsigned char last) {
  std::bitset<256> out;
  for (int c = first; c <= last; ++c) out.set(static_cast<size_t>(c));
  return out;
}
std::bitset<256> One(char c) { return Range(static_cast<unsigned char>(c), static_cast<unsigned char>(c)); }

Program Fork(int32_t first, int32_t second) {
  return {{.kind = InstructionKind::kSplit, .first = first, .second = second}};
}
void Append(const Program& from, Program* to) { to->insert(to->end(), from.begin(), from.end()); }
int32_t Length(const Program& program) { return static_cast<int32_t>(program.size()); }

Program Optional(const Program& program) {
  Program out = Fork(1, Length(program) + 1);
  Append(program, &out);
  return out;
}
Program AnyNumber(const Program& program) {
  Program out = Optional(program);
  Append(Fork(-Length(program) - 1, 1), &out);
  return out;
}

// Recursive descent; null in `failure` means success so far.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  const char* failure() const { return failure_; }
  bool done() const { return rest_.empty(); }

  Program Alternatives(int depth) {
    if (depth > kMaxDepth) return Fail("nests too deeply");
    Program out = Sequence(depth);
    while (failure_ == nullptr && Skip("|")) {
      const Program next = Sequence(depth);
      Program both = Fork(1, Length(out) + 2);
      Append(out, &both);
      Append(Fork(Length(next) + 1, Length(next) + 1), &both);
      Append(next, &both);
      out = std::move(both);
      Bound(out);
    }
    return out;
  }

 private:
  Program Fail(const char* reason) {
    if (failure_ == nullptr) failure_ = reason;
    return {};
  }
  void Bound(const Program& program) {
    if (program.size() > kMaxInstructions) Fail("is too long");
  }
  bool Skip(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char Next() {
    const char c = rest_.empty() ? '\0' : rest_.front();
    if (!rest_.empty()) rest_.remove_prefix(1);
    return c;
  }

  Program Sequence(int depth) {
    Program out;
    while (failure_ == nullptr && !rest_.empty() && rest_.front() != '|' && rest_.front() != ')') {
      Append(Repeated(Atom(depth)), &out);
      Bound(out);
    }
    return out;
  }

  Program Atom(int depth) {
    const char c = Next();
    switch (c) {
      case '^':
        return {{.kind = InstructionKind::kStart}};
      case '$':
        return {{.kind = InstructionKind::kEnd}};
      case '.':
        return {{.characters = ~One('\n')}};
      case '[':
        return {{.characters = Class()}};
      case '\\':
        return {{.characters = Escaped()}};
      case '(': {
        if (!Skip("?:") && rest_.starts_with("?")) return Fail("has a special group");
        Program group = Alternatives(depth + 1);
        return Skip(")") ? group : Fail("has an open group");
      }
      case '*':
      case '+':
      case '?':
      case '{':
        return Fail("repeats nothing");
      default:
        return {{.characters = One(c)}};
    }
  }

  std::bitset<256> Escaped() {
    if (rest_.empty()) Fail("ends in a backslash");
    const char c = Next();
    const std::bitset<256> digits = Range('0', '9'), word = digits | Range('a', 'z') | Range('A', 'Z') | One('_');
    if (c == 'd') return digits;
    if (c == 'w') return word;
    if (c == 's') return One(' ') | Range('\t', '\r');
    if (word[static_cast<unsigned char>(c)]) Fail("has an unknown escape");
    return One(c);
  }

  std::bitset<256> Class() {
    const bool negated = Skip("^");
    std::bitset<256> out;
    for (bool first = true; first || !rest_.starts_with("]"); first = false) {
      if (rest_.empty() || failure_ != nullptr) {
        Fail("has an open class");
        return out;
      }
      const char c = Next();
      if (c == '\\') {
        out |= Escaped();
      } else if (rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']') {
        Next();
        const char last = Next();
        if (last == '\\' || last < c) Fail("has an invalid range");
        out |= Range(static_cast<unsigned char>(c), static_cast<unsigned char>(last));
      } else {
        out |= One(c);
      }
    }
    Next();
    return negated ? ~out : out;
  }

  int Number() {
    int number = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9' && number <= kMaxRepeats) {
      number = 10 * number + (Next() - '0');
    }
    return number;
  }

  // The atom with its quantifier. A lazy one matches the same names.
  Program Repeated(const Program& atom) {
    int least = 1, most = 1;  // most < 0: any number
    if (Skip("*")) {
      least = 0, most = -1;
    } else if (Skip("+")) {
      most = -1;
    } else if (Skip("?")) {
      least = 0;
    } else if (Skip("{")) {
      least = most = Number();
      if (Skip(",")) most = rest_.starts_with("}") ? -1 : Number();
      if (!Skip("}") || least > kMaxRepeats || most > kMaxRepeats || (most >= 0 && most < least)) {
        return Fail("has an invalid number of repeats");
      }
    } else {
      return atom;
    }
    Skip("?");
    Program out;
    for (int i = 0; i < std::max(least, most) && failure_ == nullptr; ++i) {
      Append(i < least ? atom : Optional(atom), &out);
      Bound(out);
    }
    if (most < 0) Append(AnyNumber(atom), &out);
    return out;
  }

  std::string_view rest_;
  const char* failure_ = nullptr;
};

}  // namespace

Result<ModulePattern> ModulePattern::Parse(std::string_view text) {
  ModulePattern out;
  out.is_name_ = !text.starts_with(kRegex);
  if (out.is_name_) {
    out.name_ = text;
    return out;
  }
  Reader reader(text.substr(kRegex.size()));
  out.program_ = reader.Alternatives(0);
  const char* failure = reader.failure() == nullptr && !reader.done() ? "closes no group" : reader.failure();
  if (failure == nullptr) return out;
  return InvalidArgument(fmt::format("config.json: the pattern '{}' of quantization_config {}", text, failure));
}

// Adds a state and those reached from it without a character. A state is visited once per position, so loops end.
void ModulePattern::Add(size_t state, size_t at, size_t length, std::vector<bool>* states) const {
  std::vector<size_t> pending{state};
  while (!pending.empty()) {
    const size_t next = pending.back();
    pending.pop_back();
    if ((*states)[next]) continue;
    (*states)[next] = true;
    if (next == program_.size()) continue;
    const Instruction& instruction = program_[next];
    if (instruction.kind == InstructionKind::kSplit) {
      pending.push_back(next + static_cast<size_t>(instruction.second));
      pending.push_back(next + static_cast<size_t>(instruction.first));
    }
    const bool passes = (instruction.kind == InstructionKind::kStart && at == 0) ||
                        (instruction.kind == InstructionKind::kEnd && at == length);
    if (passes) pending.push_back(next + 1);
  }
}

bool ModulePattern::Matches(std::string_view name) const {
  if (is_name_) return name == name_;
  std::vector<bool> states(program_.size() + 1);
  Add(0, 0, name.size(), &states);
  for (size_t at = 0; at < name.size() && !states.back() && std::ranges::count(states, true) > 0; ++at) {
    std::vector<bool> next(states.size());
    for (size_t state = 0; state < program_.size(); ++state) {
      const Instruction& instruction = program_[state];
      if (!states[state] || instruction.kind != InstructionKind::kCharacters) continue;
      if (instruction.characters[static_cast<unsigned char>(name[at])]) Add(state + 1, at + 1, name.size(), &next);
    }
    states = std::move(next);
  }
  return states.back();
}

}  // namespace ringside
