// Names of the models below a folder: unique, found in several spellings, never a path; files that cannot be loaded,
// and files that come and go.
#include "ws/models/model_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/golden_folder.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class ModelListTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = fs::temp_directory_path() / ("models-" + std::to_string(::getpid()));
    fs::remove_all(root);
    fs::create_directories(root / "a");
    fs::create_directories(root / "b");
  }
  void TearDown() override { fs::remove_all(root); }
  void Copy(const std::string& to) {
    fs::copy_file(GoldenFolder("gguf_q8_0") + "/model.gguf", root / to, fs::copy_options::overwrite_existing);
  }
  std::unique_ptr<ModelList> Make(std::vector<std::string> aliases = {}) {
    return std::make_unique<ModelList>(root.string(), std::move(aliases),
                                       std::move(MakeCpuBackend({.threads = 1}).value()));
  }
  static std::vector<std::string> Names(ModelList& list) {
    std::vector<std::string> names;
    for (const ListedModel& model : list.All()) names.push_back(model.name);
    return names;
  }

  fs::path root;
};

TEST_F(ModelListTest, NamesAreUnique) {
  Copy("a/x.gguf");
  Copy("b/x.gguf");
  Copy("b/Y.gguf");
  const auto list = Make();
  ASSERT_TRUE(list->Open().ok());
  EXPECT_THAT(Names(*list), ElementsAre("Y", "a/x", "b/x"));
  EXPECT_EQ(list->Find("a/x", "model")->path, root / "a/x.gguf");
  EXPECT_EQ(list->Find("y:latest", "model")->name, "Y");
  EXPECT_EQ(list->Find("x", "model").status().reason(), "model_not_found");  // two have it
}

TEST_F(ModelListTest, NamesAreNoPaths) {
  Copy("a/x.gguf");
  Copy("b/x.gguf");
  const auto list = Make({"gpt-*"});
  ASSERT_TRUE(list->Open().ok());
  list->SetDefault("a/x");
  for (const std::string& name :
       {std::string("../") + root.filename().string() + "/a/x", (root / "a/x.gguf").string(), std::string("a/x.gguf"),
        std::string("./a/x"), std::string("a/x\0b", 5), std::string(1 << 20, 'x')}) {
    EXPECT_EQ(list->Find(name, "model").status().reason(), "model_not_found") << name.substr(0, 99);
  }
  EXPECT_EQ(list->Find("", "model")->name, "a/x");
  EXPECT_EQ(list->Find("gpt-4o", "model")->name, "a/x");
}

TEST_F(ModelListTest, UnsupportedFileIsListedAndRefusedByName) {
  Copy("a/x.gguf");
  std::ofstream(root / "b/broken.gguf") << "GGUF nonsense that is no model";
  const auto list = Make();
  ASSERT_TRUE(list->Open().ok());
  EXPECT_THAT(Names(*list), ElementsAre("broken", "x"));
  const Status refused = list->Find("broken", "model").status();
  EXPECT_EQ(refused.reason(), "model_unsupported");
  EXPECT_THAT(refused.message(), HasSubstr("'broken'"));
  EXPECT_THAT(refused.message(), Not(HasSubstr(root.string())));  // the client learns no paths
}

TEST_F(ModelListTest, FolderIsReadAgainForAnUnknownName) {
  Copy("a/x.gguf");
  const auto list = Make();
  ASSERT_TRUE(list->Open().ok());
  fs::remove(root / "a/x.gguf");
  const Status removed = list->Find("x", "model").status();
  EXPECT_EQ(removed.reason(), "model_not_found");
  EXPECT_THAT(removed.message(), HasSubstr("removed"));
}

TEST_F(ModelListTest, EmptyFolderIsRefused) {
  EXPECT_EQ(Make()->Open().code(), StatusCode::kInvalidArgument);
  root += "-missing";
  EXPECT_EQ(Make()->Open().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside
