// A temporary folder for a tokenizer's files. THREAD: tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/text/tokenizer.h"

namespace ringside {

class TokenizerFolder {
 public:
  TokenizerFolder() {
    std::string pattern = ::testing::TempDir() + "/tokenizer.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TokenizerFolder() { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name, std::ios::binary) << text;
  }
  const std::string& path() const { return path_; }
  Result<TokenizerData> Read() const { return ReadHuggingFaceTokenizer(path_); }

 private:
  std::string path_;
};

}  // namespace ringside
