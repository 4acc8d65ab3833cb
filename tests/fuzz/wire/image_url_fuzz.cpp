// URLs of images and entries of the list of their hosts: any text is refused, or is one origin that has one spelling.
#include "tests/fuzz/fuzz_target.h"
#include "ws/transport/fetch/image_url.h"

namespace ringside {

std::vector<std::string> Seeds() {
  return {"https://example.org/a.png?size=1#part",
          "http://192.0.2.7:8000/",
          "HTTP://[2001:DB8::1]:81?x",
          "example.org:8443",
          "https://user@example.org/",
          "http://2130706433/",
          "//example.org/a",
          "/a.png",
          ""};
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ImageUrl base = ParseImageUrl("https://example.org/a").value();
  for (const Result<ImageUrl>& url : {ParseImageUrl(text), ParseRedirect(base, text)}) {
    if (!url.ok()) continue;
    const WebOrigin& origin = url->origin;
    Require(!origin.host.empty() && origin.port > 0, "an origin is complete");
    Require(origin.host.find_first_of("@/\\?#% \r\n") == std::string::npos, "a host is a name or an address");
    const std::string whole = (origin.tls ? "https://" : "http://") + origin.Authority();
    Require(ParseImageHost(whole).value() == origin, "its own spelling is the same origin");
    Require(url->target.starts_with('/') && url->target.find_first_of(" \r\n#") == std::string::npos,
            "a target fits a request line");
    Require(ParseImageUrl(whole + url->target).value().target == url->target, "a target has one spelling");
  }
  if (const Result<WebOrigin> host = ParseImageHost(text); host.ok()) {
    Require(ParseImageUrl((host->tls ? "https://" : "http://") + host->Authority()).value().origin == *host,
            "a listed host can be asked for");
  }
  (void)IsPublicAddress(text);
  return 0;
}
