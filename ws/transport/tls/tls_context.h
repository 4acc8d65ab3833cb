// One loaded certificate as an Asio context. Immutable.
// THREAD: any.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace ringside {

class TlsContext {
 public:
  /// See TlsCertificate::Open.
  static Result<std::shared_ptr<const TlsContext>> Load(const std::string& certificate_file,
                                                        const std::string& key_file);

  boost::asio::ssl::context& asio() const { return *context_; }

 private:
  explicit TlsContext(std::shared_ptr<boost::asio::ssl::context> context) : context_(std::move(context)) {}
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace ringside
