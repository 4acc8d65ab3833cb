#include "session/postgres/postgres_reply.h"

#include <bit>

namespace ringside {
namespace {

/// Bytes of a value; 0 = any number.
size_t BytesOf(PostgresType type) {
  switch (type) {
    case PostgresType::kBool:
      return 1;
    case PostgresType::kInt8:
    case PostgresType::kFloat8:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

Status PostgresReply::Add(const Columns& columns, Row row) {
  bool sound = row.size() == columns.size();
  for (size_t i = 0; sound && i < row.size(); ++i) {
    const size_t bytes = BytesOf(columns[i]);
    sound = !row[i] || bytes == 0 || row[i]->size() == bytes;
    bytes_ += row[i] ? row[i]->size() : 0;
  }
  if (!sound) return IoError("the database's reply has unexpected columns");
  rows_.push_back(std::move(row));
  return Status::Ok();
}

int64_t PostgresReply::Number(size_t row, size_t column) const {
  uint64_t number = 0;
  for (const char byte : Bytes(row, column)) number = number << 8 | static_cast<uint8_t>(byte);
  return static_cast<int64_t>(number);
}

double PostgresReply::Float8(size_t row, size_t column) const { return std::bit_cast<double>(Number(row, column)); }

std::string_view PostgresReply::Bytes(size_t row, size_t column) const {
  const auto& value = rows_[row][column];
  return value ? std::string_view(*value) : std::string_view();
}

std::vector<std::string> PostgresReply::Texts(size_t column) const {
  std::vector<std::string> texts;
  for (size_t row = 0; row < rows(); ++row) texts.push_back(Text(row, column));
  return texts;
}

}  // namespace ringside
