// Files, presets and the clipboard of the REPL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "clients/chat/repl/attached_file.h"
#include "clients/chat/repl/clipboard.h"
#include "clients/chat/repl/presets.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(AttachedFile, RefusesWhatIsNotText) {
  for (const std::string& bytes :
       {std::string("a\0b", 3), std::string("\xff\xfe"), std::string("\x7f\x45\x4c\x46\x01")}) {
    const Outcome<AttachedFile> file = AttachText("a.bin", bytes);
    ASSERT_FALSE(file);
    EXPECT_THAT(file.failure().message, HasSubstr("a.bin is a binary file"));
  }
  EXPECT_THAT(AttachText("a", " \n").failure().message, HasSubstr("empty"));
  EXPECT_THAT(AttachText("a", std::string(kMostAttachedBytes + 1, 'x')).failure().message, HasSubstr("1000 KB"));
  EXPECT_TRUE(AttachText("a", std::string(kMostAttachedBytes, 'x')));
}

TEST(AttachedFile, RefusesWhatIsNoFile) {
  EXPECT_THAT(ReadTextFile("/no/such/file").failure().message, HasSubstr("No such file"));
  EXPECT_THAT(ReadTextFile("/dev/zero").failure().message, HasSubstr("not a regular file"));
  EXPECT_THAT(ReadTextFile("/").failure().message, HasSubstr("not a regular file"));
}

TEST(AttachedFile, AnImageIsADataUrl) {
  const std::string path = std::string(::testing::TempDir()) + "/a.png";
  std::ofstream(path) << "\x89PNG\r\n\x1A\nabc";
  const size_t most = MostImageBytes(0);
  const Outcome<AttachedFile> file = ReadImageFile(path, most);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->name, "a.png");
  EXPECT_EQ(file->image, "data:image/png;base64,iVBORw0KGgphYmM=");
  EXPECT_EQ(WithFiles("What?", {*file}), "What?");
  std::vector<AttachedFile> files;
  EXPECT_THAT(AttachImage(path, most, &files), HasSubstr("Attached the image a.png"));
  ASSERT_EQ(ImagesOf(files).size(), 1U);
  std::ofstream(path) << "GIF89a";
  EXPECT_THAT(AttachImage(path, most, &files), HasSubstr("not a PNG, JPEG or WebP"));
  std::ofstream(path) << "\xFF\xD8\xFF" << std::string(most, 'x');
  EXPECT_THAT(AttachImage(path, most, &files), HasSubstr("larger than 3.0 MB"));
  EXPECT_EQ(files.size(), 1U);
}

// Base64 has four characters for three bytes; 4 MiB are left for text if the server takes more.
TEST(AttachedFile, ImagesFillTheServersRequests) {
  EXPECT_EQ(MostImageBytes(0), MostImageBytes(4 << 20)) << "the limit of servers that do not report theirs";
  EXPECT_EQ(MostImageBytes(4 << 20), size_t{(4 << 20) - (64 << 10)} / 4 * 3);
  EXPECT_EQ(MostImageBytes(6 << 20), MostImageBytes(4 << 20));
  EXPECT_EQ(MostImageBytes(32 << 20), size_t{28 << 20} / 4 * 3);
  EXPECT_EQ(MostImageBytes(1), 0U);
  const std::string path = std::string(::testing::TempDir()) + "/large-" + std::to_string(::getpid()) + ".jpg";
  std::ofstream(path) << "\xFF\xD8\xFF" << std::string(7'000'000, 'x');
  std::vector<AttachedFile> files;
  const size_t most = MostImageBytes(32 << 20);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(AttachImage(path, most, &files), HasSubstr("Attached the image"));
  EXPECT_THAT(AttachImage(path, most, &files), HasSubstr("may have 22.0 MB in all"));
  std::ofstream(path) << "\xFF\xD8\xFF" << std::string(20 << 20, 'x');
  EXPECT_THAT(AttachImage(path, most, &files), HasSubstr("larger than 20.9 MB")) << "the limit of one file";
  EXPECT_EQ(files.size(), 3U);
  std::filesystem::remove(path);
}

TEST(AttachedFile, ImagesAreListedAndDropped) {
  const std::string folder = std::string(::testing::TempDir()) + "/images-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  for (const char* name : {"/a.png", "/b.jpg"}) {
    std::ofstream(folder + name) << (name[1] == 'a' ? "\x89PNG\r\n\x1A\n" : "\xFF\xD8\xFF");
  }
  const size_t most = MostImageBytes(0);
  std::vector<AttachedFile> files = {{"notes.txt", "text"}};
  EXPECT_THAT(AttachImage("", most, &files), HasSubstr("/image FILE attaches"));
  AttachImage(folder + "/b.jpg", most, &files);
  AttachImage(folder + "/a.png", most, &files);
  EXPECT_THAT(AttachImage("", most, &files), HasSubstr("b.jpg, a.png. /image - drops them"));
  EXPECT_THAT(ImagesOf(files), ElementsAre("data:image/jpeg;base64,/9j/", "data:image/png;base64,iVBORw0KGgo="));
  EXPECT_THAT(AttachImage(folder + "/none.png", most, &files), HasSubstr("/none.png: No such file"));
  EXPECT_THAT(AttachImage(folder, most, &files), HasSubstr("not a regular file"));
  std::ofstream(folder + "/a.png") << "\x89PNG\r\n\x1A\n" << std::string(most * 2 / 3, 'x');
  AttachImage(folder + "/a.png", most, &files);
  EXPECT_THAT(AttachImage(folder + "/a.png", most, &files), HasSubstr("may have 3.0 MB in all"));
  EXPECT_EQ(files.size(), 4U);
  EXPECT_THAT(AttachImage("-", most, &files), HasSubstr("No image"));
  EXPECT_EQ(files.size(), 1U) << "the text stays";
  std::filesystem::remove_all(folder);
}

