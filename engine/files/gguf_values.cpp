// Typed look-ups in a GGUF file's metadata.
#include "engine/files/gguf_reader.h"

namespace ringside {

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::string> GgufFile::String(std::string_view key) const {
  const auto* value = Find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

std::optional<int64_t> GgufFile::Int(std::string_view key) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return *number;
  if (const auto* flag = std::get_if<bool>(value)) return *flag ? 1 : 0;
  return std::nullopt;
}

std::optional<double> GgufFile::Float(std::string_view key) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<bool> GgufFile::Bool(std::string_view key) const {
  const auto* value = Find(key);
  const auto* flag = value == nullptr ? nullptr : std::get_if<bool>(value);
  return flag == nullptr ? std::nullopt : std::optional(*flag);
}

const std::vector<std::string>* GgufFile::Strings(std::string_view key) const {
  const auto* value = Find(key);
  return value == nullptr ? nullptr : std::get_if<std::vector<std::string>>(value);
}

std::optional<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  const auto* value = Find(key);
  const auto* numbers = value == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(value);
  return numbers == nullptr ? std::nullopt : std::optional(*numbers);
}

std::optional<std::vector<double>> GgufFile::Floats(std::string_view key) const {
  const auto* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* numbers = std::get_if<std::vector<double>>(value)) return *numbers;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) {
    return std::vector<double>(numbers->begin(), numbers->end());
  }
  return std::nullopt;
}

}  // namespace ringside
