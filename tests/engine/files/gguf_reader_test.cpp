#include "engine/files/gguf_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/engine/files/gguf_file_writer.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Writer = GgufFileWriter;

class GgufReaderTest : public ::testing::Test {
 protected:
  Result<GgufFile> Open(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return GgufFile::Open(path_);
  }
  void ExpectRefused(const std::string& bytes, StatusCode code, const std::string& message) {
    const auto file = Open(bytes);
    ASSERT_FALSE(file.ok()) << message;
    EXPECT_EQ(file.status().code(), code) << file.status().ToString();
    EXPECT_THAT(file.status().message(), HasSubstr(message));
    EXPECT_THAT(file.status().message(), HasSubstr(path_));
  }
  ~GgufReaderTest() override { ::unlink(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "gguf_reader_test_" + std::to_string(::getpid()) + ".gguf";
};

// A file with one value of every type.
Writer Sound() {
  Writer writer;
  writer.Key("u8", 0, Writer::Bytes(uint8_t{200})).Key("i8", 1, Writer::Bytes(int8_t{-5}));
  writer.Key("u16", 2, Writer::Bytes(uint16_t{60000})).Key("i16", 3, Writer::Bytes(int16_t{-600}));
  writer.U32("u32", 4'000'000'000).Key("i32", 5, Writer::Bytes(int32_t{-7})).F32("f32", 0.5f);
  writer.Key("yes", 7, Writer::Bytes(uint8_t{1})).String("text", "ring");
  writer.Key("u64", 10, Writer::Bytes(uint64_t{1} << 40)).Key("huge", 10, Writer::Bytes(~uint64_t{0}));
  writer.Key("i64", 11, Writer::Bytes(int64_t{-1} << 40)).Key("f64", 12, Writer::Bytes(0.25));
  writer.Key(
      "ints", 9,
      Writer::Bytes(uint32_t{5}) + Writer::Bytes(uint64_t{2}) + Writer::Bytes(int32_t{3}) + Writer::Bytes(int32_t{-4}));
  writer.Key("floats", 9,
             Writer::Bytes(uint32_t{6}) + Writer::Bytes(uint64_t{2}) + Writer::Bytes(1.5f) + Writer::Bytes(-2.0f));
  writer.Strings("words", {"a", "", "b c"});
  writer.Ones("first", {2, 3}).Tensor("second", {32, 2}, 8, std::string(68, 'q')).Ones("third", {1});
  return writer;
}

TEST_F(GgufReaderTest, ReadsEveryValueType) {
  for (const uint32_t version : {2u, 3u}) {
    const auto opened = Open(Sound().Finish(version));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const GgufFile& file = opened.value();
    EXPECT_EQ(file.Int("u8"), 200);
    EXPECT_EQ(file.Int("i8"), -5);
    EXPECT_EQ(file.Int("u16"), 60000);
    EXPECT_EQ(file.Int("i16"), -600);
    EXPECT_EQ(file.Int("u32"), 4'000'000'000);
    EXPECT_EQ(file.Int("i32"), -7);
    EXPECT_EQ(file.Int("u64"), int64_t{1} << 40);
    EXPECT_EQ(file.Int("i64"), int64_t{-1} << 40);
    EXPECT_EQ(file.Float("f32"), 0.5);
    EXPECT_EQ(file.Float("f64"), 0.25);
    EXPECT_EQ(file.Float("i8"), -5.0);
    EXPECT_EQ(file.Bool("yes"), true);
    EXPECT_EQ(file.Int("yes"), 1);
    EXPECT_EQ(file.String("text"), "ring");
    EXPECT_EQ(file.Ints("ints"), (std::vector<int64_t>{3, -4}));
    EXPECT_EQ(file.Floats("ints"), (std::vector<double>{3, -4}));
    EXPECT_EQ(file.Floats("floats"), (std::vector<double>{1.5, -2}));
    ASSERT_NE(file.Strings("words"), nullptr);
    EXPECT_THAT(*file.Strings("words"), ElementsAre("a", "", "b c"));
    EXPECT_EQ(file.Int("huge"), std::nullopt);
    EXPECT_EQ(file.Float("huge"), 18446744073709551616.0);
  }
}

TEST_F(GgufReaderTest, AbsentOrMistypedKeyIsEmpty) {
  const auto opened = Open(Sound().Finish());
  ASSERT_TRUE(opened.ok());
  const GgufFile& file = opened.value();
  EXPECT_EQ(file.Find("absent"), nullptr);
  EXPECT_EQ(file.Int("absent"), std::nullopt);
  EXPECT_EQ(file.Int("text"), std::nullopt);
  EXPECT_EQ(file.Int("f32"), std::nullopt);
  EXPECT_EQ(file.Float("text"), std::nullopt);
  EXPECT_EQ(file.Bool("u8"), std::nullopt);
  EXPECT_EQ(file.String("u8"), std::nullopt);
  EXPECT_EQ(file.Strings("ints"), nullptr);
  EXPECT_EQ(file.Ints("floats"), std::nullopt);
  EXPECT_EQ(file.Floats("words"), std::nullopt);
}

TEST_F(GgufReaderTest, TensorDimensionsAreOutermostFirst) {
  const auto opened = Open(Sound().Finish());
  ASSERT_TRUE(opened.ok());
  const auto& tensors = opened.value().tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "first");
  EXPECT_THAT(tensors[0].shape, ElementsAre(3, 2));
  EXPECT_EQ(tensors[0].data.rows, 3);
  EXPECT_EQ(tensors[0].data.cols, 2);
  EXPECT_EQ(tensors[0].data.dtype, DType::kF32);
  float value = 0;
  std::memcpy(&value, tensors[0].data.bytes.data() + 20, 4);
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(tensors[1].data.dtype, DType::kQ8_0);
  EXPECT_EQ(tensors[1].data.bytes.size(), 68u);
  EXPECT_EQ(static_cast<char>(tensors[1].data.bytes[67]), 'q');
  EXPECT_THAT(tensors[2].shape, ElementsAre(1));
}

TEST_F(GgufReaderTest, RefusesEveryTruncation) {
  const std::string bytes = Sound().Finish();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto file = Open(bytes.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    ASSERT_EQ(file.status().code(), StatusCode::kCorruption) << file.status().ToString();
  }
}

TEST_F(GgufReaderTest, FlippedBitsAreHarmless) {
  const std::string bytes = Sound().Finish();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto file = Open(damaged);
    if (!file.ok()) continue;
    // A file that still opens must be readable to its last byte (the sanitizers check).
    int64_t sum = 0;
    for (const FileTensor& tensor : file.value().tensors()) {
      ASSERT_EQ(static_cast<int64_t>(tensor.data.bytes.size()),
                StorageBytes(tensor.data.dtype, tensor.data.rows * tensor.data.cols));
      for (const std::byte byte : tensor.data.bytes) sum += static_cast<int64_t>(byte);
    }
    ASSERT_GE(sum, 0);
  }
}

TEST_F(GgufReaderTest, RefusesOtherFiles) {
  ExpectRefused("", StatusCode::kCorruption, "magic");
  ExpectRefused("GGML" + std::string(100, '\0'), StatusCode::kCorruption, "magic");
  ExpectRefused(Sound().Finish(1), StatusCode::kInvalidArgument, "version 1");
  ExpectRefused(Sound().Finish(4), StatusCode::kInvalidArgument, "version 4");
  ExpectRefused(Sound().Finish(0x03000000), StatusCode::kInvalidArgument, "big-endian");
}

TEST_F(GgufReaderTest, RefusesAnUnreadableFile) {
  EXPECT_EQ(GgufFile::Open(path_ + ".absent").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(GgufFile::Open(::testing::TempDir()).status().code(), StatusCode::kIo);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(GgufFile::Open(path_).status().code(), StatusCode::kIo);
}

TEST_F(GgufReaderTest, RefusesImpossibleCounts) {
  std::string bytes = Sound().Finish();
  std::memcpy(bytes.data() + 8, Writer::Bytes(uint64_t{1} << 17).data(), 8);
  ExpectRefused(bytes, StatusCode::kCorruption, "claims 131072 tensors");
  bytes = Sound().Finish();
  std::memcpy(bytes.data() + 16, Writer::Bytes(~uint64_t{0}).data(), 8);
  ExpectRefused(bytes, StatusCode::kCorruption, "metadata keys");
  const std::string array = Writer::Bytes(uint32_t{10}) + Writer::Bytes(uint64_t{1} << 61);
  ExpectRefused(Writer().Key("long", 9, array).Finish(), StatusCode::kCorruption, "array 'long' claims");
  ExpectRefused(Writer().Key("text", 8, Writer::Bytes(~uint64_t{0}) + "x").Finish(), StatusCode::kCorruption,
                "value of 'text'");
}

TEST_F(GgufReaderTest, RefusesBadValues) {
  ExpectRefused(Writer().U32("a", 1).U32("a", 2).Finish(), StatusCode::kCorruption, "'a' occurs twice");
  ExpectRefused(Writer().U32("", 1).Finish(), StatusCode::kCorruption, "key 0");
  ExpectRefused(Writer().Key("a", 13, "12345678").Finish(), StatusCode::kCorruption, "unknown type 13");
  ExpectRefused(Writer().Key("a", 7, Writer::Bytes(uint8_t{2})).Finish(), StatusCode::kCorruption, "a bool of 2");
  const std::string nested = Writer::Bytes(uint32_t{9}) + Writer::Bytes(uint64_t{1}) + std::string(32, '\0');
  ExpectRefused(Writer().Key("a", 9, nested).Finish(), StatusCode::kInvalidArgument, "'a' holds arrays");
  for (const uint32_t alignment : {0u, 3u, 1u << 17}) {
    ExpectRefused(Writer().U32("general.alignment", alignment).Finish(), StatusCode::kCorruption, "alignment");
  }
  ExpectRefused(Writer().String("general.alignment", "32").Finish(), StatusCode::kCorruption, "alignment");
}

TEST_F(GgufReaderTest, RefusesBadTensors) {
  const std::string data(256, '\0');
  const auto refused = [&](const Writer& writer, StatusCode code, const std::string& message) {
    ExpectRefused(Writer(writer).Data(data).Finish(), code, message);
  };
  const auto damaged = StatusCode::kCorruption;
  refused(Writer().Entry("a", {}, 0, 0), damaged, "'a' has 0 dimensions");
  refused(Writer().Entry("a", {1, 1, 1, 1, 1}, 0, 0), damaged, "'a' has 5 dimensions");
  refused(Writer().Entry("a", {4, 0}, 0, 0), damaged, "a dimension of 0");
  refused(Writer().Entry("a", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0), damaged, "a dimension of 4294967296");
  refused(Writer().Entry("a", {~uint64_t{0}}, 0, 0), damaged, "a dimension of");
  refused(Writer().Entry("a", {33}, 2, 0), damaged, "rows of 33 values");
  refused(Writer().Entry("a", {4}, 77, 0), damaged, "unknown type 77");
  refused(Writer().Entry("a", {256}, 41, 0), StatusCode::kInvalidArgument, "'a' is stored as Q1_0");
  for (const uint32_t type : {10u, 11u, 16u, 17u, 18u, 19u, 21u, 22u, 23u, 29u, 34u, 35u}) {
    refused(Writer().Entry("a", {128}, type, 0), damaged, "rows of 128 values");
    refused(Writer().Entry("a", {2048}, type, 0), damaged, "reaches past the end of the file");
  }
  refused(Writer().Entry("a", {96}, 40, 0), damaged, "rows of 96 values, not a multiple of the 64 of a NVFP4 block");
  for (const uint32_t type : {20u, 39u}) refused(Writer().Entry("a", {48}, type, 0), damaged, "rows of 48 values");
  refused(Writer().Entry("a", {256, 4}, 10, 0), damaged, "(336 bytes at offset 0) reaches past the end");
  refused(Writer().Entry("a", {4}, 0, 4), damaged, "not aligned");
  refused(Writer().Entry("a", {65}, 0, 0), damaged, "past the end");
  refused(Writer().Entry("a", {4}, 0, uint64_t{1} << 63), damaged, "past the end");
  refused(Writer().Entry("a", {16}, 0, 0).Entry("b", {16}, 0, 32), damaged, "'a' and 'b' overlap");
  refused(Writer().Entry("a", {4}, 0, 0).Entry("a", {4}, 0, 32), damaged, "'a' occurs twice");
  refused(Writer().Entry(std::string(300, 'x'), {4}, 0, 0), damaged, "name of tensor 0");
}

TEST_F(GgufReaderTest, SanitisesNamesInMessages) {
  ExpectRefused(Writer().Entry("a\n\x1b[2J", {}, 0, 0).Data(std::string(64, '\0')).Finish(), StatusCode::kCorruption,
                "'a\\x0a\\x1b[2J'");
}

TEST(RealModelGguf, Opens) {
  const char* path = std::getenv("RINGSIDE_TEST_MODEL");
  if (path == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE(file.value().String("general.architecture").has_value());
  EXPECT_GT(file.value().tensors().size(), 100u);
}

}  // namespace
}  // namespace ringside
