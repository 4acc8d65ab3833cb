// Writes small safetensors files of float32 tensors for tests. Test threads only.
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
    const size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    header_ += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})",
                           header_.empty() ? "" : ",", name, fmt::join(shape, ","), begin, data_.size());
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
