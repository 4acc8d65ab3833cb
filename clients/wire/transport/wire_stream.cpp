#include "clients/wire/transport/wire_stream.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <filesystem>

namespace ringside::client {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

bool IsAddress(const std::string& host) {
  in6_addr any{};
  return inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

}  // namespace

std::string TrustSystem(ssl::context& context, const std::string& own_folder, const std::vector<std::string>& files) {
  std::error_code unreadable;
  if (std::filesystem::exists(own_folder, unreadable)) return {};
  for (const std::string& file : files) {
    error_code failed;
    context.load_verify_file(file, failed);
    if (!failed) return file;
  }
  return {};
}

struct WireStream::Tls {
  Tls(boost::beast::tcp_stream& tcp, const ServerUrl& where)
      : url(where), context(Context(where)), stream(tcp, context) {
    error_code ignored;
    stream.set_verify_mode(url.insecure ? ssl::verify_none : ssl::verify_peer, ignored);
    if (!url.insecure) stream.set_verify_callback(ssl::host_name_verification(url.host), ignored);
    // SNI must not contain an IP address.
    if (!IsAddress(url.host)) SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str());
  }

  ssl::context Context(const ServerUrl& where) {
    ssl::context made(ssl::context::tls_client);
    made.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                     ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
    error_code ignored;
    // Unreadable authorities must not disable verification: the handshake fails with this message.
    if (!where.ca_file.empty()) {
      made.load_verify_file(where.ca_file, unreadable);
      return made;
    }
    made.set_default_verify_paths(ignored);  // also reads SSL_CERT_FILE and SSL_CERT_DIR
    TrustSystem(made, X509_get_default_cert_dir(), kAuthorityFiles);
    return made;
  }

  const ServerUrl url;
  error_code unreadable;
  ssl::context context;
  ssl::stream<boost::beast::tcp_stream&> stream;
};

WireStream::WireStream(boost::asio::io_context& context, const ServerUrl& url) : tcp_(context) {
  if (url.tls) tls_ = std::make_unique<Tls>(tcp_, url);
}
WireStream::~WireStream() = default;

void WireStream::Handshake(std::function<void(error_code)> done) {
  if (!tls_) return boost::asio::post(get_executor(), [done = std::move(done)] { done({}); });
  tls_->stream.async_handshake(ssl::stream_base::client, std::move(done));
}

std::string WireStream::Explain(const error_code& error) const {
  if (!tls_ || error.category() != boost::asio::error::get_ssl_category()) return error.message();
  if (tls_->unreadable) return "cannot read the CA certificates in \"" + tls_->url.ca_file + "\"";
  const long verdict = SSL_get_verify_result(tls_->stream.native_handle());
  if (verdict == X509_V_OK) return "no TLS connection: " + error.message();
  return std::string("the server's certificate is not trusted: ") + X509_verify_cert_error_string(verdict) +
         "; name its authority with --cacert";
}

void WireStream::TlsRead(boost::asio::mutable_buffer buffer, Completion done) {
  tls_->stream.async_read_some(buffer, std::move(done));
}

void WireStream::TlsWrite(boost::asio::const_buffer buffer, Completion done) {
  tls_->stream.async_write_some(buffer, std::move(done));
}

void WireStream::Shutdown(std::function<void(error_code)> done) { tls_->stream.async_shutdown(std::move(done)); }

}  // namespace ringside::client
