#include "ws/config/config_options.h"

#include <algorithm>
#include <string_view>

#include "base/limits.h"
#include "kernels/formats/row_quantization.h"
#include "ws/config/config_key.h"
#include "ws/config/config_values.h"
#include "ws/config/profiles.h"

namespace ringside {
namespace {

using Kind = ConfigOption::Kind;

Status ApplyThreads(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(const int64_t threads, ParseInteger(values.back(), 0, 1024));
  config.cpu.threads = static_cast<int>(threads);
  return Status::Ok();
}

bool IsAdapterName(std::string_view name) {
  return !name.empty() && std::ssize(name) <= limits::kMaxAdapterNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-:").find(c) != std::string_view::npos;
  });
}

Status AddAdapters(ServerConfig& config, const Values& values, NamedAdapter::Kind kind) {
  for (const std::string& value : values) {
    const size_t at = value.find('=');
    NamedAdapter adapter{value.substr(0, at), at == std::string::npos ? "" : value.substr(at + 1), kind};
    if (adapter.path.empty() || !IsAdapterName(adapter.name)) {
      return BadValue(value, "NAME=PATH, with a name of up to 64 letters, digits and any of . _ - :");
    }
    if (std::ranges::any_of(config.adapters, [&](const auto& other) { return other.name == adapter.name; })) {
      return InvalidArgument("two adapters have the name '" + adapter.name + "'");
    }
    config.adapters.push_back(std::move(adapter));
  }
  return Status::Ok();
}

Status ApplyAliases(ServerConfig& config, const Values& values) {
  for (const std::string& value : values) {
    const bool printable = std::ranges::all_of(value, [](char c) { return c > ' ' && c <= '~'; });
    const bool named = !value.empty() && value.size() <= 256 && value.find('*') >= value.size() - 1;
    if (!printable || !named) return BadValue(value, "a name of up to 256 characters, with a * at its end or without");
    config.model_aliases.push_back(value);
  }
  return Status::Ok();
}

Status ApplyServedName(ServerConfig& config, const Values& values) {
  if (values.back() == "*") return ApplyAliases(config, {"*"});
  return Text(&ServerConfig::served_model_name)(config, values);
}

Status ApplyLora(ServerConfig& config, const Values& values) {
  return AddAdapters(config, values, NamedAdapter::Kind::kLora);
}

Status ApplySoftPrompts(ServerConfig& config, const Values& values) {
  return AddAdapters(config, values, NamedAdapter::Kind::kSoftPrompt);
}

Status ApplyDevice(ServerConfig& config, const Values& values) {
  const std::string_view value = values.back();
  constexpr std::string_view kNumbered = "cuda:";
  config.cuda = value != "cpu";
  config.gpu.device = 0;
  if (value == "cpu" || value == "cuda") return Status::Ok();
  if (!value.starts_with(kNumbered)) return BadValue(values.back(), "cpu, cuda or cuda:N");
  ASSIGN_OR_RETURN(const int64_t device, ParseInteger(std::string(value.substr(kNumbered.size())), 0, 1023));
  config.gpu.device = static_cast<int>(device);
  return Status::Ok();
}

Status ApplyDtype(ServerConfig& config, const Values& values) {
  const std::string& value = values.back();
  if (value != "f16" && value != "bf16") return BadValue(value, "f16 or bf16");
  config.gpu.dtype = value == "f16" ? DType::kF16 : DType::kBF16;
  return Status::Ok();
}

Status ApplyQuantization(ServerConfig& config, const Values& values) {
  const std::string& value = values.back();
  config.gpu.quantization = QuantizationNamed(value);
  config.gpu.keeps_blocks = value != "none";
  if (!config.gpu.quantization && value != "none" && value != "file") {
    return BadValue(value, "file, none, int8 or fp8");
  }
  return Status::Ok();
}

Status ApplyInstructionSet(ServerConfig& config, const Values& values) {
  config.cpu.instruction_set = values.back();
  return Status::Ok();
}

Status ApplyDeterministic(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(config.gpu.deterministic, ParseSwitch(values.back()));
  return Status::Ok();
}

Status ApplyAllReduce(ServerConfig& config, const Values& values) {
  const std::string& value = values.back();
  if (value != "auto" && value != "own" && value != "nccl") return BadValue(value, "auto, own or nccl");
  config.gpu.all_reduce = value == "own" ? AllReduce::kOwn : value == "nccl" ? AllReduce::kNccl : AllReduce::kAuto;
  return Status::Ok();
}

