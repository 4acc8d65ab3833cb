#include "ws/transport/tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <string_view>

#include "ws/transport/tls/tls_context.h"

namespace ringside {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

// Cipher suites with forward secrecy and authenticated encryption; TLS 1.3 has no others.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr unsigned char kHttp11[] = "\x08http/1.1";

/// A client that offers ALPN protocols must offer HTTP/1.1; without an offer it speaks HTTP/1.1.
int SelectProtocol(SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* offered,
                   unsigned int offered_bytes, void*) {
  unsigned char* selected = nullptr;
  if (SSL_select_next_proto(&selected, out_bytes, kHttp11, sizeof(kHttp11) - 1, offered, offered_bytes) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = selected;
  return SSL_TLSEXT_ERR_OK;
}

Status Unusable(const std::string& file, const std::string& why) {
  return InvalidArgument("cannot use \"" + file + "\": " + why);
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::Load(const std::string& certificate_file,
                                                           const std::string& key_file) {
  const std::string& key = key_file.empty() ? certificate_file : key_file;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                       ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 | SSL_OP_NO_RENEGOTIATION |
                       SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX* const raw = context->native_handle();
  ERR_clear_error();
  if (SSL_CTX_set_cipher_list(raw, kCiphers) != 1) return Unusable(certificate_file, "no cipher is available");
  SSL_CTX_set_mode(raw, SSL_MODE_RELEASE_BUFFERS);  // connections are mostly idle
  SSL_CTX_set_alpn_select_cb(raw, SelectProtocol, nullptr);
  // An encrypted key must fail instead of prompting on a terminal.
  context->set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  if (context->use_certificate_chain_file(certificate_file, error); error) {
    return Unusable(certificate_file, "it holds no certificate in PEM (" + error.message() + ")");
  }
  if (context->use_private_key_file(key, ssl::context::pem, error); error) {
    return Unusable(key, "it holds no key in PEM of the certificate (" + error.message() + ")");
  }
  if (SSL_CTX_check_private_key(raw) != 1) return Unusable(key, "it is not the key of the certificate");
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(context)));
}

TlsCertificate::TlsCertificate(std::string certificate_file, std::string key_file)
    : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}
TlsCertificate::~TlsCertificate() = default;

Result<std::unique_ptr<TlsCertificate>> TlsCertificate::Open(const std::string& certificate_file,
                                                             const std::string& key_file) {
  std::unique_ptr<TlsCertificate> certificate(new TlsCertificate(certificate_file, key_file));
  RETURN_IF_ERROR(certificate->Reload());
  return certificate;
}

Status TlsCertificate::Reload() {
  ASSIGN_OR_RETURN(std::shared_ptr<const TlsContext> context, TlsContext::Load(certificate_file_, key_file_));
  std::lock_guard lock(mutex_);
  context_ = std::move(context);
  return Status::Ok();
}

std::shared_ptr<const TlsContext> TlsCertificate::current() const {
  std::lock_guard lock(mutex_);
  return context_;
}

}  // namespace ringside
