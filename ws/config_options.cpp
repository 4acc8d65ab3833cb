#include "ws/config_options.h"

#include <charconv>
#include <cmath>
#include <fstream>

namespace ringside {
namespace {

using Kind = ConfigOption::Kind;
using Values = std::vector<std::string>;
using Apply = std::function<Status(ServerConfig&, const Values&)>;

Status BadValue(const std::string& text, const std::string& wanted) {
  return InvalidArgument("\"" + text + "\" is not " + wanted);
}

Result<int64_t> ParseInteger(const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || value < least || value > most) {
    return BadValue(text, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

Result<double> ParseReal(const std::string& text, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || rest != end || !(value >= least && value <= most)) {
    return BadValue(text, fmt::format("a number from {} to {}", least, most));
  }
  return value;
}

template <class Field>
Apply Integer(Field ServerConfig::*field, int64_t least, int64_t most) {
  return [=](ServerConfig& config, const Values& values) {
    ASSIGN_OR_RETURN(config.*field, ParseInteger(values.back(), least, most));
    return Status::Ok();
  };
}

Apply Real(std::optional<double> ServerConfig::*field, double least, double most) {
  return [=](ServerConfig& config, const Values& values) {
    ASSIGN_OR_RETURN(config.*field, ParseReal(values.back(), least, most));
    return Status::Ok();
  };
}

Apply Text(std::string ServerConfig::*field) {
  return [=](ServerConfig& config, const Values& values) {
    if (values.back().empty()) return InvalidArgument("it is empty");
    config.*field = values.back();
    return Status::Ok();
  };
}

/// One of a few words.
template <class T>
Apply Choice(T ServerConfig::*field, std::vector<std::pair<std::string, T>> choices) {
  return [=](ServerConfig& config, const Values& values) {
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == values.back()) {
        config.*field = value;
        return Status::Ok();
      }
      names += (names.empty() ? "" : ", ") + name;
    }
    return BadValue(values.back(), "one of " + names);
  };
}

Status ApplyAllowPublic(ServerConfig& config, const Values& values) {
  const std::string& text = values.back();
  const bool yes = text == "true" || text == "1" || text == "yes" || text == "on";
  const bool no = text == "false" || text == "0" || text == "no" || text == "off";
  if (!yes && !no) return BadValue(text, "true or false");
  config.allow_public = yes;
  return Status::Ok();
}

Status AddKey(ServerConfig& config, const std::string& key) {
  for (const char c : key) {
    // A key travels in a header and in a subprotocol name.
    if (c <= ' ' || c >= 127) return InvalidArgument("a key holds visible ASCII characters only");
  }
  if (key.empty()) return InvalidArgument("a key is empty");
  config.api_keys.push_back(key);
  return Status::Ok();
}

Status ApplyKeys(ServerConfig& config, const Values& values) {
  for (const std::string& key : values) RETURN_IF_ERROR(AddKey(config, key));
  return Status::Ok();
}

Status ApplyKeyFile(ServerConfig& config, const Values& values) {
  std::ifstream file(values.back());
  if (!file) return InvalidArgument("cannot read \"" + values.back() + "\"");
  size_t keys = 0;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    RETURN_IF_ERROR(AddKey(config, line));
    ++keys;
  }
  // An empty file that was meant to close the door must not leave it open.
  if (keys == 0) return InvalidArgument("\"" + values.back() + "\" holds no key");
  return Status::Ok();
}

Status ApplyOrigins(ServerConfig& config, const Values& values) {
  for (const std::string& value : values) {
    std::string origin = value;
    while (!origin.empty() && origin.back() == '/') origin.pop_back();
    const bool web = origin.starts_with("http://") || origin.starts_with("https://");
    if (origin != "*" && (!web || origin.find('/', 8) != std::string::npos)) {
      return BadValue(value, "an origin such as https://chat.example.org, or *");
    }
    config.allowed_origins.push_back(origin);
  }
  return Status::Ok();
}

Status ApplyThreads(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(const int64_t threads, ParseInteger(values.back(), 0, 1024));
  config.cpu.threads = static_cast<int>(threads);
  return Status::Ok();
}

Status ApplyInstructionSet(ServerConfig& config, const Values& values) {
  config.cpu.instruction_set = values.back();
  return Status::Ok();
}

std::vector<ConfigOption> ModelAndNetworkOptions() {
  using C = ServerConfig;
  return {
      {"model", {"m"}, Kind::kValue, "PATH", "GGUF file or Hugging Face folder (required)", Text(&C::model)},
      {"served-model-name",
       {"alias"},
       Kind::kValue,
       "NAME",
       "name under which clients ask for the model [its own]",
       Text(&C::served_model_name)},
      {"chat-template", {}, Kind::kValue, "NAME", "chat template [recognised from the model]", Text(&C::chat_template)},
      {"host", {}, Kind::kValue, "ADDRESS", "address to listen on [127.0.0.1]", Text(&C::host)},
      {"port",
       {},
       Kind::kValue,
       "N",
       "port to listen on; 0 takes a free one and prints it [8080]",
       Integer(&C::port, 0, 65535)},
      {"api-key",
       {},
       Kind::kList,
       "KEY",
       "key that clients must present; may be repeated [none: everyone may ask]",
       ApplyKeys},
      {"api-key-file", {}, Kind::kValue, "PATH", "file with one key a line", ApplyKeyFile},
      {"allowed-origins",
       {},
       Kind::kList,
       "ORIGIN",
       "web origin that may connect besides the server's own; may be repeated; * allows all",
       ApplyOrigins},
      {"allow-public", {}, Kind::kSwitch, "", "listen on a public address although no key is set", ApplyAllowPublic},
      {"max-connections",
       {},
       Kind::kValue,
       "N",
       "most open sockets [1024]",
       Integer(&C::max_connections, 1, limits::kMaxConnections)},
      {"max-connection-age",
       {},
       Kind::kValue,
       "SECONDS",
       "close a WebSocket after this time; 0 = never [0]",
       Integer(&C::max_connection_age_s, 0, 365 * 86400)},
      {"shutdown-timeout",
       {},
       Kind::kValue,
       "SECONDS",
       "time that running answers get when the server stops [30]",
       Integer(&C::shutdown_timeout_s, 0, 86400)},
      {"store-path",
       {},
       Kind::kValue,
       "PATH",
       "folder of the server's own, made with mode 0700 and locked against a second server; today nothing but the "
       "lock is kept there [none]",
       Text(&C::store_path)},
  };
}

