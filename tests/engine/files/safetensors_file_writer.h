// Writes small safetensors files for tests. THREAD: tests only.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "base/check.h"

namespace ringside {

class SafeTensorsFileWriter {
 public:
  SafeTensorsFileWriter& Add(const std::string& name, std::span<const int64_t> shape, std::span<const float> values) {
    return Add(name, "F32", shape, std::as_bytes(values));
  }
  SafeTensorsFileWriter& Add(const std::string& name, const std::string& type, std::span<const int64_t> shape,
                             std::span<const std::byte> bytes) {
    const size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    header_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header_.empty() ? "" : ",",
                           name, type, fmt::join(shape, ","), begin, data_.size());
    return *this;
  }
  std::string Finish() const {
    const std::string header = "{" + header_ + "}";
    const uint64_t bytes = header.size();
    return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes)) + header + data_;
  }
  void Write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << Finish();
    CHECK(file.good());
  }

 private:
  std::string header_, data_;
};

}  // namespace ringside
