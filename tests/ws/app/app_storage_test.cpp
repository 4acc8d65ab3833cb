#include "ws/app/app_storage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace ringside {
namespace {

class ExportKeyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ringside_export_key_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string Key(const ServerConfig& config) {
    const Result<SealKey> key = OpenExportKey(config, nullptr);
    return key.ok() ? std::string(key->bytes()) : key.status().message();
  }

  std::filesystem::path folder_;
};

TEST_F(ExportKeyTest, IsNextToTheStore) {
  ServerConfig config;
  config.store_path = folder_;
  const std::string key = Key(config);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "export.key"));
  EXPECT_EQ(Key(config), key);
  ServerConfig sharing;
  sharing.export_key_file = folder_ / "export.key";
  EXPECT_EQ(Key(sharing), key);
}

TEST_F(ExportKeyTest, IsPerProcessWithoutAStore) {
  ServerConfig config;
  EXPECT_NE(Key(config), Key(config));
  config.store_path = folder_;
  config.durability = StoreDurability::kNone;
  EXPECT_NE(Key(config), Key(config));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ExportKeyTest, NamesAFileThatCannotBeCreated) {
  ServerConfig config;
  config.export_key_file = "/nowhere/key";
  EXPECT_TRUE(Key(config).starts_with("--export-key-file: cannot make \"/nowhere/key\"")) << Key(config);
}

}  // namespace
}  // namespace ringside
