// A model on a web server: its files, and the place where it belongs on this machine. Plain data. THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clients/pull/file_digest.h"
#include "clients/pull/web_url.h"

namespace ringside::client {

struct RemoteFile {
  std::string name;  // IsPlainFileName
  WebUrl url;
  std::optional<uint64_t> size;  // if known before the download
  ExpectedDigest digest;
};

struct RemoteModel {
  std::string name;    // for messages: "Qwen/Qwen3-4B-GGUF"
  std::string target;  // path below the models' folder, of a file, or of a folder that holds all files
  bool is_folder = false;
  bool is_on_hub = false;  // Hugging Face's: the token is sent
  std::vector<RemoteFile> files;

  /// The path for --model: a split model is named by its first part.
  std::string LoadPath() const {
    const bool split = is_folder && files.front().name.ends_with(".gguf");
    return split ? target + "/" + files.front().name : target;
  }
};

}  // namespace ringside::client
