#include "ws/config/profiles.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "ws/config/config.h"

namespace ringside {
namespace {

ServerConfig With(const std::string& profile) { return ParseConfig({"-m", "m", "--profile", profile}, {})->config; }

TEST(Profiles, ReplaceDefaultsOnly) {
  const std::string path = std::string(::testing::TempDir()) + "/profile-" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(path) << "profile: laptop\ndisk-cache-mb: 7\n";
  const auto parsed = ParseConfig({"-m", "m", "--config", path, "--parallel", "5"}, {{"RINGSIDE_HOST_CACHE_MB", "9"}});
  std::remove(path.c_str());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->config.slots, 5);
  EXPECT_EQ(parsed->config.host_cache_mb, 9);
  EXPECT_EQ(parsed->config.disk_cache_mb, 7);
  EXPECT_EQ(parsed->config.kv_cache_mb, 2048);
  EXPECT_EQ(parsed->profile_line,
            "profile laptop: --kv-cache-mb 2048, --max-connections 64; set elsewhere: --slots, --host-cache-mb, "
            "--disk-cache-mb");
  EXPECT_EQ(ParseConfig({"-m", "m"}, {})->profile_line, "");
}

TEST(SettingAdvice, CoversTheConfigurationFile) {
  const std::string path = std::string(::testing::TempDir()) + "/advice-" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(path) << "n_gpu_layers: 3\n";
  EXPECT_EQ(ParseConfig({"-m", "m", "--config", path}, {}).status().message(),
            path +
                ": n_gpu_layers: there is no such setting; llama.cpp's --n-gpu-layers is --device cuda here: all "
                "layers run there");
  std::remove(path.c_str());
}

TEST(Profiles, AreNamedByEverySource) {
  EXPECT_TRUE(With("gpu").cuda);
  EXPECT_FALSE(ParseConfig({"-m", "m", "--profile", "gpu", "--device", "cpu"}, {})->config.cuda);
  EXPECT_EQ(ParseConfig({"-m", "m"}, {{"RINGSIDE_PROFILE", "server"}})->config.slots, 16);
  EXPECT_EQ(ParseConfig({"-m", "m", "--profile", "desktop"}, {}).status().message(),
            "--profile: \"desktop\" is not one of laptop|server|gpu");
}

}  // namespace
}  // namespace ringside
