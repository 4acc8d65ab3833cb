#include "engine/files/safetensors_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/files/flat_json.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string File(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &size, 8);
  return out + header + data;
}

class SafeTensorsTest : public ::testing::Test {
 protected:
  SafeTensorsTest() { std::filesystem::create_directories(folder_); }
  ~SafeTensorsTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
  }
  Result<SafeTensors> Open(const std::string& bytes) {
    Write("one.safetensors", bytes);
    return SafeTensors::OpenFile(folder_ + "/one.safetensors");
  }
  void ExpectRefused(const std::string& header, const std::string& message, const std::string& data) {
    const auto file = Open(File(header, data));
    ASSERT_FALSE(file.ok()) << header;
    EXPECT_EQ(file.status().code(), StatusCode::kCorruption) << header;
    EXPECT_THAT(file.status().message(), HasSubstr(message));
    EXPECT_THAT(file.status().message(), HasSubstr("one.safetensors"));
  }
  void ExpectFolderRefused(const std::string& message) {
    const auto file = SafeTensors::OpenFolder(folder_);
    ASSERT_FALSE(file.ok()) << message;
    EXPECT_EQ(file.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(file.status().message(), HasSubstr(message));
  }

  const std::string folder_ = ::testing::TempDir() + "safetensors_test_" + std::to_string(::getpid());
};

const std::string kSound =
    R"({"__metadata__":{"format":"pt"},"b.w":{"dtype":"F32","shape":[2,1,2],"data_offsets":[4,20]},)"
    R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"mask":{"dtype":"BOOL","shape":[],"data_offsets":[20,21]}})";
const std::string kData = "0123456789abcdefghijk";

TEST_F(SafeTensorsTest, ReadsTensorsInOrderOfTheirData) {
  const auto file = Open(File(kSound, kData));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto& tensors = file.value().tensors();
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[0].data.dtype, DType::kBF16);
  EXPECT_EQ(tensors[0].data.rows, 1);
  EXPECT_EQ(tensors[0].data.cols, 2);
  EXPECT_EQ(tensors[1].name, "b.w");
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 1, 2));
  EXPECT_EQ(tensors[1].data.rows, 2);
  EXPECT_EQ(tensors[1].data.cols, 2);
  EXPECT_EQ(std::memcmp(tensors[1].data.bytes.data(), "456789abcdefghij", 16), 0);
  ASSERT_EQ(file.value().others().size(), 1u);
  const OtherTensor& mask = file.value().others().front();
  EXPECT_EQ(mask.name, "mask");
  EXPECT_EQ(mask.type, "BOOL");
  EXPECT_TRUE(mask.shape.empty());
  EXPECT_EQ(mask.bytes.size(), 1u);
}

TEST_F(SafeTensorsTest, RefusesEveryTruncation) {
  const std::string bytes = File(kSound, kData);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto file = Open(bytes.substr(0, size));
    ASSERT_FALSE(file.ok()) << size;
    ASSERT_EQ(file.status().code(), StatusCode::kCorruption) << file.status().ToString();
  }
  EXPECT_FALSE(Open(bytes + "x").ok());
}

TEST_F(SafeTensorsTest, FlippedBitsAreHarmless) {
  const std::string bytes = File(kSound, kData);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto file = Open(damaged);
    if (!file.ok()) continue;
    for (const FileTensor& tensor : file.value().tensors()) {
      ASSERT_EQ(static_cast<int64_t>(tensor.data.bytes.size()),
                StorageBytes(tensor.data.dtype, tensor.data.rows * tensor.data.cols));
    }
  }
}

TEST_F(SafeTensorsTest, RefusesBadEntries) {
  const auto one = [](const std::string& fields) { return R"({"t":{)" + fields + "}}"; };
  const std::string four(4, 'x');
  ExpectRefused(one(R"("shape":[1],"data_offsets":[0,4])"), "'t' has no dtype", four);
  ExpectRefused(one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "unknown dtype 'F31'", four);
  ExpectRefused(one(R"("dtype":"F32","data_offsets":[0,4])"), "no valid shape", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), "no valid shape", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"), "a dimension of 0", "");
  ExpectRefused(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "a dimension of -1", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), "a dimension of", "");
  ExpectRefused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), "no valid data_offsets", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "do not fit its shape", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "do not fit its shape", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "past the end", four);
  ExpectRefused(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "4 bytes before tensor 't'", four + four);
  ExpectRefused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "4 bytes after the last tensor", four + four);
  ExpectRefused(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1)"), "unknown fields", four);
}

