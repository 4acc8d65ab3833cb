#include "ws/config/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "engine/engine.h"
#include "engine/families/model_spec.h"
#include "kernels/explain_kernels.h"
#include "ws/config/config_help.h"
#include "ws/config/config_options.h"
#include "ws/config/profiles.h"
#include "ws/config/setting_advice.h"
#include "ws/transport/auth.h"

namespace ringside {
namespace {

constexpr char kEnvironmentPrefix[] = "RINGSIDE_";
// Variables of the client and of the tests, which may be set in the server's shell.
constexpr std::string_view kOthersVariables[] = {"RINGSIDE_URL", "RINGSIDE_CACERT", "RINGSIDE_CHAT_COMMAND"};
constexpr std::string_view kTestsPrefix = "RINGSIDE_TEST_";

/// Values of a setting from one source, and the name of that place for messages.
struct Given {
  std::vector<std::string> values;
  std::string place;
};
using Source = std::map<const ConfigOption*, Given>;

struct CommandLine {
  Source settings;
  std::optional<std::string> config_file;
  std::string print;
};

std::string FlagSpelling(const ConfigOption& option) {
  std::string all;
  for (const std::string& name : option.Spellings()) {
    all += (all.empty() ? "" : ",") + std::string(name.size() == 1 ? "-" : "--") + name;
  }
  return all;
}

/// The error of a command line with these unknown arguments.
Status UnknownArgument(const std::vector<std::string>& unknown, const char* otherwise) {
  const auto flag = std::ranges::find_if(unknown, [](const std::string& word) { return word.starts_with('-'); });
  if (flag == unknown.end()) return InvalidArgument(std::string("command line: ") + otherwise);
  const std::string spelling = flag->substr(0, flag->find('='));
  const size_t dashes = spelling.starts_with("--") ? 2 : 1;
  return InvalidArgument("command line: " + spelling + " is no setting of the server" +
                         SettingAdvice(std::string_view(spelling).substr(dashes)));
}

Result<CommandLine> ReadCommandLine(const std::vector<std::string>& args) {
  CLI::App app("Ringside: a chat server that remembers", "ringside-server");
  app.set_version_flag("--version", std::string("ringside-server ") + RINGSIDE_VERSION);
  std::string config_file;
  CLI::Option* config_option = app.add_option("--config", config_file, "YAML file with settings")->type_name("PATH");
  std::string layer;
  CLI::Option* explain_option = app.add_option("--explain-kernels", layer);

  std::map<const ConfigOption*, std::vector<std::string>> raw;
  std::map<const ConfigOption*, CLI::Option*> declared;
  for (const ConfigOption& option : ConfigOptions()) {
    const std::string flags = FlagSpelling(option);
    if (option.kind == ConfigOption::Kind::kSwitch) {
      declared[&option] = app.add_flag(flags + "{true}", raw[&option], option.help);
    } else {
      declared[&option] =
          app.add_option(flags, raw[&option], option.help)->type_name(option.placeholder)->allow_extra_args(false);
    }
  }

  CommandLine out;
  if (args == std::vector<std::string>{"--describe"}) {
    out.print = DescribeCommandLine();
    return out;
  }
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForVersion& version) {
    out.print = std::string(version.what()) + "\n";
    return out;
  } catch (const CLI::CallForHelp&) {
    out.print = HelpText();
    return out;
  } catch (const CLI::ExtrasError& error) {
    return UnknownArgument(app.remaining(), error.what());
  } catch (const CLI::Error& error) {
    return InvalidArgument(std::string("command line: ") + error.what());
  }
  if (explain_option->count() > 0) {
    ASSIGN_OR_RETURN(out.print, ExplainKernels(layer));
    return out;
  }
  if (config_option->count() > 0) out.config_file = config_file;
  for (const auto& [option, parsed] : declared) {
    if (parsed->count() > 0) out.settings[option] = {raw[option], "--" + option->name};
  }
  return out;
}

std::vector<std::string> SplitCommas(const std::string& text) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t comma = std::min(text.find(',', start), text.size());
    if (comma > start) parts.push_back(text.substr(start, comma - start));
    start = comma + 1;
  }
  return parts;
}

struct Environment {
  Source settings;
  std::optional<std::string> config_file;
};

bool IsOthers(const std::string& variable) {
  return variable.starts_with(kTestsPrefix) ||
         std::find(std::begin(kOthersVariables), std::end(kOthersVariables), variable) != std::end(kOthersVariables);
}

