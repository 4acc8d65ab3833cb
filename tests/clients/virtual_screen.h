// A terminal emulator for tests: interprets the bytes that a program writes and keeps the visible screen. Supports the
// sequences that the client uses (newline, return, cursor up, right and to a column, erase below and to the right,
// home, clear; colours are skipped) and fails the test on any other.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "clients/terminal/text_width.h"

namespace ringside::client {

class VirtualScreen {
 public:
  explicit VirtualScreen(int columns) : columns_(columns) { rows_.emplace_back(); }

  void Write(std::string_view bytes) {
    while (!bytes.empty()) bytes.remove_prefix(bytes[0] == '\x1b' ? Escape(bytes) : Print(bytes));
  }

  /// The rows without trailing blanks.
  std::vector<std::string> rows() const {
    std::vector<std::string> shown;
    for (const auto& cells : rows_) {
      std::string row;
      for (const std::string& cell : cells) row += cell;
      row.erase(row.find_last_not_of(' ') + 1);
      shown.push_back(row);
    }
    while (shown.size() > 1 && shown.back().empty()) shown.pop_back();
    return shown;
  }
  int row() const { return row_; }
  int column() const { return column_; }

 private:
  size_t Print(std::string_view bytes) {
    if (bytes[0] == '\n') {
      ++row_;
      Grow();
      return 1;
    }
    if (bytes[0] == '\r') {
      column_ = 0;
      return 1;
    }
    const size_t size = FirstCluster(bytes);
    const std::string_view cluster = bytes.substr(0, size);
    EXPECT_GE(static_cast<unsigned char>(cluster[0]), 0x20) << "a raw control character";
    const int width = ClusterWidth(cluster);
    EXPECT_LE(column_ + width, columns_) << "written beyond the right border";
    if (width == 0) return size;
    auto& cells = rows_[static_cast<size_t>(row_)];
    if (cells.size() < static_cast<size_t>(column_ + width)) cells.resize(static_cast<size_t>(column_ + width), " ");
    cells[static_cast<size_t>(column_)] = cluster;
    for (int i = 1; i < width; ++i) cells[static_cast<size_t>(column_ + i)] = "";
    column_ += width;
    return size;
  }

  size_t Escape(std::string_view bytes) {
    const size_t end = bytes.find_first_not_of("0123456789;?", 2);
    if (bytes.size() < 3 || bytes[1] != '[' || end == std::string_view::npos) {
      ADD_FAILURE() << "a strange escape sequence";
      return bytes.size();
    }
    const std::string number(bytes.substr(2, end - 2));
    const int count = number.empty() || number[0] == '?' ? 1 : std::stoi(number);
    switch (bytes[end]) {
      case 'A':
        row_ -= count;
        EXPECT_GE(row_, 0) << "moved above the top";
        row_ = std::max(row_, 0);
        break;
      case 'C':
        column_ += count;
        EXPECT_LT(column_, columns_);
        break;
      case 'G':
        column_ = count - 1;
        EXPECT_LT(column_, columns_);
        break;
      case 'H':
        row_ = column_ = 0;
        break;
      case 'J':
        if (number == "2") {
          rows_.assign(1, {});
          break;
        }
        rows_.resize(static_cast<size_t>(row_) + 1);
        [[fallthrough]];
      case 'K':
        if (rows_[static_cast<size_t>(row_)].size() > static_cast<size_t>(column_)) {
          rows_[static_cast<size_t>(row_)].resize(static_cast<size_t>(column_));
        }
        break;
      case 'm':
        break;
      default:
        ADD_FAILURE() << "an escape sequence ending in " << bytes[end];
    }
    Grow();
    return end + 1;
  }

  void Grow() {
    while (rows_.size() <= static_cast<size_t>(row_)) rows_.emplace_back();
  }

  const int columns_;
  std::vector<std::vector<std::string>> rows_;
  int row_ = 0, column_ = 0;
};

}  // namespace ringside::client
