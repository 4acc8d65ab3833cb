// Values of one section of FasterTransformer's config.ini, with errors for malformed ones.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/families/network_plan.h"
#include "engine/import/ini_file.h"

namespace ringside {

/// Values by lower-case key. Borrows the file. ERRORS: kInvalidArgument, with the key, for a malformed value.
class Section {
 public:
  Section(const IniFile& file, std::string_view name) : file_(file), name_(name) {}

  /// Converters write None for unknown values.
  std::optional<std::string> Text(std::string_view key) const {
    auto text = file_.Find(name_, key);
    return text && *text != "None" ? text : std::nullopt;
  }

  Status Need(std::string_view key, int64_t* value) const {
    const auto text = Text(key);
    return text ? Number(key, *text, value) : InvalidArgument(fmt::format("config.ini: '{}' is missing", key));
  }
  template <class T>
  Status Optional(std::string_view key, T* value) const {
    const auto text = Text(key);
    return text ? Number(key, *text, value) : Status::Ok();
  }
  Status Optional(std::string_view key, std::optional<int64_t>* value) const {
    int64_t number = 0;
    if (!Text(key)) return Status::Ok();
    RETURN_IF_ERROR(Optional(key, &number));
    *value = number;
    return Status::Ok();
  }
  Status Optional(std::string_view key, bool* value) const {
    const auto text = Text(key);
    if (!text) return Status::Ok();
    const std::string_view word = *text;
    const auto is = [&](std::initializer_list<std::string_view> words) {
      return std::ranges::find(words, word) != words.end();
    };
    if (is({"1", "True", "true", "yes", "on"})) {
      *value = true;
    } else if (is({"0", "False", "false", "no", "off"})) {
      *value = false;
    } else {
      return InvalidArgument(fmt::format("config.ini: '{}' is '{}', neither true nor false", key, word));
    }
    return Status::Ok();
  }
  Status Expect(std::string_view key, bool expected) const {
    bool value = expected;
    RETURN_IF_ERROR(Optional(key, &value));
    return value == expected ? Status::Ok() : Unsupported(key);
  }
  Status Unsupported(std::string_view key) const {
    return InvalidArgument(fmt::format("config.ini: '{}' = '{}' is not supported", key, Text(key).value_or("")));
  }

 private:
  template <class T>
  static Status Number(std::string_view key, std::string_view text, T* value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (error == std::errc() && end == text.data() + text.size()) return Status::Ok();
    return InvalidArgument(fmt::format("config.ini: '{}' is '{}', not a number in range", key, text));
  }

  const IniFile& file_;
  const std::string name_;
};

// ---- faster_transformer_t5.cpp
/// The settings of T5, which has one section each for encoder and decoder.
Status ReadFasterTransformerT5(const IniFile& config, ModelSpec* spec);
/// T5's tensor names. Matrices are split over GPUs as in the other networks; distance biases by heads.
std::span<const TensorRule> FasterTransformerT5Rules(const ModelSpec& spec);

}  // namespace ringside
