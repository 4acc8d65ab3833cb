// A JSON document as a flat table: each scalar under its path ("rope_scaling.factor", "shape.0"), each object or array
// under its own path with its number of members. For a model's files (config.json, safetensors headers and indices), as
// hostile input: size, depth and number of values are limited, and a duplicate name is an error, as are two nestings
// with the same path. Immutable. THREAD: any.
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

  /// Parses one JSON object. ERRORS: kCorruption with `source` and the reason.
  static Result<FlatJson> Parse(std::string_view text, const std::string& source);
  /// Parses a whole file of at most 32 MiB. ERRORS: also kNotFound or kIo if it cannot be read.
  static Result<FlatJson> ReadFile(const std::string& path);

  const Value* Find(std::string_view path) const;
  /// True if there is a value at `path` and it is not null.
  bool Has(std::string_view path) const;
  std::optional<std::string> String(std::string_view path) const;
  std::optional<int64_t> Int(std::string_view path) const;   // integers only
  std::optional<double> Float(std::string_view path) const;  // any number
  std::optional<bool> Bool(std::string_view path) const;
  /// The members of an array of integers; nullopt for anything else.
  std::optional<std::vector<int64_t>> Ints(std::string_view path) const;

  /// Every path with its value, sorted by path.
  const Table& values() const { return values_; }

 private:
  Table values_;
};

}  // namespace ringside
