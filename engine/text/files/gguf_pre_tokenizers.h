// The pre-tokenizers that `tokenizer.ggml.pre` names. Pure functions; any thread.
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
  bool begins = false;  // texts begin with bos where the file does not mention it
};

/// Nothing for an unknown name. Steps are those of the models' own tokenizer.json where these differ from llama.cpp's.
std::optional<GgufPreTokenizer> FindGgufPreTokenizer(std::string_view name);

/// The name that older files of an architecture, which have none, would have; "default" where that is unknown.
std::string_view GgufPreTokenizerOf(std::string_view architecture);

/// A name for what `data` does, or nothing.
std::optional<std::string_view> NameGgufPreTokenizer(const TokenizerData& data);

}  // namespace ringside
