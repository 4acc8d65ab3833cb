// The server's certificate, read at start and on Reload. Owned by the App.
// THREAD: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"

namespace ringside {

class TlsContext;

class TlsCertificate {
 public:
  /// `certificate_file`: certificate and chain in PEM; `key_file`: the private key in PEM, "" = in the certificate
  /// file.
  /// ERRORS: kInvalidArgument, naming the file, if a file is unusable or the key does not match.
  static Result<std::unique_ptr<TlsCertificate>> Open(const std::string& certificate_file, const std::string& key_file);
  ~TlsCertificate();

  /// Reads the files again for later handshakes. On an error nothing changes.
  Status Reload();
  /// The context for a new handshake; the caller keeps it as long as it is needed.
  std::shared_ptr<const TlsContext> current() const;

 private:
  TlsCertificate(std::string certificate_file, std::string key_file);

  const std::string certificate_file_, key_file_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> context_;
};

}  // namespace ringside
