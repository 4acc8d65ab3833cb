#include "clients/terminal/markdown_table.h"

#include <algorithm>
#include <string>

#include "clients/terminal/text_width.h"

namespace ringside::client {
namespace {

using Style = StyledText::Style;

constexpr size_t kLongestTable = 32 << 10;  // bytes
constexpr size_t kMostColumns = 64;
constexpr int kWidestPadding = 200;  // columns; wider cells are not padded

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// Removes and returns the first line, without its newline.
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Splits a row into cells at unescaped bars.
std::vector<std::string> Cells(std::string_view row) {
  row = Trimmed(row);
  if (row.starts_with('|')) row.remove_prefix(1);
  std::vector<std::string> cells(1);
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size()) {
      if (row[i + 1] != '|') cells.back() += row[i];
      cells.back() += row[++i];
    } else if (row[i] != '|') {
      cells.back() += row[i];
    } else if (i + 1 < row.size() && cells.size() < kMostColumns) {
      cells.emplace_back();
    }
  }
  for (std::string& cell : cells) cell = std::string(Trimmed(cell));
  return cells;
}

bool IsDashes(std::string_view cell) {
  if (cell.starts_with(':')) cell.remove_prefix(1);
  if (cell.ends_with(':')) cell.remove_suffix(1);
  return !cell.empty() && cell.find_first_not_of('-') == std::string_view::npos;
}

struct Cell {
  std::vector<StyledText> pieces;
  int width = 0;
};

class Table {
 public:
  explicit Table(std::string_view text) {
    AddRow(TakeLine(text), Style::kBold);
    for (const std::string& dashes : Cells(TakeLine(text))) {
      aligned_right_.push_back(dashes.ends_with(':') && !dashes.starts_with(':'));
      centred_.push_back(dashes.ends_with(':') && dashes.starts_with(':'));
    }
    while (!text.empty()) AddRow(TakeLine(text), Style::kPlain);
  }

  void Show(std::vector<StyledText>& shown) const {
    for (size_t row = 0; row < rows_.size(); ++row) {
      for (size_t column = 0; column < widths_.size(); ++column) ShowCell(rows_[row], column, shown);
      shown.push_back({"\n"});
      if (row == 0) ShowRule(shown);
    }
  }

 private:
  void AddRow(std::string_view line, unsigned style) {
    std::vector<Cell>& row = rows_.emplace_back();
    for (const std::string& text : Cells(line)) {
      if (rows_.size() > 1 && row.size() == widths_.size()) break;  // more cells than the first row
      Cell& cell = row.emplace_back();
      ShowSpans(text, style, 0, cell.pieces);
      for (const StyledText& piece : cell.pieces) cell.width += TextWidth(piece.text);
    }
    widths_.resize(std::max(widths_.size(), row.size()));
    row.resize(widths_.size());
    for (size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], std::min(row[i].width, kWidestPadding));
  }

  void ShowCell(const std::vector<Cell>& row, size_t column, std::vector<StyledText>& shown) const {
    const Cell& cell = row[column];
    const bool last = column + 1 == row.size();
    const int room = std::max(0, widths_[column] - cell.width);
    const int left = aligned_right_[column] ? room : centred_[column] ? room / 2 : 0;
    if (left > 0) shown.push_back({std::string(static_cast<size_t>(left), ' ')});
    shown.insert(shown.end(), cell.pieces.begin(), cell.pieces.end());
    if (!last && room > left) shown.push_back({std::string(static_cast<size_t>(room - left), ' ')});
    if (!last) shown.push_back({" │ ", Style::kQuiet});
  }

  void ShowRule(std::vector<StyledText>& shown) const {
    std::string rule;
    for (size_t column = 0; column < widths_.size(); ++column) {
      if (column > 0) rule += "─┼─";
      for (int i = 0; i < widths_[column]; ++i) rule += "─";
    }
    shown.push_back({rule, Style::kQuiet});
    shown.push_back({"\n"});
  }

  std::vector<std::vector<Cell>> rows_;
  std::vector<int> widths_;
  std::vector<bool> aligned_right_, centred_;
};

bool IsRow(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin != std::string_view::npos && text[begin] == '|';
}

}  // namespace

TableText FindTable(std::string_view text, bool ends) {
  const bool continues_answer = !ends && text.size() < kLongestTable;
  const Found open = continues_answer ? Found::kOpen : Found::kText;
  const size_t head_end = text.find('\n');
  if (head_end == std::string_view::npos) return {open};
  std::string_view rest = text.substr(head_end + 1);
  const bool whole = rest.find('\n') != std::string_view::npos;
  const std::string_view line = TakeLine(rest);
  if (line.find_first_not_of("|:- \t") != std::string_view::npos) return {Found::kText};
  if (!whole && continues_answer) return {Found::kOpen};
  const std::vector<std::string> dashes = Cells(line);
  if (!IsRow(line) || dashes.size() != Cells(text.substr(0, head_end)).size() ||
      !std::ranges::all_of(dashes, IsDashes)) {
    return {Found::kText};
  }
  while (!rest.empty() && rest.find('\n') != std::string_view::npos && IsRow(rest)) TakeLine(rest);
  const size_t spaces = std::min(rest.find_first_not_of(' '), rest.size());
  const bool row = IsRow(rest);  // incomplete line
  if (continues_answer && (row || spaces == rest.size())) return {Found::kOpen};
  return {Found::kSpan, row && ends ? text.size() : text.size() - rest.size()};
}

void ShowTable(std::string_view table, std::vector<StyledText>& shown) { Table(table).Show(shown); }

}  // namespace ringside::client
