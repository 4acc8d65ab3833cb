// A JSON document as a flat table: each scalar under its path ("rope_scaling.factor", "shape.0"), each object or array
// under its own path with its number of members. For files that come with a model (config.json, safetensors headers and
// indices), read as hostile input: size, depth and number of values are limited, and a name given twice is an error.
// A path that two different nestings spell alike counts as given twice. Immutable; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace ringside {

class FlatJson {
 public:
  struct Null {};
  struct Object {
    int64_t members = 0;
  };
  struct Array {
    int64_t members = 0;
  };
  using Value = std::variant<Null, Object, Array, bool, int64_t, double, std::string>;
  using Table = std::map<std::string, Value, std::less<>>;

  /// `text` must be one JSON object. kCorruption naming `source` and the reason otherwise.
  static Result<FlatJson> Parse(std::string_view text, const std::string& source);
  /// Parse of a whole file of at most 32 MiB; kNotFound or kIo if it cannot be read.
  static Result<FlatJson> ReadFile(const std::string& path);

  const Value* Find(std::string_view path) const;
  /// True if there is a value at `path` and it is not null.
  bool Has(std::string_view path) const;
  std::optional<std::string> String(std::string_view path) const;
  std::optional<int64_t> Int(std::string_view path) const;   // whole numbers only
  std::optional<double> Float(std::string_view path) const;  // any number
  std::optional<bool> Bool(std::string_view path) const;
  /// The members of an array of integers; nothing if it is no array or holds anything else.
  std::optional<std::vector<int64_t>> Ints(std::string_view path) const;

  /// Every path with its value, in order of the paths.
  const Table& values() const { return values_; }

 private:
  Table values_;
};

}  // namespace ringside
