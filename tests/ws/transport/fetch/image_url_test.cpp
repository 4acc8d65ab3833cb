// URLs of images, listed hosts, and public addresses.
#include "ws/transport/fetch/image_url.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(ImageUrlTest, ParsesListedHosts) {
  EXPECT_EQ(ParseImageHost("Images.Example.org").value(), (WebOrigin{true, "images.example.org", 443}));
  EXPECT_EQ(ParseImageHost("https://example.org:8443").value(), (WebOrigin{true, "example.org", 8443}));
  EXPECT_EQ(ParseImageHost("http://example.org").value(), (WebOrigin{false, "example.org", 80}));
  EXPECT_EQ(ParseImageHost("http://[0:0::1]:81").value(), (WebOrigin{false, "::1", 81}));
  for (const char* entry : {"", "*", "*.example.org", "example.org/", "example.org/a", "ftp://example.org", "a@b",
                            "a b", "example.org:", "example.org:0", "example.org:65536", "example.org:80x", "[::1",
                            "::1", "[fe80::1%eth0]", "[127.0.0.1]", "https://", "ex\xC3\xA4mple.org"}) {
    EXPECT_FALSE(ParseImageHost(entry).ok()) << entry;
  }
}

TEST(ImageUrlTest, ParsesUrls) {
  const ImageUrl url = ParseImageUrl("HTTPS://Example.org/A%20b.png?x=1&y=//#part").value();
  EXPECT_EQ(url.origin, (WebOrigin{true, "example.org", 443}));
  EXPECT_EQ(url.target, "/A%20b.png?x=1&y=//");
  EXPECT_EQ(ParseImageUrl("http://example.org?x").value().target, "/?x");
  EXPECT_EQ(ParseImageUrl("http://example.org").value().target, "/");
  EXPECT_EQ(ParseImageUrl("http://example.org:81/").value().origin.Authority(), "example.org:81");
  EXPECT_EQ(ParseImageUrl("https://[2001:DB8::1]/").value().origin.Authority(), "[2001:db8::1]");
  for (const char* text :
       {"", "example.org/a", "//example.org/a", "ftp://example.org/a", "data:image/png;base64,AA", "https:///a",
        "https://u@example.org/a", "https://u:p@example.org/a", "https://a.org\\@b.org/", "https://a.org/ b",
        "https://a.org/\r\nX: y", "https://a.org/\x7F", "https://a.org:/"}) {
    EXPECT_FALSE(ParseImageUrl(text).ok()) << text;
  }
  EXPECT_FALSE(ParseImageUrl("https://a.org/" + std::string(9'000, 'a')).ok());
}

TEST(ImageUrlTest, ResolvesRedirects) {
  const ImageUrl from = ParseImageUrl("http://example.org:81/a/b").value();
  EXPECT_EQ(ParseRedirect(from, "/c?d").value().target, "/c?d");
  EXPECT_EQ(ParseRedirect(from, "/c").value().origin, from.origin);
  EXPECT_EQ(ParseRedirect(from, "https://other.org/c").value().origin, (WebOrigin{true, "other.org", 443}));
  for (const char* location : {"", "c", "//other.org/c", "file:///etc/passwd", "../c"}) {
    EXPECT_FALSE(ParseRedirect(from, location).ok()) << location;
  }
}

TEST(ImageUrlTest, KnowsPublicAddresses) {
  for (const char* address :
       {"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "192.167.1.1",
        "223.255.255.255", "2606:4700::1111", "::ffff:1.1.1.1", "2001:4860::8888"}) {
    EXPECT_TRUE(IsPublicAddress(address)) << address;
  }
  for (const char* address : {"0.0.0.0",
                              "10.1.2.3",
                              "100.64.0.1",
                              "127.0.0.1",
                              "127.255.255.255",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.8",
                              "192.0.2.1",
                              "192.168.0.1",
                              "198.18.0.1",
                              "198.51.100.1",
                              "203.0.113.1",
                              "224.0.0.1",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "::127.0.0.1",
                              "64:ff9b::a00:1",
                              "fc00::1",
                              "fd12::1",
                              "fe80::1",
                              "fe80::1%1",
                              "fec0::1",
                              "ff02::1",
                              "2001::1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "3fff::1",
                              "localhost",
                              ""}) {
    EXPECT_FALSE(IsPublicAddress(address)) << address;
  }
}

}  // namespace
}  // namespace ringside
