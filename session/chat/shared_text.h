// A text that never changes and that its copies share: however long it is, a copy costs a pointer. A value; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ringside {

class SharedText {
 public:
  SharedText() = default;
  // Implicit, like the way back: what makes or reads a text knows nothing of how it is kept.
  SharedText(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}
  operator const std::string&() const { return get(); }
  operator std::string_view() const { return get(); }
  size_t size() const { return get().size(); }
  friend bool operator==(const SharedText& a, const SharedText& b) { return a.text_ == b.text_ || a.get() == b.get(); }

 private:
  const std::string& get() const {
    static const std::string empty;
    return text_ ? *text_ : empty;
  }

  std::shared_ptr<const std::string> text_;  // null = empty
};

}  // namespace ringside
