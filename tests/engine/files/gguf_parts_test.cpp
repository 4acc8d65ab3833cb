// A model in several GGUF files: any part's name opens the whole model, and errors name foreign parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/files/gguf_reader.h"
#include "tests/engine/files/gguf_file_writer.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using Writer = GgufFileWriter;

class GgufParts : public ::testing::Test {
 protected:
  GgufParts() {
    std::string pattern = ::testing::TempDir() + "/gguf_parts.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~GgufParts() override { std::filesystem::remove_all(folder_); }

  std::string Name(int part, int count = 3) const {
    char name[64];
    std::snprintf(name, sizeof name, "/m-%05d-of-%05d.gguf", part, count);
    return folder_ + name;
  }
  // The keys of a part, numbered from 1, as gguf-split writes them.
  static Writer Part(int part, int count = 3, int tensors = 4) {
    Writer writer;
    if (part == 1) writer.String("general.architecture", "llama").String("general.name", "ring");
    writer.Key("split.no", 2, Writer::Bytes(static_cast<uint16_t>(part - 1)));
    writer.Key("split.count", 2, Writer::Bytes(static_cast<uint16_t>(count)));
    writer.Key("split.tensors.count", 5, Writer::Bytes(int32_t{tensors}));
    return writer;
  }
  static void Write(const std::string& path, const Writer& writer) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << writer.Finish();
  }
  void WriteAll() {
    Write(Name(1), Part(1).Ones("a", {4}));
    Write(Name(2), Part(2).Ones("b", {2, 2}).Tensor("c", {32}, 8, std::string(34, 'q')));
    Write(Name(3), Part(3).Ones("d", {1}));
  }
  void ExpectRefused(int named, StatusCode code, const std::string& message) {
    const auto file = GgufFile::Open(Name(named));
    ASSERT_FALSE(file.ok()) << message;
    EXPECT_EQ(file.status().code(), code) << file.status().ToString();
    EXPECT_THAT(file.status().message(), HasSubstr(message));
  }

  std::string folder_;
};

TEST_F(GgufParts, AnyPartOpensTheWholeModel) {
  WriteAll();
  for (int part = 1; part <= 3; ++part) {
    const auto file = GgufFile::Open(Name(part));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->String("general.name"), "ring");
    ASSERT_EQ(file->tensors().size(), 4u);
    std::string names;
    for (const FileTensor& tensor : file->tensors()) names += tensor.name;
    EXPECT_EQ(names, "abcd");
    EXPECT_EQ(file->tensors()[2].data.bytes.size(), 34u);
    EXPECT_EQ(file->tensors()[2].data.bytes[0], std::byte{'q'});
  }
}

TEST_F(GgufParts, AcceptsLinksAndSinglePartFiles) {
  WriteAll();
  std::filesystem::rename(Name(2), folder_ + "/blob");
  std::filesystem::create_symlink(folder_ + "/blob", Name(2));
  EXPECT_TRUE(GgufFile::Open(Name(2)).ok());
  Write(folder_ + "/whole.gguf", Part(1, 1, 1).Ones("a", {4}));
  EXPECT_TRUE(GgufFile::Open(folder_ + "/whole.gguf").ok());
  Write(folder_ + "/merged.gguf", Part(1, 0, 1).Ones("a", {4}));
  EXPECT_TRUE(GgufFile::Open(folder_ + "/merged.gguf").ok());
}

TEST_F(GgufParts, NamesAMissingPart) {
  for (int missing = 1; missing <= 3; ++missing) {
    WriteAll();
    std::filesystem::remove(Name(missing));
    const std::string part = "part " + std::to_string(missing) + " of 3 is missing";
    ExpectRefused(missing == 2 ? 3 : 2, StatusCode::kNotFound, Name(missing) + ": " + part);
  }
}

TEST_F(GgufParts, NamesADuplicatePart) {
  WriteAll();
  std::filesystem::copy_file(Name(1), Name(3), std::filesystem::copy_options::overwrite_existing);
  ExpectRefused(1, StatusCode::kCorruption, Name(3) + ": the file holds part 1 of 3; part 3 is missing");
  ExpectRefused(3, StatusCode::kInvalidArgument, "its name must end in '-00001-of-00003.gguf'");
  WriteAll();
  Write(Name(3), Part(3).Ones("b", {2, 2}));
  ExpectRefused(1, StatusCode::kCorruption, Name(3) + ": tensor 'b' also occurs in an earlier part");
}

TEST_F(GgufParts, NamesAForeignPart) {
  const auto refused = [&](const Writer& other, const std::string& message) {
    WriteAll();
    Write(Name(2), other);
    for (const int named : {1, 3}) ExpectRefused(named, StatusCode::kCorruption, Name(2) + message);
  };
  refused(Writer().Ones("b", {4}), ": this part belongs to another model: its 'split.count' is 1, not 3");
  refused(Part(2, 4).Ones("b", {4}), ": this part belongs to another model: its 'split.count' is 4, not 3");
  refused(Part(2, 3, 9).Ones("b", {4}), ": this part belongs to another model: its 'split.tensors.count' is 9, not 4");
  refused(Part(2).String("general.name", "ding").Ones("b", {4}),
          ": this part belongs to another model: its 'general.name' differs");
}

TEST_F(GgufParts, RefusesPartsWithWrongCounts) {
  WriteAll();
  Write(Name(2), Part(2).Ones("b", {4}));
  ExpectRefused(2, StatusCode::kCorruption, "the 3 parts hold 3 tensors; 'split.tensors.count' is 4");
  Write(Name(2), Part(4).Ones("b", {4}));
  ExpectRefused(2, StatusCode::kCorruption, "claims to be part 4 of 3");
  Write(Name(1, 60000), Part(1, 60000).Ones("a", {4}));
  EXPECT_EQ(GgufFile::Open(Name(1, 60000)).status().code(), StatusCode::kCorruption);
  Write(Name(2), Part(2));
  std::ofstream(Name(3), std::ios::binary | std::ios::trunc) << "GGUF";
  ExpectRefused(1, StatusCode::kCorruption, Name(3) + ": ends inside the header");
}

}  // namespace
}  // namespace ringside
