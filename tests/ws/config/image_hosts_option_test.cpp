// --allowed-image-hosts: origins, without patterns and paths.
#include <gtest/gtest.h>

#include "ws/config/config.h"

namespace ringside {
namespace {

TEST(ImageHostsOptionTest, ListsOrigins) {
  EXPECT_TRUE(ParseConfig({"-m", "m"}, {})->config.image_hosts.empty());
  const auto parsed = ParseConfig(
      {"-m", "m", "--allowed-image-hosts", "Images.example.org", "--allowed-image-hosts", "http://192.0.2.7:8000"}, {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const std::vector<WebOrigin> hosts = {{true, "images.example.org", 443}, {false, "192.0.2.7", 8000}};
  EXPECT_EQ(parsed->config.image_hosts, hosts);
  for (const char* value : {"*", "*.example.org", "example.org/images", "ftp://example.org", "a b"}) {
    const auto refused = ParseConfig({"-m", "m", "--allowed-image-hosts", value}, {});
    EXPECT_NE(refused.status().message().find("--allowed-image-hosts"), std::string::npos) << value;
  }
}

}  // namespace
}  // namespace ringside
