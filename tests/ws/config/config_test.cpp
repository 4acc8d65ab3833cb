// The configuration: every setting from every source, their precedence, and the error messages.
#include "ws/config/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ws/config/config_key.h"
#include "ws/config/config_options.h"

namespace ringside {
namespace {

using Args = std::vector<std::string>;
using Env = std::map<std::string, std::string>;

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("ringside_config_" + std::to_string(getpid()) + "_" +
                                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }
  std::string WriteKey(const std::string& content, mode_t mode) {
    std::string path = folder_ / "key";
    std::filesystem::remove(path);
    path = Write("key", content);
    chmod(path.c_str(), mode);
    return path;
  }
  static ServerConfig Parse(const Args& args, const Env& env = {}) {
    auto parsed = ParseConfig(args, env);
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    return parsed.ok() ? parsed->config : ServerConfig();
  }
  /// The message of a refusal; "" if accepted.
  static std::string Refusal(const Args& args, const Env& env = {}) {
    const auto parsed = ParseConfig(args, env);
    if (parsed.ok()) return "";
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    return parsed.status().message();
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigTest, Defaults) {
  const ServerConfig config = Parse({"--model", "m.gguf"});
  EXPECT_EQ(config.model, "m.gguf");
  EXPECT_EQ(config.host, "127.0.0.1");
  EXPECT_EQ(config.port, 8080);
  EXPECT_EQ(config.slots, 0);
  EXPECT_FALSE(config.memory_len.has_value());
  EXPECT_EQ(config.eviction, Eviction::kTurn);
  EXPECT_EQ(config.kv_cache_dtype, DType::kF16);
  EXPECT_EQ(config.max_connection_age_s, 0);
  EXPECT_TRUE(config.api_keys.empty());
  EXPECT_EQ(config.durability, StoreDurability::kNone);  // there is no store
  EXPECT_EQ(config.session_idle_host_ms, 60'000);
  EXPECT_EQ(config.session_idle_disk_ms, 600'000);
  EXPECT_EQ(config.session_ttl_s, 30 * 86400);
  EXPECT_EQ(config.host_cache_mb, 1024);
  EXPECT_EQ(config.disk_cache_mb, 16384);
  EXPECT_EQ(config.max_turns_per_owner, 64);
  EXPECT_EQ(config.max_sessions_per_owner, 10'000);
  EXPECT_EQ(config.max_chains_per_owner, 10'000);
  EXPECT_EQ(config.max_stored_mb_per_owner, 16384);
  EXPECT_EQ(config.max_detached_tokens, 4096);
  EXPECT_EQ(config.purge_interval_s, 3600);
  EXPECT_FALSE(config.verify || config.accept_lost_tail);
  EXPECT_EQ(Parse({"-m", "m", "--store-path", "/x"}).durability, StoreDurability::kToken);
}

TEST_F(ConfigTest, EverySpellingOfEverySetting) {
  const ServerConfig config = Parse({"-m",
                                     "m",
                                     "--alias",
                                     "name",
                                     "--host=127.0.0.2",
                                     "--port=0",
                                     "--parallel",
                                     "3",
                                     "--window",
                                     "1000",
                                     "--session-len",
                                     "9999",
                                     "--keep",
                                     "7",
                                     "--eviction",
                                     "token",
                                     "--kv-cache-dtype",
                                     "fp8_e4m3",
                                     "--threads",
                                     "2",
                                     "--instruction-set",
                                     "avx2",
                                     "--chat-template",
                                     "chatml",
                                     "--prefill-chunk",
                                     "64",
                                     "--step-tokens",
                                     "512",
                                     "--target-itl-ms",
                                     "32",
                                     "--kv-cache-mb",
                                     "300",
                                     "--rebuild-windows",
                                     "4",
                                     "--queue-limit",
                                     "9",
                                     "--temperature",
                                     "0.5",
                                     "--top-p",
                                     "0.9",
                                     "--max-output-tokens",
                                     "77",
                                     "--allowed-origins",
                                     "https://a.example",
                                     "--allowed-origins",
                                     "http://b.example:3000/",
                                     "--allow-public",
                                     "--max-connections",
                                     "12",
                                     "--max-connection-age",
                                     "60",
                                     "--idle-timeout",
                                     "90",
                                     "--shutdown-timeout",
                                     "5",
                                     "--shutdown-grace",
                                     "3",
                                     "--log-level",
                                     "debug",
                                     "--log-format",
                                     "json",
                                     "--store-path",
                                     "/x",
                                     "--api-key",
                                     "k1",
                                     "--api-key",
                                     "k2"});
  EXPECT_EQ(config.model, "m");
  EXPECT_EQ(config.served_model_name, "name");
  EXPECT_EQ(config.host, "127.0.0.2");
  EXPECT_EQ(config.port, 0);
  EXPECT_EQ(config.slots, 3);
  EXPECT_EQ(config.memory_len, 1000);
  EXPECT_EQ(config.session_len, 9999);
  EXPECT_EQ(config.pinned_max, 7);
  EXPECT_EQ(config.eviction, Eviction::kToken);
  EXPECT_EQ(config.kv_cache_dtype, DType::kF8E4M3);
  EXPECT_EQ(config.cpu.threads, 2);
  EXPECT_EQ(config.cpu.instruction_set, "avx2");
  EXPECT_EQ(config.chat_template, "chatml");
  EXPECT_EQ(config.prefill_chunk, 64);
  EXPECT_EQ(config.step_tokens, 512);
  EXPECT_EQ(config.target_itl_ms, 32);
  EXPECT_EQ(config.kv_cache_mb, 300);
  EXPECT_EQ(config.rebuild_windows, 4);
  EXPECT_EQ(config.queue_limit, 9);
  EXPECT_EQ(config.temperature, 0.5);
  EXPECT_EQ(config.top_p, 0.9);
  EXPECT_EQ(config.max_output_tokens, 77);
  EXPECT_EQ(config.allowed_origins, Args({"https://a.example", "http://b.example:3000"}));
  EXPECT_TRUE(config.allow_public);
  EXPECT_EQ(config.max_connections, 12);
  EXPECT_EQ(config.max_connection_age_s, 60);
  EXPECT_EQ(config.idle_timeout_s, 90);
  EXPECT_EQ(config.shutdown_timeout_s, 5);
  EXPECT_EQ(config.shutdown_grace_s, 3);
  EXPECT_EQ(config.log_level, LogLevel::kDebug);
  EXPECT_EQ(config.log_format, LogFormat::kJson);
  EXPECT_EQ(config.store_path, "/x");
  EXPECT_EQ(config.api_keys, Args({"k1", "k2"}));
  EXPECT_EQ(Parse({"-m", "m", "--max-num-seqs", "5"}).slots, 5);
  EXPECT_EQ(Parse({"-m", "m", "--slots", "5", "--slots", "6"}).slots, 6);  // the last one counts
}

TEST_F(ConfigTest, ParsesDeviceSettings) {
  const ServerConfig standard = Parse({"-m", "m"});
  EXPECT_FALSE(standard.cuda);
  EXPECT_EQ(standard.gpu.dtype, DType::kBF16);
  EXPECT_EQ(standard.gpu.memory_utilization, 0.9);
  EXPECT_EQ(standard.gpu.device, 0);
  const ServerConfig gpu = Parse({"-m", "m", "--device", "cuda", "--dtype", "f16", "--gpu-memory-utilization", "0.5"});
  EXPECT_TRUE(gpu.cuda);
  EXPECT_EQ(gpu.gpu.dtype, DType::kF16);
  EXPECT_EQ(gpu.gpu.memory_utilization, 0.5);
  EXPECT_FALSE(Parse({"-m", "m", "--device", "cuda", "--device", "cpu"}).cuda);
  const ServerConfig third = Parse({"-m", "m", "--device", "cuda:2"});
  EXPECT_TRUE(third.cuda);
  EXPECT_EQ(third.gpu.device, 2);
  EXPECT_EQ(Parse({"-m", "m", "--device", "cuda:2", "--device", "cuda"}).gpu.device, 0);
  EXPECT_EQ(Parse({"-m", "m", "--dtype", "bf16"}).gpu.dtype, DType::kBF16);
  EXPECT_EQ(Parse({"-m", "m", "--gpu-memory-utilization", "1"}).gpu.memory_utilization, 1.0);
  EXPECT_FALSE(gpu.gpu.deterministic);
  EXPECT_TRUE(Parse({"-m", "m", "--device", "cuda", "--deterministic"}).gpu.deterministic);
  EXPECT_TRUE(!gpu.gpu.quantization && gpu.gpu.keeps_blocks);
  EXPECT_FALSE(Parse({"-m", "m", "--device", "cpu", "--quantization", "none"}).gpu.keeps_blocks);
  EXPECT_EQ(Parse({"-m", "m", "--device", "cuda", "--quantization", "int8"}).gpu.quantization, DType::kI8);
  EXPECT_EQ(Parse({"-m", "m", "--device", "cuda", "-q", "fp8"}).gpu.quantization, DType::kF8E4M3);
  EXPECT_EQ(standard.tensor_parallel_size, 1);
  EXPECT_EQ(Parse({"-m", "m", "--pp", "3"}).pipeline_parallel_size, 3);
  EXPECT_EQ(standard.rank_timeout_s, 30);
  const ServerConfig shared = Parse({"-m", "m", "--device", "cuda", "--tp", "2", "--rank-timeout", "5"});
  EXPECT_EQ(shared.tensor_parallel_size, 2);
  EXPECT_EQ(shared.rank_timeout_s, 5);
  EXPECT_FALSE(shared.tensor_parallel_force);
  EXPECT_TRUE(Parse({"-m", "m", "--tensor-parallel-force"}).tensor_parallel_force);
  const ServerConfig told = Parse({"-m", "m"}, {{"RINGSIDE_DEVICE", "cuda"}, {"RINGSIDE_DTYPE", "f16"}});
  EXPECT_TRUE(told.cuda);
  EXPECT_EQ(told.gpu.dtype, DType::kF16);
}

/// Every combination of sources for a setting: the command line over the environment over the file.
TEST_F(ConfigTest, PrecedenceMatrix) {
  struct Setting {
    const char* flag;
    const char* variable;
    std::vector<std::string> values;  // from flag, environment, file, and default
    std::function<std::string(const ServerConfig&)> read;
  };
  const Setting settings[] = {
      {"slots", "RINGSIDE_SLOTS", {"1", "2", "3", "0"}, [](const auto& c) { return std::to_string(c.slots); }},
      {"memory-len",
       "RINGSIDE_MEMORY_LEN",
       {"101", "102", "103", "none"},
       [](const auto& c) { return c.memory_len ? std::to_string(*c.memory_len) : "none"; }},
      {"eviction",
       "RINGSIDE_EVICTION",
       {"token", "turn", "token", "turn"},
       [](const auto& c) { return c.eviction == Eviction::kToken ? "token" : "turn"; }},
      {"allow-public",
       "RINGSIDE_ALLOW_PUBLIC",
       {"true", "false", "true", "false"},
       [](const auto& c) { return c.allow_public ? "true" : "false"; }},
      {"api-key",
       "RINGSIDE_API_KEY",
       {"k1", "k2", "k3", ""},
       [](const auto& c) {
         std::string all;
         for (const auto& key : c.api_keys) all += key;
         return all;
       }},
  };
  for (const Setting& setting : settings) {
    for (int sources = 0; sources < 8; ++sources) {
      Args args = {"--model", "m"};
      Env env;
      if (sources & 1) {
        args.push_back(std::string("--") + setting.flag +
                       (setting.flag == std::string("allow-public") ? "" : "=" + setting.values[0]));
      }
      if (sources & 2) env[setting.variable] = setting.values[1];
      if (sources & 4) {
        args.push_back("--config=" + Write("c.yaml", std::string(setting.flag) + ": " + setting.values[2] + "\n"));
      }
      const size_t winner = sources & 1 ? 0 : sources & 2 ? 1 : sources & 4 ? 2 : 3;
      EXPECT_EQ(setting.read(Parse(args, env)), setting.values[winner]) << setting.flag << " from " << sources;
    }
  }
}

TEST_F(ConfigTest, AcceptsEverySettingFromEverySourceUnderAllNames) {
  for (const ConfigOption& option : ConfigOptions()) {
    const std::string wrong = option.kind == ConfigOption::Kind::kSwitch ? "perhaps" : "";
    for (const std::string& name : option.Spellings()) {
      if (name.size() == 1) continue;
      std::string variable = "RINGSIDE_" + name;
      for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      // A bad value is refused with its source: so it was read.
      const Args args = option.name == "model" ? Args{} : Args{"-m", "m"};
      if (name == "instruction-set") continue;  // checked by the backend
      EXPECT_TRUE(Refusal(args, {{variable, wrong}}).starts_with("environment: " + variable + ": ")) << name;
      const std::string file = Write("c.yaml", name + ": \"" + wrong + "\"\n");
      EXPECT_TRUE(Refusal(args, {{"RINGSIDE_CONFIG", file}}).starts_with(file + ": " + name + ": ")) << name;
    }
  }
}

TEST_F(ConfigTest, ConfigFileIsYaml) {
  const std::string path = Write("c.yaml",
                                 "# a comment\nmodel: /models/m.gguf\nport: 0\ntemperature: 0.25\n"
                                 "api-key: [one, two]\nallowed-origins:\n  - https://a.example\nallow-public: yes\n");
  const ServerConfig config = Parse({}, {{"RINGSIDE_CONFIG", path}});
  EXPECT_EQ(config.model, "/models/m.gguf");
  EXPECT_EQ(config.temperature, 0.25);
  EXPECT_EQ(config.api_keys, Args({"one", "two"}));
  EXPECT_EQ(config.allowed_origins, Args({"https://a.example"}));
  EXPECT_TRUE(config.allow_public);
  EXPECT_EQ(Parse({"-m", "m", "--config", Write("empty.yaml", "")}).slots, 0);
}

TEST_F(ConfigTest, RefusesBadFilesByName) {
  const auto refusal = [&](const std::string& text) { return Refusal({"-m", "m", "--config", Write("c.yaml", text)}); };
  EXPECT_NE(refusal("slot: 3\n").find("slot: there is no such setting; did you mean --slots?"), std::string::npos);
  EXPECT_NE(refusal("slots: many\n").find("slots: \"many\""), std::string::npos);
  EXPECT_NE(refusal("slots: [1, 2]\n").find("slots: takes one value"), std::string::npos);
  EXPECT_NE(refusal("model:\n").find("model: has no value"), std::string::npos);
  EXPECT_NE(refusal("slots: 1\nparallel: 2\n").find("repeats --slots"), std::string::npos);
  EXPECT_NE(refusal("slots: {a: 1}\n").find("slots"), std::string::npos);
  for (const char* text : {"- slots\n", "slots: [1\n"}) EXPECT_NE(refusal(text).find("c.yaml"), std::string::npos);
  EXPECT_NE(refusal("api-key: [[a]]\n").find("api-key"), std::string::npos);
  EXPECT_NE(refusal("? [a]\n: 1\n").find("c.yaml"), std::string::npos);
  EXPECT_NE(Refusal({"-m", "m", "--config", "/nowhere/c.yaml"}).find("/nowhere/c.yaml"), std::string::npos);
  EXPECT_EQ(Refusal({"-m", "m", "--config", folder_}), "--config: \"" + folder_.string() + "\" is a folder");
}

TEST_F(ConfigTest, BadValueErrorsNameFlagAndValue) {
  const std::pair<const char*, const char*> bad[] = {{"--port", "65536"},
                                                     {"--port", "-1"},
                                                     {"--port", "http"},
                                                     {"--port", "80x"},
                                                     {"--port", "1e3"},
                                                     {"--slots", "0"},
                                                     {"--slots", ""},
                                                     {"--memory-len", "15"},
                                                     {"--pinned-max", "0"},
                                                     {"--pinned-max", "16385"},
                                                     {"--eviction", "never"},
                                                     {"--kv-cache-dtype", "q8_0"},
                                                     {"--kv-cache-dtype", "fp8_e5m2"},
                                                     {"--device", "gpu"},
                                                     {"--device", ""},
                                                     {"--device", "cuda:"},
                                                     {"--device", "cuda:-1"},
                                                     {"--device", "cuda:x"},
                                                     {"--device", "cpu:0"},
                                                     {"--dtype", "f32"},
                                                     {"--dtype", "fp16"},
                                                     {"--gpu-memory-utilization", "0"},
                                                     {"--gpu-memory-utilization", "1.01"},
                                                     {"--gpu-memory-utilization", "90%"},
                                                     {"--gpu-memory-utilization", "nan"},
                                                     {"--temperature", "nan"},
                                                     {"--temperature", "2.1"},
                                                     {"--temperature", "-1"},
                                                     {"--top-p", "0"},
                                                     {"--log-level", "loud"},
                                                     {"--queue-limit", "0"},
                                                     {"--max-output-tokens-limit", "0"},
                                                     {"--max-input-tokens", "0"},
                                                     {"--turn-timeout", "-1"},
                                                     {"--max-text-mb-per-owner", "-1"},
                                                     {"--threads", "two"},
                                                     {"--quantization", "int4"},
                                                     {"--tensor-parallel-size", "0"},
                                                     {"--rank-timeout", "0"},
                                                     {"--quantization", "int8"},  // without a GPU
                                                     {"--prefill-chunk", "8193"},
                                                     {"--api-key", "a b"},
                                                     {"--api-key", "k\xc3\xa4"},
                                                     {"--model", ""},
                                                     {"--allowed-origins", "example.org"},
                                                     {"--allowed-origins", "https://a.example/path"},
                                                     {"--api-key-file", "/nowhere/keys"},
                                                     {"--keys-file", ""},
                                                     {"--allowed-hosts", "a.example:80"},
                                                     {"--allowed-hosts", "https://a.example"},
                                                     {"--ssl-keyfile", "/without/a/certificate"},
                                                     {"--metrics-port", "65536"},
                                                     {"--metrics-host", ""},
                                                     {"--max-tokens-per-minute-per-owner", "-1"},
                                                     {"--durability", "disk"},
                                                     {"--session-idle-host", "-1"},
                                                     {"--session-idle-disk", "soon"},
                                                     {"--session-ttl", "-1"},
                                                     {"--host-cache-mb", "1g"},
                                                     {"--disk-cache-mb", "-1"},
                                                     {"--purge-interval", "0"},
                                                     {"--encryption-key-file", "/nowhere/key"},
                                                     {"--slots", "99999999999999999999"}};
  for (const auto& [flag, value] : bad) {
    const std::string refusal = Refusal({"-m", "m", std::string(flag) + "=" + value});
    EXPECT_NE(refusal.find(flag), std::string::npos) << flag << "=" << value << ": " << refusal;
  }
  EXPECT_NE(Refusal({"-m", "m", "--slot", "3"}).find("--slot"), std::string::npos);
  EXPECT_NE(Refusal({"-m", "m", "stray"}).find("stray"), std::string::npos);
  EXPECT_NE(Refusal({"-m"}), "");
  EXPECT_NE(Refusal({}).find("--model"), std::string::npos);
}

TEST_F(ConfigTest, RefusesUnknownVariables) {
  EXPECT_EQ(Refusal({"-m", "m"}, {{"RINGSIDE_SLOT", "3"}, {"PATH", "/bin"}}),
            "environment: RINGSIDE_SLOT is no setting of the server; did you mean --slots?");
  EXPECT_EQ(Refusal({"-m", "m"}, {{"RINGSIDE_URL", "ws://a"}, {"RINGSIDE_TEST_MODEL", "m"}}), "");
  EXPECT_NE(Refusal({"-m", "m"}, {{"RINGSIDE_SLOTS", "1"}, {"RINGSIDE_PARALLEL", "2"}}), "");
}

TEST_F(ConfigTest, PublicAddressRequiresKeysOrAnOverride) {
  for (const char* host : {"0.0.0.0", "::", "192.168.1.2"}) {
    EXPECT_NE(Refusal({"-m", "m", "--host", host}).find(host), std::string::npos);
    EXPECT_EQ(Refusal({"-m", "m", "--host", host, "--api-key", "k"}), "");
    EXPECT_EQ(Refusal({"-m", "m", "--host", host, "--keys-file", "k"}), "");
    EXPECT_EQ(Refusal({"-m", "m", "--host", host, "--allow-public"}), "");
  }
  for (const char* host : {"127.0.0.1", "localhost", "::1"})
    EXPECT_EQ(Refusal({"-m", "m", "--host", host}), "") << host;
}

TEST_F(ConfigTest, ParsesAccessSettings) {
  const ServerConfig config = Parse({"-m", "m", "--keys-file", "/k", "--allowed-hosts", "a.example", "--allowed-hosts",
                                     "b.example", "--ssl-certfile", "/c", "--ssl-keyfile", "/p", "--metrics-port", "0",
                                     "--metrics-host", "::1", "--max-tokens-per-minute-per-owner", "60000"});
  EXPECT_EQ(config.keys_file, "/k");
  EXPECT_EQ(config.allowed_hosts, Args({"a.example", "b.example"}));
  EXPECT_EQ(config.tls_certificate, "/c");
  EXPECT_EQ(config.tls_key, "/p");
  EXPECT_EQ(config.metrics_port, 0);
  EXPECT_EQ(config.metrics_host, "::1");
  EXPECT_EQ(config.max_tokens_per_owner, 60000);
  const ServerConfig usual = Parse({"-m", "m"});
  EXPECT_EQ(usual.metrics_port, std::nullopt);
  EXPECT_EQ(usual.metrics_host, "127.0.0.1");
  EXPECT_EQ(usual.keys_file + usual.tls_certificate + usual.tls_key, "");
  EXPECT_EQ(usual.max_tokens_per_owner, 0);
  EXPECT_EQ(Refusal({"-m", "m", "--ssl-certfile", "/both"}), "");
}

TEST_F(ConfigTest, KeysFromAFileAndFromTheEnvironment) {
  const std::string path = WriteKey("# two keys\nfirst\r\n\nsecond \n", 0600);
  EXPECT_EQ(Parse({"-m", "m", "--api-key-file", path}).api_keys, Args({"first", "second"}));
  EXPECT_EQ(Parse({"-m", "m"}, {{"RINGSIDE_API_KEY", "a,b"}}).api_keys, Args({"a", "b"}));
  EXPECT_EQ(Parse({"-m", "m", "--api-key", "a", "--api-key-file", path}).api_keys, Args({"a", "first", "second"}));
  // A file without a key must not grant access.
  EXPECT_NE(Refusal({"-m", "m", "--api-key-file", WriteKey("# nothing\n", 0600)}).find("holds no key"),
            std::string::npos);
  EXPECT_NE(Refusal({"-m", "m", "--api-key-file", WriteKey("first\n", 0644)}).find("has mode 0644"), std::string::npos);
  const std::string none = Write("none.yaml", "api-key: []\n");
  EXPECT_EQ(Refusal({"-m", "m", "--config", none}), none + ": api-key: the list is empty");
  EXPECT_NE(Refusal({"-m", "m"}, {{"RINGSIDE_API_KEY", ""}}), "");
  EXPECT_NE(Refusal({"-m", "m", "--api-key", ""}), "");
}

TEST_F(ConfigTest, EverySettingOfTheStore) {
  const ServerConfig config = Parse({"-m",
                                     "m",
                                     "--store-path",
                                     "/x",
                                     "--durability",
                                     "turn",
                                     "--session-idle-host",
                                     "1.5",
                                     "--session-idle-disk",
                                     "0",
                                     "--session-ttl",
                                     "0",
                                     "--host-cache-mb",
                                     "0",
                                     "--disk-cache-mb",
                                     "7",
                                     "--max-turns-per-owner",
                                     "3",
                                     "--max-sessions-per-owner",
                                     "4",
                                     "--max-detached-tokens",
                                     "0",
                                     "--purge-interval",
                                     "9",
                                     "--verify",
                                     "--accept-lost-tail"});
  EXPECT_EQ(config.durability, StoreDurability::kTurn);
  EXPECT_EQ(config.session_idle_host_ms, 1500);
  EXPECT_EQ(config.session_idle_disk_ms, 0);
  EXPECT_EQ(config.session_ttl_s, 0);
  EXPECT_EQ(config.host_cache_mb, 0);
  EXPECT_EQ(config.disk_cache_mb, 7);
  EXPECT_EQ(config.max_turns_per_owner, 3);
  EXPECT_EQ(config.max_sessions_per_owner, 4);
  EXPECT_EQ(config.max_detached_tokens, 0);
  EXPECT_EQ(config.purge_interval_s, 9);
  EXPECT_TRUE(config.verify);
  EXPECT_TRUE(config.accept_lost_tail);
  EXPECT_EQ(Parse({"-m", "m", "--store-path", "/x", "--durability", "none"}).durability, StoreDurability::kNone);
}

TEST_F(ConfigTest, DiskSettingsRequireAStoreDirectory) {
  const std::string key = WriteKey(std::string(64, 'a'), 0400);
  const std::pair<Args, const char*> cases[] = {
      {{"--durability", "token"}, "--durability requires --store-path or --store-url"},
      {{"--durability", "turn"}, "--durability requires --store-path or --store-url"},
      {{"--encryption-key-file", key}, "--encryption-key-file: without a --store-path nothing is stored"},
      {{"--verify"}, "--verify: without a --store-path nothing is stored"},
      {{"--accept-lost-tail"}, "--accept-lost-tail: without a --store-path nothing is stored"},
      {{"--store-path", "/x", "--durability", "none", "--encryption-key-file", key},
       "--encryption-key-file: with --durability none nothing is stored"},
      {{"--store-path", "/x", "--durability", "none", "--verify"},
       "--verify: with --durability none nothing is stored"},
  };
  for (const auto& [given, refusal] : cases) {
    Args args = {"-m", "m"};
    args.insert(args.end(), given.begin(), given.end());
    EXPECT_EQ(Refusal(args), refusal);
  }
  EXPECT_EQ(Refusal({"-m", "m", "--durability", "none"}), "");
  EXPECT_EQ(Refusal({"-m", "m", "--store-path", "/x", "--encryption-key-file", key}), "");
}

TEST_F(ConfigTest, EncryptionKeyIsReadableByItsOwnerOnly) {
  const auto key = [&](const std::string& path) {
    return Parse({"-m", "m", "--store-path", "/x", "--encryption-key-file", path}).encryption_key;
  };
  std::string bytes(32, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(7 * i);
  bytes[31] = '\n';
  EXPECT_EQ(key(WriteKey(bytes, 0400)), bytes);
  EXPECT_EQ(key(WriteKey(bytes, 0600)), bytes);
  std::string digits;
  for (const char c : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  EXPECT_EQ(key(WriteKey(digits, 0400)), bytes);
  EXPECT_EQ(key(WriteKey(digits + "\r\n", 0400)), bytes);
  for (char& c : digits) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(key(WriteKey(digits + "\n", 0400)), bytes);

  const auto refusal = [&](const std::string& path) {
    return Refusal({"-m", "m", "--store-path", "/x", "--encryption-key-file", path});
  };
  for (const int mode : {0440, 0404, 0640, 0644, 0666, 0500, 0620, 0602}) {
    EXPECT_NE(refusal(WriteKey(bytes, mode)).find(fmt::format("has mode {:04o}", mode)), std::string::npos) << mode;
  }
  for (const std::string& bad : {std::string(), bytes.substr(1), bytes + "x", digits.substr(1), digits + "0",
                                 digits + "\n\n", digits.substr(2) + "0g", std::string(1000, 'a')}) {
    const std::string message = refusal(WriteKey(bad, 0400));
    EXPECT_NE(message.find("holds neither 32 bytes nor 64 hexadecimal digits"), std::string::npos) << message;
    EXPECT_EQ(message.find(digits.substr(0, 8)), std::string::npos) << "the key is told";
  }
  EXPECT_NE(refusal("/nowhere/key").find("/nowhere/key"), std::string::npos);
  EXPECT_NE(refusal(folder_).find("no plain file"), std::string::npos);
}

TEST_F(ConfigTest, CreatesTheKeyFileOnceForTheOwnerOnly) {
  const std::string path = folder_ / "made.key";
  const Result<std::string> made = ReadOrMakeKey(path);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->size(), 32U);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(*ReadOrMakeKey(path), *made);
  EXPECT_EQ(*ReadKey(path), *made);
  EXPECT_NE(*ReadOrMakeKey(folder_ / "other.key"), *made);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2) << "a draft is left";
  EXPECT_NE(ReadOrMakeKey("/nowhere/key").status().message().find("/nowhere/key"), std::string::npos);
  EXPECT_EQ(ReadOrMakeKey(WriteKey("short", 0600)).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ConfigTest, ExportsHaveAKeyFile) {
  const ServerConfig config = Parse({"-m", "m", "--export-key-file", "/x/key", "--accept-foreign-imports"});
  EXPECT_EQ(config.export_key_file, "/x/key");
  EXPECT_TRUE(config.accept_foreign_imports);
  EXPECT_FALSE(Parse({"-m", "m"}).accept_foreign_imports);
}

TEST_F(ConfigTest, HelpAndVersion) {
  const auto help = ParseConfig({"--help"}, {});
  ASSERT_TRUE(help.ok());
  for (const ConfigOption& option : ConfigOptions()) {
    EXPECT_NE(help->print.find("--" + option.name), std::string::npos) << option.name;
  }
  EXPECT_NE(help->print.find("Exit codes"), std::string::npos);
  EXPECT_NE(help->print.find("\nNetwork:\n  --host ADDRESS"), std::string::npos) << "the options stand in groups";
  EXPECT_NE(help->print.find("  -m, --model PATH            GGUF file"), std::string::npos) << help->print;
  EXPECT_EQ(help->print.find("{true}"), std::string::npos);
  EXPECT_EQ(help->print.find(" ..."), std::string::npos);
  std::istringstream lines(help->print);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  EXPECT_TRUE(ParseConfig({"--version"}, {})->print.starts_with("ringside-server "));
}

TEST_F(ConfigTest, DefaultLengthRespectsTheLimit) {
  const ServerConfig config = Parse({"-m", "m", "--max-output-tokens", "50", "--max-output-tokens-limit", "50",
                                     "--max-input-tokens", "60", "--turn-timeout", "0", "--max-text-mb-per-owner", "7",
                                     "--max-chains-per-owner", "8", "--max-stored-mb-per-owner", "9"});
  EXPECT_EQ(config.max_output_tokens, 50);
  EXPECT_EQ(config.max_output_tokens_limit, 50);
  EXPECT_EQ(config.max_input_tokens, 60);
  EXPECT_EQ(config.turn_timeout_s, 0);
  EXPECT_EQ(config.max_text_mb_per_owner, 7);
  EXPECT_EQ(config.max_chains_per_owner, 8);
  EXPECT_EQ(config.max_stored_mb_per_owner, 9);
  EXPECT_EQ(Refusal({"-m", "m", "--max-output-tokens", "51", "--max-output-tokens-limit", "50"}),
            "--max-output-tokens: 51 is more than --max-output-tokens-limit, which is 50");
  EXPECT_EQ(Refusal({"-m", "m", "--max-output-tokens-limit", "50"}), "");
}

}  // namespace
}  // namespace ringside
