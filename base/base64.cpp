#include "base/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"

namespace ringside {

namespace {

constexpr std::array<bool, 256> kIsDigit = [] {
  std::array<bool, 256> is_digit{};
  for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")) {
    is_digit[static_cast<unsigned char>(c)] = true;
  }
  return is_digit;
}();

}  // namespace

std::optional<std::string> DecodeBase64(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, [](unsigned char c) { return kIsDigit[c]; });
  const auto digits = static_cast<size_t>(end - text.begin());
  const size_t padding = text.size() - digits;
  // EVP_DecodeBlock accepts white space and padding at any place.
  if (text.size() % 4 != 0 || padding > 2 || text.substr(digits).find_first_not_of('=') != std::string_view::npos ||
      text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return std::nullopt;
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size != static_cast<int>(bytes.size())) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string EncodeBase64(std::string_view bytes) {
  CHECK_LE(bytes.size(), size_t{1} << 30);
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock appends a NUL
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

}  // namespace ringside