Status ApplyGpuMemory(ServerConfig& config, const Values& values) {
  ASSIGN_OR_RETURN(const double share, ParseReal(values.back(), 0.01, 1.0));
  config.gpu.memory_utilization = share;
  return Status::Ok();
}

std::vector<ConfigOption> ModelSettings() {
  using C = ServerConfig;
  return {
      {"profile",
       {},
       Kind::kValue,
       ProfileNames(),
       "settings for a kind of machine; the log lists them, and every setting that is given wins [none]",
       Text(&C::profile)},
      {"model",
       {"m"},
       Kind::kValue,
       "PATH",
       "GGUF file, folder of Hugging Face or FasterTransformer, or checkpoint of Megatron-LM or NeMo (this or "
       "--models-dir is required)",
       Text(&C::model)},
      {"models-dir",
       {},
       Kind::kValue,
       "DIR",
       "instead of --model: serve every model below this folder, each loaded when a request names it [off]",
       Text(&C::models_dir)},
      {"models-max",
       {},
       Kind::kValue,
       "N",
       "models of --models-dir in memory at once; the least recently used idle one makes room [1]",
       Integer(&C::models_max, 1, 64)},
      {"models-memory-mb",
       {},
       Kind::kValue,
       "MB",
       "memory of all loaded models of --models-dir, weights and caches [the machine's, without --host-cache-mb]",
       Integer(&C::models_memory_mb, 1, 1 << 30)},
      {"served-model-name",
       {"alias"},
       Kind::kValue,
       "NAME",
       "model name for clients; '*' accepts any name as well [from the file or folder]",
       ApplyServedName},
      {"model-alias",
       {},
       Kind::kList,
       "NAME",
       "further model name, such as gpt-4o; a final * matches any ending, as in claude-*; may be repeated",
       ApplyAliases},
      {"strict-requests",
       {},
       Kind::kSwitch,
       "",
       "refuse requests with unknown fields and hints instead of ignoring and reporting them [off]",
       Switch(&C::strict_requests)},
      {"lora",
       {"lora-modules"},
       Kind::kList,
       "NAME=PATH",
       "LoRA adapter of the model, PEFT's folder or a GGUF file, and the model name that asks for it; may be repeated",
       ApplyLora},
      {"soft-prompt",
       {},
       Kind::kList,
       "NAME=PATH",
       "soft prompt of the model (prompt tuning, p-tuning), PEFT's folder or a safetensors file with its table, and "
       "the model name that asks for it; may be repeated",
       ApplySoftPrompts},
      {"load-format",
       {},
       Kind::kValue,
       "auto|dummy",
       "dummy: random weights for the shape of a folder's config.json, to measure with [auto]",
       Choice<LoadFormat>(&C::load_format, {{"auto", LoadFormat::kAuto}, {"dummy", LoadFormat::kDummy}})},
      {"chat-template",
       {},
       Kind::kValue,
       "NAME|FILE",
       "chat template: a family's name, or Jinja source [the model's own]",
       Text(&C::chat_template)},
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
       "conversations that hold a KV cache on the device at once [8; GPU: what fits 1,024 tokens each]",
       Integer(&C::slots, 1, 4096)},
      {"kv-cache-mb",
       {},
       Kind::kValue,
       "N",
       "memory of all slots, MiB, at least one window [whole windows, without --memory-len at most 3/4 of free memory; "
       "GPU: what fits]",
       Integer(&C::kv_cache_mb, 1, int64_t{1} << 24)},
      {"memory-len",
       {"window"},
       Kind::kValue,
       "N",
       "tokens of a conversation that stay visible [the model's context, as far as memory allows]",
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
       "f32|f16|bf16|fp8",
       "number format of keys and values [f16]",
       Choice<DType>(&C::kv_cache_dtype, {{"f16", DType::kF16},
                                          {"bf16", DType::kBF16},
                                          {"f32", DType::kF32},
                                          {"fp8", DType::kF8E4M3},
                                          {"fp8_e4m3", DType::kF8E4M3}})},
      {"device", {}, Kind::kValue, "cpu|cuda|cuda:N", "where the forward pass runs; cuda is cuda:0 [cpu]", ApplyDevice},
      {"data-parallel-size",
       {"dp", "cpu-engines"},
       Kind::kValue,
       "N",
       "engines that share the conversations, each with a copy of the model on a separate device, from --device on; on "
       "the CPU each with a share of the cores [1]",
       Integer(&C::data_parallel_size, 1, 64)},
      {"tensor-parallel-size",
       {"tp"},
       Kind::kValue,
       "N",
       "devices that share the model, from --device on, or groups of threads on the CPU; in this process, or in all "
       "that mpirun has started [1]",
       Integer(&C::tensor_parallel_size, 1, 8)},
      {"tensor-parallel-force",
       {},
       Kind::kSwitch,
       "",
       "share even a model that is too small to gain from it [off]",
       Switch(&C::tensor_parallel_force)},
      {"pipeline-parallel-size",
       {"pp"},
       Kind::kValue,
       "N",
       "stages of consecutive layers, on --tensor-parallel-size devices each [1]",
       Integer(&C::pipeline_parallel_size, 1, 64)},
      {"all-reduce",
       {},
       Kind::kValue,
       "auto|own|nccl",
       "how GPUs that share the model sum partial results: own kernels, NCCL, or the faster one per message size, "
       "timed at start [auto]",
       ApplyAllReduce},
      {"rank-timeout",
       {},
       Kind::kValue,
       "SECONDS",
       "time to wait for a device or process that shares the model before the server ends [30]",
       Integer(&C::rank_timeout_s, 1, 3600)},
      {"dtype", {}, Kind::kValue, "f16|bf16", "number format of weights and activations on a GPU [bf16]", ApplyDtype},
      {"quantization",
       {"q"},
       Kind::kValue,
       "file|none|int8|fp8",
       "weights on a GPU: as in the file (4 to 8 bits are kept), dequantized, or one byte each with a scale per output "
       "[file]",
       ApplyQuantization},
      {"gpu-memory-utilization",
       {},
       Kind::kValue,
       "SHARE",
       "share of the GPU's free memory, taken at start [0.9]",
       ApplyGpuMemory},
      {"deterministic",
       {},
       Kind::kSwitch,
       "",
       "on a GPU: the same answer whatever else runs, at a price (the CPU always does) [off]",
       ApplyDeterministic},
      {"threads", {}, Kind::kValue, "N", "threads of the forward pass; 0 = all cores [0]", ApplyThreads},
      {"instruction-set",
       {},
       Kind::kValue,
       "NAME",
       "portable; avx2, avx_vnni, avx512, avx512_vnni, amx; neon, neon_dotprod, neon_i8mm [the best there is]",
       ApplyInstructionSet},
      {"prefill-chunk",
       {},
       Kind::kValue,
       "N",
       "most new tokens of one conversation in a step; 512 where its window is full [256; GPU: 2048, of small models "
       "up to 8192 if --memory-len allows]",
       Integer(&C::prefill_chunk, 1, limits::kMaxPrefillChunkTokens)},
      {"step-tokens",
       {},
       Kind::kValue,
       "N",
       "most new tokens of all conversations in a step [256, or a chunk; GPU: a chunk]",
       Integer(&C::step_tokens, 1, 65536)},
      {"target-itl-ms",
       {"max-step-ms"},
       Kind::kValue,
       "MS",
       "goal for the time between two tokens of an answer, at p99; it limits the prompt tokens of a step that also "
       "decodes [100; GPU: 50]",
       Integer(&C::target_itl_ms, 1, 60000)},
      {"speculate",
       {},
       Kind::kValue,
       "off|ngram|mtp",
       "draft tokens and verify several per step where that is faster; answers stay the same. ngram: from earlier text "
       "of the conversation; mtp: also by the model's multi-token prediction layer, if it has one [off; GPU: mtp]",
       Choice<Speculation>(&C::speculation,
                           {{"off", Speculation::kOff}, {"ngram", Speculation::kNgram}, {"mtp", Speculation::kMtp}})},
      {"rebuild-windows",
       {},
       Kind::kValue,
       "N",
       "windows from which a lost cache is rebuilt; 0 = enough for an exact one [0]",
       Integer(&C::rebuild_windows, 0, 1 << 20)},
      {"queue-limit",
       {},
       Kind::kValue,
       "N",
       "turns of one key that may wait for a slot of an engine; several waiting keys share twice that number [256]",
       Integer(&C::queue_limit, 1, limits::kEngineInboxMessages)},
      {"max-wait-s",
       {},
       Kind::kValue,
       "SECONDS",
       "refuse a turn whose predicted wait before its first row is longer; 0 = no limit [0]",
       Milliseconds(&C::max_wait_ms, 3600)},
      {"temperature",
       {},
       Kind::kValue,
       "X",
       "sampling temperature of requests that set none [the model's own, or 0.7]",
       Real(&C::temperature, 0, 2)},
      {"top-p",
       {},
       Kind::kValue,
       "X",
       "top_p of requests that set none [the model's own, or 0.9]",
       Real(&C::top_p, 1e-6, 1)},
      {"max-output-tokens",
       {},
       Kind::kValue,
       "N",
       "longest answer of requests that set none [the rest of the window]",
       Integer(&C::max_output_tokens, 1, kMost)},
      {"no-repetition-guard",
       {},
       Kind::kSwitch,
       "",
       "do not end answers that have become a loop [off]",
       Switch(&C::no_repetition_guard)},
      {"max-output-tokens-limit",
       {},
       Kind::kValue,
       "N",
       "upper bound of a request's own limit [32768, or the window if larger]",
       Integer(&C::max_output_tokens_limit, 1, kMost)},
      {"max-input-tokens",
       {},
       Kind::kValue,
       "N",
       "most new tokens of a turn [32768, or the window if larger]",
       Integer(&C::max_input_tokens, 1, kMost)},
      {"turn-timeout",
       {},
       Kind::kValue,
       "SECONDS",
       "time limit of a turn, queue time included; then it ends as incomplete; 0 = none [1800]",
       Integer(&C::turn_timeout_s, 0, 365 * 86400)},
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

std::vector<ConfigOption> SessionSettings() {
  using C = ServerConfig;
  constexpr int64_t kMost = int64_t{1} << 40;
  constexpr double kYear_s = 365 * 86400;
  constexpr int64_t kMostMegabytes = int64_t{1} << 24;
  return {
      {"session-idle-host",
       {},
       Kind::kValue,
       "SECONDS",
       "idle time after which a cache moves from its slot to host memory [60]",
       Milliseconds(&C::session_idle_host_ms, kYear_s)},
      {"session-idle-disk",
       {},
       Kind::kValue,
       "SECONDS",
       "idle time after which a cache moves from host memory to the --store-path [600]",
       Milliseconds(&C::session_idle_disk_ms, kYear_s)},
      {"session-ttl",
       {},
       Kind::kValue,
       "SECONDS",
       "idle time after which a conversation is deleted; 0 = never [2592000]",
       Integer(&C::session_ttl_s, 0, int64_t{100} * 365 * 86400)},
      {"host-cache-mb",
       {},
       Kind::kValue,
       "N",
       "memory for caches that have no slot, MiB; 0 = none [1024]",
       Integer(&C::host_cache_mb, 0, kMostMegabytes)},
      {"disk-cache-mb",
       {},
       Kind::kValue,
       "N",
       "room for caches in the --store-path, MiB; 0 = none [16384]",
       Integer(&C::disk_cache_mb, 0, kMostMegabytes)},
      {"max-turns-per-owner",
       {},
       Kind::kValue,
       "N",
       "turns that one key may have running and waiting; 0 = no limit [64]",
       Integer(&C::max_turns_per_owner, 0, kMost)},
      {"max-sessions-per-owner",
       {},
       Kind::kValue,
       "N",
       "conversations that one key may have; 0 = no limit [10000]",
       Integer(&C::max_sessions_per_owner, 0, kMost)},
      {"max-chains-per-owner",
       {},
       Kind::kValue,
       "N",
       "chains of responses that one key may have; for one more the least recently used is deleted; 0 = no limit "
       "[10000]",
       Integer(&C::max_chains_per_owner, 0, kMost)},
      {"max-stored-mb-per-owner",
       {},
       Kind::kValue,
       "N",
       "journal bytes of one key, MiB; more is refused; 0 = no limit [16384]",
       Integer(&C::max_stored_mb_per_owner, 0, kMostMegabytes)},
      {"max-text-mb-per-owner",
       {},
       Kind::kValue,
       "N",
       "memory for the text of one key's conversations, MiB; beyond it, text is reloaded from the --store-path on "
       "demand, "
       "or refused without one; 0 = no limit [1024]",
       Integer(&C::max_text_mb_per_owner, 0, kMostMegabytes)},
      {"max-tokens-per-minute-per-owner",
       {},
       Kind::kValue,
       "N",
       "tokens that may be read and written for one key in a minute; 0 = no limit [0]",
       Integer(&C::max_tokens_per_owner, 0, kMost)},
      {"max-detached-tokens",
       {},
       Kind::kValue,
       "N",
       "tokens that an answer without a listener may still generate; 0 = no limit [4096]",
       Integer(&C::max_detached_tokens, 0, kMost)},
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
    std::vector<ConfigOption> all = ModelSettings();
    for (auto* part : {&NetworkSettings, &StorageSettings, &SessionSettings, &EngineSettings}) {
      for (ConfigOption& option : part()) all.push_back(std::move(option));
    }
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