Result<Environment> ReadEnvironment(const std::map<std::string, std::string>& environment) {
  Environment out;
  for (const auto& [variable, value] : environment) {
    if (!variable.starts_with(kEnvironmentPrefix) || IsOthers(variable)) continue;
    std::string name = variable.substr(sizeof(kEnvironmentPrefix) - 1);
    for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (name == "config") {
      out.config_file = value;
      continue;
    }
    const ConfigOption* option = FindConfigOption(name);
    if (option == nullptr) {
      return InvalidArgument("environment: " + variable + " is no setting of the server" + SettingAdvice(name));
    }
    if (out.settings.contains(option)) {
      return InvalidArgument("environment: " + variable + " repeats --" + option->name);
    }
    const bool list = option->kind == ConfigOption::Kind::kList;
    Given given{list ? SplitCommas(value) : std::vector<std::string>{value}, "environment: " + variable};
    if (given.values.empty()) given.values.emplace_back();
    out.settings[option] = std::move(given);
  }
  return out;
}

Status ReadFileEntry(const std::string& path, const YAML::Node& key, const YAML::Node& value, Source& out) {
  const std::string name = key.as<std::string>();
  const ConfigOption* option = FindConfigOption(name);
  const std::string place = path + ": " + name;
  if (option == nullptr) return InvalidArgument(place + ": there is no such setting" + SettingAdvice(name));
  if (out.contains(option)) return InvalidArgument(place + ": repeats --" + option->name);
  Given given{{}, place};
  if (value.IsScalar()) {
    given.values.push_back(value.as<std::string>());
  } else if (value.IsSequence() && option->kind == ConfigOption::Kind::kList) {
    for (const YAML::Node& item : value) {
      if (!item.IsScalar())
        return InvalidArgument(place + ": items of a list must be plain values, not lists or mappings");
      given.values.push_back(item.as<std::string>());
    }
    // An accidentally empty list of keys must not disable authentication.
    if (given.values.empty()) return InvalidArgument(place + ": the list is empty");
  } else {
    return InvalidArgument(place + (value.IsNull() ? ": has no value" : ": takes one value, not a list or mapping"));
  }
  out[option] = std::move(given);
  return Status::Ok();
}

Result<Source> ReadFile(const std::string& path) {
  Source out;
  if (std::error_code error; std::filesystem::is_directory(path, error)) {
    return InvalidArgument("--config: \"" + path + "\" is a folder");
  }
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return out;
    if (!root.IsMap()) return InvalidArgument(path + ": is not a list of `setting: value` lines");
    for (const auto& entry : root) RETURN_IF_ERROR(ReadFileEntry(path, entry.first, entry.second, out));
  } catch (const YAML::BadFile&) {
    return InvalidArgument("--config: cannot read \"" + path + "\"");
  } catch (const YAML::Exception& error) {
    return InvalidArgument(path + ": " + error.what());
  }
  return out;
}

/// The settings of the profile that the sources name, if any. `line` describes them and those that others override.
Result<Source> ReadProfile(const std::array<const Source*, 3>& sources, std::string* line) {
  Source out;
  const ConfigOption* option = FindConfigOption("profile");
  const auto named = std::ranges::find_if(sources, [&](const Source* source) { return source->contains(option); });
  if (named == sources.end()) return out;
  const Given& given = (*named)->at(option);
  const auto settings = FindProfile(given.values.back());
  if (!settings.ok()) return InvalidArgument(given.place + ": " + settings.status().message());
  std::string set, elsewhere;
  for (const auto& [name, value] : *settings) {
    const ConfigOption* one = FindConfigOption(name);
    const bool overridden = std::ranges::any_of(sources, [&](const Source* source) { return source->contains(one); });
    if (overridden) {
      elsewhere += fmt::format("{}--{}", elsewhere.empty() ? "; set elsewhere: " : ", ", name);
    } else {
      set += fmt::format("{}--{} {}", set.empty() ? " " : ", ", name, value);
      out[one] = {{std::string(value)}, "profile " + given.values.back() + ": --" + std::string(name)};
    }
  }
  *line = "profile " + given.values.back() + ":" + (set.empty() ? " nothing" : set) + elsewhere;
  return out;
}

/// Settings that a store of several servers has no use for.
Status CheckSharedStore(const ServerConfig& config, std::optional<StoreDurability> durability) {
  constexpr size_t kMaxName = 64;
  if (config.server_name.size() > kMaxName) return InvalidArgument("--server-name: more than 64 characters");
  if (config.store_url.empty()) {
    if (!config.server_name.empty()) return InvalidArgument("--server-name requires --store-url");
    return Status::Ok();
  }
  if (durability == StoreDurability::kNone) {
    return InvalidArgument("--store-url: with --durability none nothing is stored");
  }
  if (!config.backup_path.empty()) return InvalidArgument("--backup-path: back up the --store-url with pg_dump");
  if (config.verify) return InvalidArgument("--verify: every read of the --store-url is verified");
  if (config.accept_lost_tail) return InvalidArgument("--accept-lost-tail: it is for a --store-path");
  return Status::Ok();
}

