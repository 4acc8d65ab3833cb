#include "engine/files/flat_json.h"

#include <fmt/format.h>

#include <limits>

#include "base/json/json_reader.h"
#include "engine/files/mapped_file.h"

namespace ringside {
namespace {

constexpr JsonLimits kLimits{.bytes = 32 << 20, .depth = 16, .values = 1 << 20, .unique_names = true};
constexpr size_t kMaxPathBytes = 1 << 12;
constexpr size_t kMaxRetryBytes = 1 << 20;

// Stops the reader with the reason in `error`.
class Flattener final : public JsonHandler {
 public:
  explicit Flattener(FlatJson::Table* table) : table_(*table) {}

  const std::string& error() const { return error_; }

  bool Null() override { return Add(FlatJson::Null{}); }
  bool Boolean(bool value) override { return Add(value); }
  bool Negative(int64_t value) override { return Add(value); }
  bool Unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Add(static_cast<double>(value));
    return Add(static_cast<int64_t>(value));
  }
  bool Number(double value, const std::string&) override { return Add(value); }
  bool String(std::string& value) override { return Add(std::move(value)); }

  bool OpenObject() override { return Open(FlatJson::Object{}); }
  bool OpenArray() override { return levels_.empty() ? Fail("not an object") : Open(FlatJson::Array{}); }
  bool CloseObject() override { return Close<FlatJson::Object>(); }
  bool CloseArray() override { return Close<FlatJson::Array>(); }
  bool Name(std::string& name) override {
    Level& level = levels_.back();
    path_.resize(level.path_bytes);
    if (levels_.size() > 1) path_ += '.';
    path_ += name;
    return path_.size() <= kMaxPathBytes || Fail("a name is too long");
  }

 private:
  struct Level {
    bool array;
    size_t path_bytes;  // path length of the object or array itself
    int64_t members = 0;
  };

  bool Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }

  // Adds a value under the current path; in an array that is the next index.
  bool Add(FlatJson::Value value) {
    if (levels_.empty()) return Fail("not an object");
    Level& level = levels_.back();
    if (level.array) {
      path_.resize(level.path_bytes);
      path_ += '.';
      path_ += std::to_string(level.members);
    }
    ++level.members;
    if (!table_.emplace(path_, std::move(value)).second) return Fail(fmt::format("'{}' occurs twice", path_));
    return true;
  }

  bool Open(FlatJson::Value container) {
    const bool array = std::holds_alternative<FlatJson::Array>(container);
    if (!levels_.empty() && !Add(std::move(container))) return false;
    levels_.push_back({array, path_.size()});
    return true;
  }

  template <class Container>
  bool Close() {
    const Level level = levels_.back();
    levels_.pop_back();
    path_.resize(level.path_bytes);
    if (!levels_.empty()) std::get<Container>(table_.find(path_)->second).members = level.members;
    return true;
  }

  FlatJson::Table& table_;
  std::vector<Level> levels_;
  std::string path_, error_;
};

/// Python writes infinities and NaN as words that JSON lacks: null instead.
std::string WithoutBareWords(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (!rest.starts_with(word)) continue;
        out += "null";
        i += word.size();
        break;
      }
      if (i == text.size()) break;
    }
    if (quoted && text[i] == '\\' && i + 1 < text.size())
      out += text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    out += text[i];
  }
  return out;
}

}  // namespace

Result<FlatJson> FlatJson::Parse(std::string_view text, const std::string& source) {
  FlatJson out;
  Flattener flattener(&out.values_);
  const JsonFault fault = ReadJson(text, kLimits, flattener);
  if (fault.ok()) return out;
  if (fault.kind == JsonFault::Kind::kSyntax && text.size() <= kMaxRetryBytes) {
    if (const std::string clean = WithoutBareWords(text); clean != text) return Parse(clean, source);
  }
  if (fault.kind == JsonFault::Kind::kStopped) return Corruption(fmt::format("{}: {}", source, flattener.error()));
  const char* invalid = fault.kind == JsonFault::Kind::kSyntax ? "invalid JSON " : "";
  return Corruption(fmt::format("{}: {}{}", source, invalid, fault.message));
}

Result<FlatJson> FlatJson::ReadFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  return Parse({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

const FlatJson::Value* FlatJson::Find(std::string_view path) const {
  const auto found = values_.find(path);
  return found == values_.end() ? nullptr : &found->second;
}

bool FlatJson::Has(std::string_view path) const {
  const Value* value = Find(path);
  return value != nullptr && !std::holds_alternative<Null>(*value);
}

std::optional<std::string> FlatJson::String(std::string_view path) const {
  const Value* value = Find(path);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

std::optional<int64_t> FlatJson::Int(std::string_view path) const {
  const Value* value = Find(path);
  const auto* number = value == nullptr ? nullptr : std::get_if<int64_t>(value);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::optional<double> FlatJson::Float(std::string_view path) const {
  const Value* value = Find(path);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::optional<bool> FlatJson::Bool(std::string_view path) const {
  const Value* value = Find(path);
  const auto* flag = value == nullptr ? nullptr : std::get_if<bool>(value);
  return flag == nullptr ? std::nullopt : std::optional(*flag);
}

std::optional<std::vector<int64_t>> FlatJson::Ints(std::string_view path) const {
  const Value* value = Find(path);
  const auto* array = value == nullptr ? nullptr : std::get_if<Array>(value);
  if (array == nullptr) return std::nullopt;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < array->members; ++i) {
    const auto number = Int(std::string(path) + "." + std::to_string(i));
    if (!number) return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

}  // namespace ringside
