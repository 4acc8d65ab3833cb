// The pre-tokenizers named by `tokenizer.ggml.pre`. Pure functions. THREAD: any.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/text/pipeline/steps.h"
#include "engine/text/tokenizer.h"

namespace ringside {

struct GgufPreTokenizer {
  std::vector<NormaliserStep> normaliser;
  std::vector<PreTokenizerStep> steps;
  bool on_characters = false;  // its vocabulary is spelled in characters, not in bytes
  bool ignore_merges = false;
  bool begins = false;  // default of add_bos_token
};

/// nullopt for an unknown name. Where the models' own tokenizer.json and llama.cpp differ, the steps are those of
/// tokenizer.json.
std::optional<GgufPreTokenizer> FindGgufPreTokenizer(std::string_view name);

/// The name implied by an architecture, for older files without one; "default" if unknown.
std::string_view GgufPreTokenizerOf(std::string_view architecture);

/// The name of the steps in `data`; nullopt if they have none.
std::optional<std::string_view> NameGgufPreTokenizer(const TokenizerData& data);

}  // namespace ringside
