// Reads the parts of a message with known words and numbers. Each call consumes its part, or returns false.
// THREAD: any.
#pragma once

#include <charconv>
#include <string_view>

namespace ringside {

inline bool SkipWords(std::string_view words, std::string_view* text) {
  if (!text->starts_with(words)) return false;
  text->remove_prefix(words.size());
  return true;
}

template <class Number>
bool ReadNumber(std::string_view* text, Number* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace ringside