TEST_F(SafeTensorsTest, RefusesBadHeaders) {
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const std::string b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]})";
  ExpectRefused("{" + a + "," + b + "}", "'a' and 'b' overlap", "123456");
  ExpectRefused("{" + a + "," + a + "}", "'a' occurs twice", "1234");
  ExpectRefused("{" + a + R"(,"c":5})", "more than tensors", "1234");
  ExpectRefused("[" + std::string(100, '['), "not an object", "");
  ExpectRefused("{\"a\":" + std::string(100, '['), "nested", "");
  ExpectRefused("{", "invalid JSON", "");
  ExpectRefused("", "invalid JSON", "");
  ExpectRefused("{} x", "invalid JSON", "");
  ExpectRefused("\"text\"", "not an object", "");
  ExpectRefused("{\"\xff\": 1}", "invalid JSON", "");
}

TEST_F(SafeTensorsTest, ReadsShards) {
  const auto shard = [](const std::string& name) {
    return File(R"({")" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", name + name + name + name);
  };
  Write("model-1.safetensors", shard("a"));
  Write("model-2.safetensors", shard("b"));
  const auto index = [&](const std::string& map) {
    Write("model.safetensors.index.json", R"({"metadata":{"total_size":8},"weight_map":{)" + map + "}}");
  };
  index(R"("a":"model-1.safetensors","b":"model-2.safetensors")");
  const auto file = SafeTensors::OpenFolder(folder_);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ(file.value().tensors().size(), 2u);
  EXPECT_EQ(file.value().tensors()[1].name, "b");
  EXPECT_EQ(static_cast<char>(file.value().tensors()[1].data.bytes[3]), 'b');

  index(R"("a":"model-1.safetensors","b":"model-1.safetensors")");
  ExpectFolderRefused("'b' is missing");
  index(R"("a":"model-2.safetensors","b":"model-2.safetensors")");
  ExpectFolderRefused("'a' is missing");
  index(R"("a":"model-1.safetensors","b":"model-2.safetensors","c":"model-2.safetensors")");
  ExpectFolderRefused("'c' is missing");
  index(R"("c":"model-1.safetensors","b":"model-2.safetensors")");
  ExpectFolderRefused("'a' of model-1.safetensors is not in the shard that the index names");
  index(R"("a":"../model-1.safetensors")");
  ExpectFolderRefused("not a file of this folder");
  index(R"("a":"/etc/passwd")");
  ExpectFolderRefused("not a file of this folder");
  index(R"("a":7)");
  ExpectFolderRefused("is not a string");
  index("");
  ExpectFolderRefused("names no tensor");
}

TEST_F(SafeTensorsTest, FolderWithoutWeightsIsNotFound) {
  EXPECT_EQ(SafeTensors::OpenFolder(folder_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(SafeTensors::OpenFile(folder_ + "/absent").status().code(), StatusCode::kNotFound);
}

TEST(SafeTensorsFlatJson, GivesScalarsByPath) {
  const auto json = FlatJson::Parse(
      R"({"a":{"b":[1,"x",{"c":null}],"d":true},"e":2.5,"f":-3,"g":18446744073709551615,"h":[],"i":[4,5]})", "test");
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  EXPECT_EQ(json.value().Int("a.b.0"), 1);
  EXPECT_EQ(json.value().String("a.b.1"), "x");
  EXPECT_FALSE(json.value().Has("a.b.2.c"));
  EXPECT_NE(json.value().Find("a.b.2.c"), nullptr);
  EXPECT_EQ(json.value().Bool("a.d"), true);
  EXPECT_EQ(json.value().Float("e"), 2.5);
  EXPECT_EQ(json.value().Int("e"), std::nullopt);
  EXPECT_EQ(json.value().Int("f"), -3);
  EXPECT_EQ(json.value().Float("f"), -3.0);
  EXPECT_EQ(json.value().Int("g"), std::nullopt);
  EXPECT_EQ(json.value().Ints("h"), std::vector<int64_t>());
  EXPECT_EQ(json.value().Ints("i"), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(json.value().Ints("a.b"), std::nullopt);
  EXPECT_EQ(json.value().Ints("a"), std::nullopt);
  EXPECT_EQ(json.value().Find("absent"), nullptr);
}

TEST(SafeTensorsFlatJson, RefusesADuplicatePath) {
  const auto json = FlatJson::Parse(R"({"a.b":1,"a":{"b":2}})", "test");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.status().message(), "test: 'a.b' occurs twice");
}

}  // namespace
}  // namespace ringside
