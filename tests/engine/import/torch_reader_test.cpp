// Files of torch.save, and malicious files that resemble them.
#include "engine/import/torch_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/import/archive_reader.h"
#include "tests/engine/files/stored_zip.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using namespace std::string_literals;

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

// A string, and a dictionary of one entry.
std::string Text(const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  return "X" + std::string(reinterpret_cast<const char*>(&size), 4) + text;
}
std::string Dict(const std::string& key, const std::string& value) { return "}" + Text(key) + value + "s"; }
// A float32 tensor in data/0: [rows, cols] from `offset` on.
std::string TensorOf(char rows, char cols, char stride = 0, char offset = 0, const std::string& type = "FloatStorage") {
  const auto number = [](char value) { return "K"s + value; };
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + "ctorch\n" + type + "\n" + Text("0") +
         Text("cpu") + number(6) + "tQ" + number(offset) + number(rows) + number(cols) + "\x86" +
         number(stride != 0 ? stride : cols) + number(1) + "\x86\x89" + "ccollections\nOrderedDict\n)RtR";
}
std::string File(const std::string& pickle) {
  return StoredZip(
      {{"m/data.pkl", "\x80\x02" + pickle + "."}, {"m/data/0", std::string(24, '\1')}, {"m/version", "3\n"}});
}
Result<TorchFile> Read(const std::string& archive) { return TorchFile::Read(BytesOf(archive), "file.pt"); }

TEST(TorchFile, ReadsDictionariesAndTensors) {
  const std::string archive = File("}(" + Text("a") + "K\x07" + Text("b") + Dict("c", "G\x3f\xe0\0\0\0\0\0\0"s) +
                                   Text("w") + TensorOf(2, 3) + Text("n") + "N" + Text("list") + "](K\x01K\x02" + "e" +
                                   Text("yes") + "\x88" + Text("long") + "\x8a\x02\x00\xff"s + "u");
  const auto file = Read(archive);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto& values = file->values();
  EXPECT_EQ(std::get<int64_t>(values.at("a")), 7);
  EXPECT_EQ(std::get<double>(values.at("b.c")), 0.5);
  EXPECT_EQ(std::get<bool>(values.at("yes")), true);
  EXPECT_EQ(std::get<int64_t>(values.at("long")), -256);
  const auto& tensor = std::get<FileTensor>(values.at("w"));
  EXPECT_THAT(tensor.shape, ::testing::ElementsAre(2, 3));
  EXPECT_EQ(tensor.data.dtype, DType::kF32);
  EXPECT_EQ(tensor.data.bytes.size(), 24u);
  EXPECT_EQ(values.size(), 5u) << "None and lists are left out";
}

TEST(TorchFile, ExecutesNoCode) {
  // A call that pickle would execute as os.system("...") is read as an opaque value.
  const std::string call = "cos\nsystem\n(" + Text("exit 1") + "tR";
  const auto file = Read(File("}(" + Text("x") + call + Text("y") + "K\x01" + "u"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->values().size(), 1u);
  // Opcodes that torch.save never writes: instances, extensions, strings to be evaluated, other protocols.
  for (const std::string pickle :
       {"(ios\nsystem\n", "\x82\x01", "I1\n", "S'x'\n", "P1\n", "\x95\0\0\0\0\0\0\0\0", "\x93"}) {
    EXPECT_EQ(Read(File(pickle)).status().code(), StatusCode::kCorruption);
  }
}

TEST(TorchFile, RefusesInvalidTorchFiles) {
  const std::pair<std::string, const char*> cases[] = {
      {Dict("w", TensorOf(3, 3)), "tensor 'w' reaches past its data"},
      {Dict("w", TensorOf(2, 3, 3, 1)), "tensor 'w' reaches past its data"},
      {Dict("w", TensorOf(0, 3)), "tensor 'w' has a dimension of 0"},
      {"N", ""},
      {"", "its pickle is damaged"},
      {"s", "its pickle is damaged"},
      {"h\x01", "its pickle is damaged"},
      {"X\xff\xff\xff\xff", "its pickle is damaged"},
      {"t", "its pickle is damaged"},
  };
  for (const auto& [pickle, message] : cases) {
    const auto file = Read(File(pickle));
    if (*message == '\0') continue;
    EXPECT_EQ(file.status().code(), StatusCode::kCorruption) << message;
    EXPECT_THAT(file.status().message(), HasSubstr(message));
    EXPECT_THAT(file.status().message(), HasSubstr("file.pt"));
  }
  const auto strided = Read(File(Dict("w", TensorOf(2, 2, 3))));
  EXPECT_EQ(strided.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(strided.status().message(), HasSubstr("tensor 'w' is not contiguous"));
  EXPECT_TRUE(Read(File(Dict("w", TensorOf(2, 3, 0, 0, "LongStorage"))))->values().empty());
}

// One string of a mebibyte under many names: each reference is a copy.
TEST(TorchFile, RepeatedLongTextIsNotCopied) {
  std::string pickle = "}(" + Text("a") + Text(std::string(1 << 20, 'x')) + "q\x01";
  for (int i = 0; i < 100; ++i) pickle += Text(std::to_string(i)) + "h\x01";
  const auto file = Read(File(pickle + "u"));
  EXPECT_EQ(file.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(file.status().message(), HasSubstr("after shared references are expanded"));
}

// A dictionary that contains the previous one twice, and so on: 2^n values in n entries.
TEST(TorchFile, LimitsExpansion) {
  std::string pickle = Dict("a", "K\x01") + "q\x01";
  for (int i = 0; i < 15; ++i) {
    std::string twice = "}(";
    for (char key = 'a'; key < 'l'; ++key) twice += Text(std::string(1, key)) + "h\x01";
    pickle += twice + "uq\x01";
  }
  const auto file = Read(File(pickle));
  EXPECT_EQ(file.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(file.status().message(), HasSubstr("after shared references are expanded"));
  // One in itself ends at some depth.
  EXPECT_TRUE(Read(File("}q\x01" + Text("a") + "h\x01s")).ok());
}

TEST(Archives, ReadsValidAndRefusesInvalidArchives) {
  const std::string zip = StoredZip({{"a", "one"}, {"b/c", ""}});
  const auto members = ReadZip(BytesOf(zip), "z");
  ASSERT_TRUE(members.ok()) << members.status().ToString();
  EXPECT_EQ(members->size(), 2u);
  EXPECT_EQ(members->at("a").size(), 3u);
  EXPECT_EQ(ReadZip(BytesOf(StoredZip({{"a", "one"}}, 8)), "z").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ReadZip(BytesOf(StoredZip({{"a", "1"}, {"a", "2"}})), "z").status().message(), HasSubstr("twice"));
  for (size_t size = 0; size < zip.size(); ++size) {
    const std::string cut = zip.substr(0, size);
    EXPECT_EQ(ReadZip(BytesOf(cut), "z").status().code(), StatusCode::kCorruption) << size;
  }
  EXPECT_THAT(ReadTar(BytesOf("\x1f\x8b gzip"), "t").status().message(), HasSubstr("unpack it with gunzip"));
  EXPECT_EQ(ReadTar(BytesOf(std::string(1024, 'x')), "t").status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace ringside
