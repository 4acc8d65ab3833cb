// Parameters of a statement in PostgreSQL's binary formats: numbers big-endian, arrays with one dimension. Plain
// values. THREAD: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringside {

/// Type numbers of PostgreSQL (its catalog pg_type).
enum class PostgresType : uint32_t {
  kBool = 16,
  kBytes = 17,
  kInt8 = 20,
  kText = 25,
  kFloat8 = 701,
  kBoolArray = 1000,
  kBytesArray = 1001,
  kTextArray = 1009,
  kInt8Array = 1016,
  kFloat8Array = 1022,
};

class PostgresParams {
 public:
  struct Value {
    PostgresType type;
    std::optional<std::string> bytes;  // nullopt: null
  };

  PostgresParams& Bool(bool value);
  PostgresParams& Int8(int64_t value);
  PostgresParams& Float8(double value);
  PostgresParams& Text(std::optional<std::string_view> value);
  PostgresParams& Bytes(std::string_view value);
  template <class T>
  using Column = std::vector<std::optional<T>>;
  PostgresParams& Bools(const Column<bool>& values);
  PostgresParams& Int8s(const Column<int64_t>& values);
  PostgresParams& Float8s(const Column<double>& values);
  PostgresParams& Texts(const Column<std::string_view>& values);
  PostgresParams& Texts(const std::vector<std::string>& values);
  PostgresParams& BytesArray(const Column<std::string_view>& values);

  const std::vector<Value>& values() const { return values_; }
  size_t bytes() const;

 private:
  std::vector<Value> values_;
};

}  // namespace ringside
