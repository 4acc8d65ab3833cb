// The listing of a repository on Hugging Face's hub, and the choice of a model's files from it. Hostile input. Pure.
// THREAD: any.
#pragma once

#include <string_view>

#include "clients/pull/pull_reference.h"
#include "clients/pull/remote_model.h"

namespace ringside::client {

/// Reads the hub's description of a repository with its files (`?blobs=true`). Takes the GGUF file of the reference's
/// quantisation, with all its parts; or, in a repository without one, the folder of safetensors. The files are those of
/// the described commit. Fails with a sentence.
Outcome<RemoteModel> ReadHubListing(const PullReference& reference, const WebUrl& hub, std::string_view text);

}  // namespace ringside::client
