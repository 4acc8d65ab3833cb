// The names of models on the web that `ringside pull` takes. Pure. THREAD: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "clients/pull/web_url.h"

namespace ringside::client {

struct PullReference {
  enum class Kind {
    kHub,     // hf:OWNER/REPO[:QUANTISATION], or the URL of a file or repository there
    kOllama,  // NAME[:TAG] or OWNER/NAME[:TAG]
    kUrl,
  };
  Kind kind = Kind::kOllama;
  std::string owner, name;        // kHub, kOllama
  std::string variant;            // quantisation or file name without ending, "" = any; tag
  std::string revision = "main";  // kHub
  WebUrl url;                     // kUrl

  /// "Qwen/Qwen3-4B-GGUF", "qwen3:4b", the URL: for messages.
  std::string Describe() const;
  /// Below the models' folder: OWNER/NAME, where a repository's models are (kHub), or the file of the model (kOllama).
  std::string Place() const;
};

/// Fails with a sentence for a text that is no reference.
Outcome<PullReference> ParsePullReference(std::string_view text);

}  // namespace ringside::client
