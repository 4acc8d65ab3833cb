// The server's certificate: read at the start and again when it is asked for. Owned by the App; any thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace ringside {

class TlsContext;

class TlsCertificate {
 public:
  /// `certificate_file`: the certificate and what leads from it to its authority, in PEM; `key_file` likewise, "" = in
  /// the same file. kInvalidArgument, naming the file, if they cannot be used or do not belong together.
  static Result<std::unique_ptr<TlsCertificate>> Open(const std::string& certificate_file, const std::string& key_file);
  ~TlsCertificate();

  /// Reads the files again, for the handshakes to come. If they cannot be used nothing changes.
  Status Reload();
  /// What a handshake that begins now uses, for as long as it is held.
  std::shared_ptr<const TlsContext> current() const;

 private:
  TlsCertificate(std::string certificate_file, std::string key_file);

  const std::string certificate_file_, key_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> context_;
};

}  // namespace ringside
