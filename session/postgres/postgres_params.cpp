#include "session/postgres/postgres_params.h"

#include <bit>

namespace ringside {
namespace {

void AppendInt4(std::string& out, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(number >> shift));
}

std::string Encoded(bool value) { return std::string(1, value ? '\1' : '\0'); }
std::string Encoded(int64_t value) {
  std::string out;
  const auto bits = static_cast<uint64_t>(value);
  AppendInt4(out, static_cast<uint32_t>(bits >> 32));
  AppendInt4(out, static_cast<uint32_t>(bits));
  return out;
}
std::string Encoded(double value) { return Encoded(std::bit_cast<int64_t>(value)); }
std::string_view Encoded(std::string_view value) { return value; }

template <class T>
PostgresParams::Value ArrayValue(PostgresType array, PostgresType element, const PostgresParams::Column<T>& values) {
  std::string out;
  AppendInt4(out, values.empty() ? 0 : 1);  // dimensions
  AppendInt4(out, 1);                       // may hold nulls
  AppendInt4(out, static_cast<uint32_t>(element));
  if (!values.empty()) {
    AppendInt4(out, static_cast<uint32_t>(values.size()));
    AppendInt4(out, 1);  // first index
  }
  for (const auto& value : values) {
    if (!value) {
      AppendInt4(out, ~uint32_t{0});
      continue;
    }
    const auto bytes = Encoded(*value);
    AppendInt4(out, static_cast<uint32_t>(bytes.size()));
    out.append(bytes);
  }
  return {array, std::move(out)};
}

}  // namespace

PostgresParams& PostgresParams::Bool(bool value) {
  values_.push_back({PostgresType::kBool, Encoded(value)});
  return *this;
}
PostgresParams& PostgresParams::Int8(int64_t value) {
  values_.push_back({PostgresType::kInt8, Encoded(value)});
  return *this;
}
PostgresParams& PostgresParams::Float8(double value) {
  values_.push_back({PostgresType::kFloat8, Encoded(value)});
  return *this;
}
PostgresParams& PostgresParams::Text(std::optional<std::string_view> value) {
  values_.push_back({PostgresType::kText, value ? std::optional<std::string>(*value) : std::nullopt});
  return *this;
}
PostgresParams& PostgresParams::Bytes(std::string_view value) {
  values_.push_back({PostgresType::kBytes, std::string(value)});
  return *this;
}
PostgresParams& PostgresParams::Bools(const Column<bool>& values) {
  values_.push_back(ArrayValue(PostgresType::kBoolArray, PostgresType::kBool, values));
  return *this;
}
PostgresParams& PostgresParams::Int8s(const Column<int64_t>& values) {
  values_.push_back(ArrayValue(PostgresType::kInt8Array, PostgresType::kInt8, values));
  return *this;
}
PostgresParams& PostgresParams::Float8s(const Column<double>& values) {
  values_.push_back(ArrayValue(PostgresType::kFloat8Array, PostgresType::kFloat8, values));
  return *this;
}
PostgresParams& PostgresParams::Texts(const Column<std::string_view>& values) {
  values_.push_back(ArrayValue(PostgresType::kTextArray, PostgresType::kText, values));
  return *this;
}
PostgresParams& PostgresParams::Texts(const std::vector<std::string>& values) {
  return Texts(Column<std::string_view>(values.begin(), values.end()));
}
PostgresParams& PostgresParams::BytesArray(const Column<std::string_view>& values) {
  values_.push_back(ArrayValue(PostgresType::kBytesArray, PostgresType::kBytes, values));
  return *this;
}

size_t PostgresParams::bytes() const {
  size_t all = 0;
  for (const Value& value : values_) all += value.bytes ? value.bytes->size() : 0;
  return all;
}

}  // namespace ringside