/// Settings about storage require a store. `durability`: as given, if it was.
Status CheckStorage(const ServerConfig& config, std::optional<StoreDurability> durability) {
  RETURN_IF_ERROR(CheckSharedStore(config, durability));
  const bool stored = !config.store_path.empty() || !config.store_url.empty();
  const bool kept = stored && durability != StoreDurability::kNone;
  if (!stored && durability && durability != StoreDurability::kNone) {
    return InvalidArgument("--durability requires --store-path or --store-url");
  }
  const std::string why = stored ? "with --durability none nothing is" : "without a --store-path nothing is";
  if (!kept && !config.encryption_key.empty()) return InvalidArgument("--encryption-key-file: " + why + " stored");
  if (!kept && !config.backup_path.empty()) return InvalidArgument("--backup-path: " + why + " stored");
  if (!kept && config.verify) return InvalidArgument("--verify: " + why + " stored");
  if (!kept && config.accept_lost_tail) return InvalidArgument("--accept-lost-tail: " + why + " stored");
  return Status::Ok();
}

/// One model, or a folder of models, which excludes settings of a single one.
Status CheckModels(const ServerConfig& config) {
  if (config.models_dir.empty()) {
    if (config.model.empty()) return InvalidArgument("--model: a model is required, or --models-dir");
    return Status::Ok();
  }
  const std::pair<bool, const char*> excluded[] = {
      {!config.model.empty(), "--model: --models-dir serves its own models"},
      {!config.served_model_name.empty(), "--served-model-name: the models of --models-dir have their own names"},
      {!config.adapters.empty(), "--lora, --soft-prompt: adapters are for one model, not for --models-dir"},
      {config.data_parallel_size > 1, "--data-parallel-size: the models of --models-dir have one engine each"}};
  for (const auto& [given, why] : excluded) {
    if (given) return InvalidArgument(why);
  }
  return Status::Ok();
}

Status CheckCombinations(const ServerConfig& config) {
  RETURN_IF_ERROR(CheckModels(config));
  if (config.gpu.quantization && !config.cuda) {
    return InvalidArgument(
        "--quantization: weights are quantised on a GPU only; set --device cuda, or give a model file "
        "that is quantised itself");
  }
  if (config.speculation.value_or(Speculation::kOff) != Speculation::kOff && !config.single_rank()) {
    return InvalidArgument("--speculate: drafts require a single rank; set off");
  }
  if (config.max_output_tokens.value_or(0) > config.max_output_tokens_limit.value_or(INT64_MAX)) {
    return InvalidArgument(fmt::format("--max-output-tokens: {} is more than --max-output-tokens-limit, which is {}",
                                       *config.max_output_tokens, *config.max_output_tokens_limit));
  }
  if (config.prefill_chunk && config.step_tokens && *config.step_tokens < *config.prefill_chunk) {
    return InvalidArgument("--step-tokens: " + std::to_string(*config.step_tokens) +
                           " is less than --prefill-chunk, which is " + std::to_string(*config.prefill_chunk));
  }
  if (!config.tls_key.empty() && config.tls_certificate.empty()) {
    return InvalidArgument("--ssl-keyfile: give the certificate with --ssl-certfile, too");
  }
  if (!IsLoopbackHost(config.host) && config.api_keys.empty() && config.keys_file.empty() && !config.allow_public) {
    return InvalidArgument(
        "--host: " + config.host +
        " is reachable from outside and no key is set; set --keys-file or --api-key, or --allow-public to let "
        "everyone in");
  }
  return Status::Ok();
}

// Default window of a model without a bound.
constexpr int64_t kUnboundedWindow = 2048;

void SetStepSizes(const ServerConfig& config, const ModelSpec& spec, EngineOptions& options) {
  if (config.cuda) {  // a GPU is not filled by fewer rows, and they save little time
    options.prefill_chunk = options.step_tokens = GpuPrefillChunk(spec, options.memory_len);
    options.target_itl_ms = 50;
    options.row_tile = 256;
  }
  if (config.step_tokens) {
    options.step_tokens = *config.step_tokens;
    options.prefill_chunk = std::min(options.prefill_chunk, options.step_tokens);
  }
  if (config.prefill_chunk) {
    options.prefill_chunk = *config.prefill_chunk;
    options.step_tokens = std::max(options.step_tokens, options.prefill_chunk);
  }
  if (config.target_itl_ms) options.target_itl_ms = static_cast<double>(*config.target_itl_ms);
}

