// Files of packed parts for tests. THREAD: tests only.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/files/packed_tensors.h"
#include "engine/files/safetensors_reader.h"
#include "kernels/formats/file_formats.h"
#include "tests/engine/files/safetensors_file_writer.h"

namespace ringside {

/// A part filled with one byte value.
struct Part {
  std::string name, type;
  std::vector<int64_t> shape;
  uint8_t byte = 0;
  std::vector<int32_t> words;  // instead of the byte value
};

inline size_t BytesOf(const std::string& type) {
  if (type == "I64") return 8;
  if (type == "I32" || type == "F32") return 4;
  return type == "F16" || type == "BF16" ? 2 : 1;
}

/// Writes files of parts, and joins them.
class PackedFiles : public ::testing::Test {
 protected:
  ~PackedFiles() override { std::filesystem::remove(path_); }

  Result<JoinedTensors> Join(const std::vector<Part>& parts, const PackedFormat& format) {
    SafeTensorsFileWriter writer;
    for (const Part& part : parts) {
      size_t bytes = BytesOf(part.type);
      for (const int64_t size : part.shape) bytes *= static_cast<size_t>(size);
      std::vector<std::byte> data(bytes, std::byte{part.byte});
      if (!part.words.empty()) std::memcpy(data.data(), part.words.data(), bytes);
      writer.Add(part.name, part.type, part.shape, data);
    }
    writer.Write(path_);
    file_ = SafeTensors::OpenFile(path_).value();
    return JoinPacked(*file_, format);
  }
  void ExpectRefused(const std::vector<Part>& parts, const PackedFormat& format, StatusCode code,
                     const std::string& message) {
    const auto joined = Join(parts, format);
    ASSERT_FALSE(joined.ok()) << message;
    EXPECT_EQ(joined.status().code(), code) << joined.status().ToString();
    EXPECT_THAT(joined.status().message(), ::testing::HasSubstr(message));
  }
  /// Row 0 of the only tensor.
  std::vector<float> FirstRow(const JoinedTensors& joined) {
    CHECK_EQ(joined.tensors.size(), 1u);
    std::vector<std::byte> blocks;
    const FileTensor tensor = Whole(joined.tensors.front(), &blocks);
    std::vector<float> row(static_cast<size_t>(tensor.data.cols));
    ReadFileRow(tensor.data, 0, row.data());
    return row;
  }

  const std::string path_ = ::testing::TempDir() + "packed_tensors_" + std::to_string(::getpid()) + ".safetensors";
  std::optional<SafeTensors> file_;
};

}  // namespace ringside
