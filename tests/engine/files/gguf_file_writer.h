// Writes small GGUF files for tests, field by field, so that any field can be corrupted. THREAD: tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringside {

/// The bytes of a GGUF file under construction.
class GgufFileWriter {
 public:
  template <class T>
  static std::string Bytes(const T& value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string Text(std::string_view text) {
    return Bytes(static_cast<uint64_t>(text.size())) + std::string(text);
  }

  /// Adds a key with a value of the given GGUF type number; `value` is its bytes.
  GgufFileWriter& Key(std::string_view key, uint32_t type, const std::string& value) {
    keys_ += Text(key) + Bytes(type) + value;
    ++key_count_;
    return *this;
  }
  GgufFileWriter& U32(std::string_view key, uint32_t value) { return Key(key, 4, Bytes(value)); }
  GgufFileWriter& I32s(std::string_view key, const std::vector<int32_t>& values) {
    std::string bytes = Bytes(uint32_t{5}) + Bytes(static_cast<uint64_t>(values.size()));
    for (const int32_t value : values) bytes += Bytes(value);
    return Key(key, 9, bytes);
  }
  GgufFileWriter& F32(std::string_view key, float value) { return Key(key, 6, Bytes(value)); }
  GgufFileWriter& String(std::string_view key, std::string_view value) { return Key(key, 8, Text(value)); }
  GgufFileWriter& Strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = Bytes(uint32_t{8}) + Bytes(static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) bytes += Text(value);
    return Key(key, 9, bytes);
  }

  /// Adds a tensor entry; `dimensions` are innermost first, as in the file.
  GgufFileWriter& Entry(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                        uint64_t offset) {
    entries_ += Text(name) + Bytes(static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t size : dimensions) entries_ += Bytes(size);
    entries_ += Bytes(type) + Bytes(offset);
    ++entry_count_;
    return *this;
  }
  /// Adds a tensor with its data after all data so far, aligned to 32.
  GgufFileWriter& Tensor(std::string_view name, const std::vector<uint64_t>& dimensions, uint32_t type,
                         const std::string& data) {
    data_.resize((data_.size() + 31) / 32 * 32);
    Entry(name, dimensions, type, data_.size());
    data_ += data;
    return *this;
  }
  /// A float32 tensor of `count` values, all 1.
  GgufFileWriter& Ones(std::string_view name, const std::vector<uint64_t>& dimensions) {
    size_t count = 1;
    for (const uint64_t size : dimensions) count *= size;
    std::string data;
    for (size_t i = 0; i < count; ++i) data += Bytes(1.0f);
    return Tensor(name, dimensions, 0, data);
  }
  GgufFileWriter& Data(std::string_view data) {
    data_ += data;
    return *this;
  }

  std::string Finish(uint32_t version = 3) const {
    std::string out = "GGUF" + Bytes(version) + Bytes(entry_count_) + Bytes(key_count_) + keys_ + entries_;
    if (entry_count_ > 0) out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }

 private:
  std::string keys_, entries_, data_;
  uint64_t key_count_ = 0, entry_count_ = 0;
};

}  // namespace ringside