std::vector<ConfigOption> EngineSettings() {
  using C = ServerConfig;
  constexpr int64_t kMost = int64_t{1} << 40;
  return {
      {"slots",
       {"max-num-seqs", "parallel"},
       Kind::kValue,
       "N",
       "conversations held ready at once [8]",
       Integer(&C::slots, 1, 4096)},
      {"memory-len",
       {"window"},
       Kind::kValue,
       "N",
       "tokens of a conversation that stay visible [2048, or what fits]",
       Integer(&C::memory_len, 16, kMost)},
      {"session-len",
       {},
       Kind::kValue,
       "N",
       "tokens a conversation may have in all [1048576, or what fits]",
       Integer(&C::session_len, 16, kMost)},
      {"pinned-max",
       {"keep"},
       Kind::kValue,
       "N",
       "most tokens of the system message that are never evicted [256]",
       Integer(&C::pinned_max, 1, limits::kMaxPinnedTokens)},
      {"eviction",
       {},
       Kind::kValue,
       "turn|token",
       "whether the window moves by whole messages or by tokens [turn]",
       Choice<Eviction>(&C::eviction, {{"turn", Eviction::kTurn}, {"token", Eviction::kToken}})},
      {"kv-cache-dtype",
       {},
       Kind::kValue,
       "f32|f16|bf16",
       "number format of keys and values [f16]",
       Choice<DType>(&C::kv_cache_dtype, {{"f16", DType::kF16}, {"bf16", DType::kBF16}, {"f32", DType::kF32}})},
      {"threads", {}, Kind::kValue, "N", "threads of the forward pass; 0 = all cores [0]", ApplyThreads},
      {"instruction-set",
       {},
       Kind::kValue,
       "NAME",
       "portable, avx2, avx512, avx512_vnni or amx [the best there is]",
       ApplyInstructionSet},
      {"prefill-chunk",
       {},
       Kind::kValue,
       "N",
       "most new tokens of one conversation in a step [256]",
       Integer(&C::prefill_chunk, 1, limits::kMaxPrefillChunkTokens)},
      {"step-tokens",
       {},
       Kind::kValue,
       "N",
       "most new tokens of all conversations in a step [256, or a chunk]",
       Integer(&C::step_tokens, 1, 65536)},
      {"mixed-tokens",
       {},
       Kind::kValue,
       "N",
       "the same in a step that also writes answers [64]",
       Integer(&C::mixed_tokens, 1, 65536)},
      {"rebuild-windows",
       {},
       Kind::kValue,
       "N",
       "windows from which a lost cache is rebuilt; 0 = as many as make it exact [0]",
       Integer(&C::rebuild_windows, 0, 1 << 20)},
      {"queue-limit",
       {},
       Kind::kValue,
       "N",
       "turns that may wait for a slot [256]",
       Integer(&C::queue_limit, 0, limits::kEngineInboxMessages)},
      {"temperature", {}, Kind::kValue, "X", "where a request gives none", Real(&C::temperature, 0, 2)},
      {"top-p", {}, Kind::kValue, "X", "where a request gives none", Real(&C::top_p, 1e-6, 1)},
      {"max-output-tokens",
       {},
       Kind::kValue,
       "N",
       "where a request gives none",
       Integer(&C::max_output_tokens, 1, kMost)},
      {"log-level",
       {},
       Kind::kValue,
       "debug|info|warning|error",
       "least level written [info]",
       Choice<LogLevel>(&C::log_level, {{"debug", LogLevel::kDebug},
                                        {"info", LogLevel::kInfo},
                                        {"warning", LogLevel::kWarning},
                                        {"error", LogLevel::kError}})},
      {"log-format",
       {},
       Kind::kValue,
       "auto|text|json",
       "auto = text on a terminal, else JSON lines [auto]",
       Choice<LogFormat>(&C::log_format,
                         {{"auto", LogFormat::kAuto}, {"text", LogFormat::kText}, {"json", LogFormat::kJson}})},
  };
}

}  // namespace

std::vector<std::string> ConfigOption::Spellings() const {
  std::vector<std::string> all = {name};
  all.insert(all.end(), aliases.begin(), aliases.end());
  return all;
}

const std::vector<ConfigOption>& ConfigOptions() {
  static const std::vector<ConfigOption> options = [] {
    std::vector<ConfigOption> all = ModelAndNetworkOptions();
    for (ConfigOption& option : EngineSettings()) all.push_back(std::move(option));
    return all;
  }();
  return options;
}

const ConfigOption* FindConfigOption(std::string_view spelling) {
  for (const ConfigOption& option : ConfigOptions()) {
    for (const std::string& known : option.Spellings()) {
      if (known.size() > 1 && known == spelling) return &option;
    }
  }
  return nullptr;
}

}  // namespace ringside
