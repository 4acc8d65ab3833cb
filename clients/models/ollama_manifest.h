// Ollama's manifests: JSON that lists a model's layers by digest. Hostile input. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "clients/wire/outcome.h"

namespace ringside::client {

/// The layer with the model's GGUF file.
struct OllamaLayer {
  std::string sha256;  // 64 hexadecimal digits
  uint64_t size = 0;
};

/// Fails with a phrase about the model if there is no such layer.
Outcome<OllamaLayer> ReadOllamaManifest(std::string_view text);

/// True for 64 lower-case hexadecimal digits.
bool IsSha256(std::string_view text);

}  // namespace ringside::client
