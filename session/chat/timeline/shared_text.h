// Immutable text shared by its copies: a copy costs a pointer, whatever the length. A value.
// THREAD: any.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace ringside {

class SharedText {
 public:
  SharedText() = default;
  // Implicit in both directions, so that producers and readers of a text need not know how it is stored.
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
