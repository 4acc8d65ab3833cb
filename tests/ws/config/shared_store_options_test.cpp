// Options of a store that several servers share.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ws/config/config.h"

namespace ringside {
namespace {

using Arguments = std::vector<std::string>;

std::string RefusalOf(const Arguments& arguments) {
  const auto parsed = ParseConfig(arguments, {});
  return parsed.ok() ? "" : parsed.status().message();
}

ServerConfig Parsed(const Arguments& arguments) {
  const auto parsed = ParseConfig(arguments, {});
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return parsed.ok() ? parsed->config : ServerConfig();
}

TEST(SharedStoreOptions, TakeTheirOwnSettings) {
  const std::string url = "postgresql://ringside@db/ringside";
  const std::pair<Arguments, const char*> cases[] = {
      {{"--durability", "none"}, "--store-url: with --durability none nothing is stored"},
      {{"--backup-path", "/x"}, "--backup-path: back up the --store-url with pg_dump"},
      {{"--verify"}, "--verify: every read of the --store-url is verified"},
      {{"--accept-lost-tail"}, "--accept-lost-tail: it is for a --store-path"},
      {{"--server-name", std::string(65, 'n')}, "--server-name: more than 64 characters"},
  };
  for (const auto& [given, refusal] : cases) {
    Arguments args = {"-m", "m", "--store-url", url};
    args.insert(args.end(), given.begin(), given.end());
    EXPECT_EQ(RefusalOf(args), refusal);
  }
  EXPECT_EQ(RefusalOf({"-m", "m", "--server-name", "a"}), "--server-name requires --store-url");
  const ServerConfig shared = Parsed({"-m", "m", "--store-url", url});
  EXPECT_EQ(shared.durability, StoreDurability::kTurn);
  EXPECT_EQ(shared.lease_s, 10);
  EXPECT_EQ(Parsed({"-m", "m", "--store-url", url, "--durability", "token"}).durability, StoreDurability::kToken);
  EXPECT_EQ(Parsed({"-m", "m", "--store-url", url, "--store-path", "/x"}).store_path, "/x");
}

}  // namespace
}  // namespace ringside
