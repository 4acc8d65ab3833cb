// The download of a model into the models' folder. Its files arrive in a hidden folder beside it, and one rename puts
// the whole verified model in its place: no program can load a part. THREAD: main.
#pragma once

#include <string>

#include "clients/pull/file_download.h"
#include "clients/pull/remote_model.h"

namespace ringside::client {

/// Downloads the files that are not there yet. Returns the path for --model. Fails with a sentence; the next call
/// continues. A lock excludes a second call for the same model. REQUIRES: `folder` is ModelsFolder() or like it.
Outcome<std::string> DownloadModel(const std::string& folder, const RemoteModel& model, const DownloadOptions& options,
                                   ProgressLine& progress);

}  // namespace ringside::client
