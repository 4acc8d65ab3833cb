// Finds the files of a model on Hugging Face's hub, in Ollama's registry, or at a URL: what to download, its sizes and
// digests. Blocking. THREAD: any.
#pragma once

#include "clients/pull/http_get.h"
#include "clients/pull/pull_reference.h"
#include "clients/pull/remote_model.h"

namespace ringside::client {

/// Asks the hub at $HF_ENDPOINT (https://huggingface.co) for a repository's files. Takes the GGUF file of the
/// reference's quantisation, with all its parts; or, in a repository without one, the folder of safetensors.
Outcome<RemoteModel> FindOnHub(const PullReference& reference, const WebAccess& access);

/// Reads the manifest of a model in the registry at $OLLAMA_REGISTRY (https://registry.ollama.ai).
Outcome<RemoteModel> FindInOllamaRegistry(const PullReference& reference, const WebAccess& access);

/// The GGUF file, or all parts of the split model, at a URL. `sha256` may be empty. Sends no request.
Outcome<RemoteModel> FindAtUrl(const PullReference& reference, const std::string& sha256);

}  // namespace ringside::client
