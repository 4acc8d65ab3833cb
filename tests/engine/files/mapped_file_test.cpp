#include "engine/files/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ringside {
namespace {

using ::testing::HasSubstr;

class MappedFileTest : public ::testing::Test {
 protected:
  ~MappedFileTest() override { std::filesystem::remove(path_); }

  Status Opened(std::string_view content) {
    std::ofstream(path_, std::ios::binary) << content;
    return MappedFile::Open(path_).status();
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("ringside_mapped_" + std::to_string(getpid()))).string();
};

TEST_F(MappedFileTest, RefusesWhatAFailedDownloadLeaves) {
  const Status pointer = Opened("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  EXPECT_EQ(pointer.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(pointer.message(), HasSubstr(path_ + ": a Git LFS pointer"));
  EXPECT_THAT(pointer.message(), HasSubstr("git lfs pull"));
  for (const char* page : {"<!DOCTYPE html>\n<html>", "\n <html lang=\"en\">", "<!doctype HTML>"}) {
    EXPECT_THAT(Opened(page).message(), HasSubstr("a web page, not the file")) << page;
  }
}

TEST_F(MappedFileTest, OpensEverythingElse) {
  for (const char* content : {"", " ", "<", "<htm", "version https://git-lfs.github.com", "{}"}) {
    EXPECT_TRUE(Opened(content).ok()) << content;
  }
}

}  // namespace
}  // namespace ringside
