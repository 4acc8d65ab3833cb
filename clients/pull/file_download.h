// The download of one file, which continues where an earlier one ended. The bytes are in PATH; until the digest is
// verified nothing but this class reads them. PATH.etag holds the version that they belong to. THREAD: one.
#pragma once

#include <string>

#include "clients/pull/http_get.h"
#include "clients/pull/progress_line.h"
#include "clients/pull/remote_model.h"

namespace ringside::client {

struct DownloadOptions {
  WebAccess access;
  int retries = 5;  // in a row without a new byte
};

/// The model of the file.
struct DownloadOrigin {
  std::string model;
  bool is_on_hub = false;
};

/// Ensures that `path` has the whole file, with the expected digest, on disk. Fails with a sentence; bytes that arrived
/// are kept unless they are wrong, and the next call continues.
Outcome<Done> DownloadFile(const RemoteFile& file, const DownloadOrigin& origin, const std::string& path,
                           const DownloadOptions& options, ProgressLine& progress);

/// Fails with a sentence unless the file system of `folder` has room for `bytes` more.
Outcome<Done> CheckSpace(const std::string& folder, uint64_t bytes);

}  // namespace ringside::client