TEST(AttachedFile, PathsMayBeQuoted) {
  const std::string folder = std::string(::testing::TempDir()) + "/paths-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const char* const home = std::getenv("HOME");
  const std::string before = home != nullptr ? home : "";
  const size_t most = MostImageBytes(0);
  ::setenv("HOME", folder.c_str(), 1);
  for (const char* name : {"/my cat.png", "/'quoted'.png"}) std::ofstream(folder + name) << "\x89PNG\r\n\x1A\n";
  for (const std::string& argument :
       {folder + "/my cat.png", '"' + folder + "/my cat.png\"", '\'' + folder + "/my cat.png'",
        folder + "/my\\ cat.png", std::string("~/my cat.png"), std::string("\"~/my cat.png\""),
        std::string("~/my\\ cat.png")}) {
    const Outcome<AttachedFile> file = ReadImageFile(argument, most);
    ASSERT_TRUE(file) << argument << ": " << file.failure().message;
    EXPECT_EQ(file->name, "my cat.png");
  }
  const Outcome<AttachedFile> quoted = ReadImageFile(folder + "/'quoted'.png", most);
  ASSERT_TRUE(quoted) << "quotes in a name are part of it";
  EXPECT_EQ(quoted->name, "'quoted'.png");
  for (const char* argument : {"\"", "\"\"", "\\", "'~/none.png'"})
    EXPECT_FALSE(ReadImageFile(argument, most)) << argument;
  ::setenv("HOME", before.c_str(), 1);
  std::filesystem::remove_all(folder);
}

TEST(AttachedFile, IsWrittenAsThePageWritesIt) {
  const Outcome<AttachedFile> file = AttachText("a\x1b[31m b\nc.md", "one\r\n```\ntwo\n");
  ASSERT_TRUE(file);
  EXPECT_EQ(WithFiles("Why?", {*file}), "Why?\n\nFile: " + file->name + "\n````\none\n```\ntwo\n````");
  EXPECT_EQ(file->name.find_first_of("\n\x1b"), std::string::npos);
  EXPECT_EQ(WithFiles(" ", {{"a", "````"}}), "File: a\n`````\n````\n`````");
}

TEST(Clipboard, AsksTheTerminal) {
  EXPECT_EQ(CopySequence(""), "\x1b]52;c;\x07");
  EXPECT_EQ(CopySequence("a"), "\x1b]52;c;YQ==\x07");
  EXPECT_EQ(CopySequence("ab"), "\x1b]52;c;YWI=\x07");
  EXPECT_EQ(CopySequence("ab\xff"), "\x1b]52;c;YWL/\x07");
}

TEST(Clipboard, FeedsACommand) {
  const std::string path = std::string(::testing::TempDir()) + "/clip";
  EXPECT_TRUE(FeedCommand("tee " + path, "a\nb"));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "a\nb");
  EXPECT_FALSE(FeedCommand("exit 1", "a"));
  EXPECT_FALSE(FeedCommand("exit 0", std::string(1 << 20, 'x'))) << "it did not read the text";
}

TEST(Presets, SurviveTheirFile) {
  Preset preset{"Be kind.", "m", {}};
  ASSERT_TRUE(preset.settings.Set("temperature", "0.5"));
  ASSERT_TRUE(preset.settings.Set("stop", "[\"a\",\"b\"]"));
  ASSERT_TRUE(preset.settings.Set("think", "low"));
  const Presets read = ParsePresets(WritePresets({{"kind", preset}}));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read.at("kind").system, "Be kind.");
  EXPECT_EQ(read.at("kind").model, "m");
  EXPECT_EQ(read.at("kind").settings.Fields(), preset.settings.Fields());
}

TEST(Presets, LeaveOutWhatDoesNotFit) {
  EXPECT_TRUE(ParsePresets("").empty());
  EXPECT_TRUE(ParsePresets("[1]").empty());
  EXPECT_TRUE(ParsePresets(R"({"a b":{},"":{},"c":1})").empty());
  const Presets read =
      ParsePresets(R"({"a":{"system":1,"settings":{"temperature":"9","top_k":"4","x":"y","min_p":0}}})");
  EXPECT_THAT(read.at("a").settings.Given(), ElementsAre(Pair("top_k", "4")));
}

TEST(Presets, AreStoredForTheUser) {
  const std::string folder = std::string(::testing::TempDir()) + "/presets-" + std::to_string(::getpid());
  ::setenv("XDG_STATE_HOME", folder.c_str(), 1);
  EXPECT_TRUE(LoadPresets().contains("brief"));
  EXPECT_TRUE(SavePreset("mine", {"Be kind.", "", {}}));
  EXPECT_FALSE(SavePreset("two words", {}));
  EXPECT_EQ(LoadPresets().at("mine").system, "Be kind.");
  EXPECT_EQ(std::filesystem::status(folder + "/ringside/presets.json").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(DeletePreset("brief")) << "it is built in";
  EXPECT_TRUE(DeletePreset("mine"));
  EXPECT_FALSE(LoadPresets().contains("mine"));
  std::ofstream(folder + "/ringside/presets.json") << "{damaged";
  EXPECT_TRUE(LoadPresets().contains("brief"));
  ::unsetenv("XDG_STATE_HOME");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringside::client
