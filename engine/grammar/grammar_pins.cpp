#include "engine/grammar/grammar_pins.h"

#include "base/limits.h"

namespace ringside {
namespace {

constexpr int64_t kOwnersShare = limits::kMaxGrammarCacheBytes / 2;

std::string MiB(int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

Result<std::shared_ptr<const Grammar>> GrammarPins::Pin(std::shared_ptr<const Grammar> grammar,
                                                        const std::string& owner) {
  const auto bytes = static_cast<int64_t>(grammar->compiled_bytes());
  {
    std::lock_guard lock(mutex_);
    Held& held = owners_[owner];
    if (!held.answers.contains(grammar.get())) {
      const bool own = held.bytes + bytes > kOwnersShare;
      if (own || bytes_ + bytes > limits::kMaxGrammarCacheBytes) {
        if (held.answers.empty()) owners_.erase(owner);
        return Status(StatusCode::kOverloaded,
                      own ? "The formats of your running answers take more than " + MiB(kOwnersShare) + "."
                          : "The formats of running answers take more than " + MiB(limits::kMaxGrammarCacheBytes) + ".",
                      "", "rate_limit_exceeded");
      }
      held.bytes += bytes;
      bytes_ += bytes;
    }
    ++held.answers[grammar.get()];
  }
  const Grammar* const pinned = grammar.get();
  return std::shared_ptr<const Grammar>(
      pinned, [pins = shared_from_this(), owner, grammar = std::move(grammar)](const Grammar*) mutable {
        pins->Unpin(*grammar, owner);
        grammar.reset();
      });
}

void GrammarPins::Unpin(const Grammar& grammar, const std::string& owner) {
  std::lock_guard lock(mutex_);
  const auto held = owners_.find(owner);
  const auto answers = held->second.answers.find(&grammar);
  if (--answers->second > 0) return;
  held->second.answers.erase(answers);
  held->second.bytes -= static_cast<int64_t>(grammar.compiled_bytes());
  bytes_ -= static_cast<int64_t>(grammar.compiled_bytes());
  if (held->second.answers.empty()) owners_.erase(held);
}

int64_t GrammarPins::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace ringside