// Relative positions only: prompts and answers may be longer than in training.
Result<EngineOptions> ResolveEncoderOptions(const ServerConfig& config, const ModelSpec& spec, EngineOptions options) {
  options.pinned_max = config.pinned_max.value_or(std::min(spec.trained_context, limits::kMaxPinnedTokens));
  options.memory_len = config.memory_len.value_or(kUnboundedWindow);
  SetStepSizes(config, spec, options);
  options.session_len = config.session_len.value_or(int64_t{1} << 20);
  return options;
}

}  // namespace

Result<ParsedConfig> ParseConfig(const std::vector<std::string>& args,
                                 const std::map<std::string, std::string>& environment) {
  ParsedConfig out;
  ASSIGN_OR_RETURN(const CommandLine command_line, ReadCommandLine(args));
  out.print = command_line.print;
  if (!out.print.empty()) return out;
  ASSIGN_OR_RETURN(const Environment from_environment, ReadEnvironment(environment));
  Source from_file;
  const auto& file = command_line.config_file ? command_line.config_file : from_environment.config_file;
  if (file) {
    ASSIGN_OR_RETURN(from_file, ReadFile(*file));
  }
  const std::array<const Source*, 3> sources = {&command_line.settings, &from_environment.settings, &from_file};
  ASSIGN_OR_RETURN(const Source from_profile, ReadProfile(sources, &out.profile_line));
  bool durability_given = false;
  for (const ConfigOption& option : ConfigOptions()) {
    for (const Source* source : {sources[0], sources[1], sources[2], &from_profile}) {
      const auto found = source->find(&option);
      if (found == source->end()) continue;
      durability_given = durability_given || option.name == "durability";
      if (Status status = option.apply(out.config, found->second.values); !status.ok()) {
        return InvalidArgument(found->second.place + ": " + status.message());
      }
      break;
    }
  }
  ServerConfig& config = out.config;
  RETURN_IF_ERROR(CheckCombinations(config));
  RETURN_IF_ERROR(CheckStorage(config, durability_given ? std::optional(config.durability) : std::nullopt));
  if (config.store_path.empty() && config.store_url.empty()) config.durability = StoreDurability::kNone;
  if (!config.store_url.empty() && !durability_given) config.durability = StoreDurability::kTurn;
  return out;
}

Speculation SpeculationOf(const ServerConfig& config) {
  return config.speculation.value_or(config.cuda && config.single_rank() ? Speculation::kMtp : Speculation::kOff);
}

Result<EngineOptions> ResolveEngineOptions(const ServerConfig& config, const ModelSpec& spec) {
  EngineOptions options;
  options.slots = config.slots;
  options.kv_bytes = config.kv_cache_mb << 20;
  options.rebuild_windows = config.rebuild_windows;
  options.queue_limit = config.queue_limit;
  options.max_wait_s = static_cast<double>(config.max_wait_ms) * 1e-3;
  options.speculation = SpeculationOf(config);
  options.kv_dtype = config.kv_cache_dtype;

  if (spec.encoder_layers > 0) return ResolveEncoderOptions(config, spec, std::move(options));
  const int64_t trained = spec.context();
  const bool bounded = trained > 0;
  // A small context leaves most of its room to the window.
  options.pinned_max = config.pinned_max.value_or(bounded ? std::clamp<int64_t>(trained / 4, 1, 256) : 256);
  if (bounded && options.pinned_max >= trained) {
    return InvalidArgument("--pinned-max: " + std::to_string(options.pinned_max) +
                           " leaves no room in the model's trained context of " + std::to_string(trained));
  }
  int64_t most = bounded ? trained - options.pinned_max : int64_t{1} << 40;
  options.memory_len = config.memory_len.value_or(bounded ? most : kUnboundedWindow);
  options.fits_window = !config.memory_len;
  if (options.memory_len > most) {
    return InvalidArgument("--memory-len: " + std::to_string(options.memory_len) + " is more than the " +
                           std::to_string(most) + " tokens that this model can use (trained context " +
                           std::to_string(trained) + ", pinned " + std::to_string(options.pinned_max) + ")");
  }
  SetStepSizes(config, spec, options);
  // Learned position embeddings end with their table; rotary ones continue.
  const int64_t longest = spec.learned_positions ? spec.trained_context : int64_t{1} << 40;
  const int64_t usual = std::max(int64_t{1} << 20, options.memory_len + options.pinned_max);
  options.session_len = config.session_len.value_or(std::min(usual, longest));
  if (options.session_len > longest) {
    return InvalidArgument("--session-len: " + std::to_string(options.session_len) + " is more than the model's " +
                           std::to_string(longest) + " learned positions");
  }
  return options;
}

}  // namespace ringside
