#include "tools/convert/convert_command.h"

#include <CLI/CLI.hpp>
#include <map>

#include "engine/convert/convert.h"

namespace ringside {
namespace {

using Format = ModelFiles::Format;

constexpr const char* kSummary = "Write a model's files in another format";
constexpr const char* kFooter =
    "A format that cannot hold something of the model, its tokenizer, chat template or sampling defaults is refused, "
    "naming it. Memory is needed for the largest tensor, not for the model.";

const std::map<std::string, Format> kFormats = {
    {"safetensors", Format::kSafetensors}, {"gguf", Format::kGguf}, {"fastertransformer", Format::kFasterTransformer}};
const std::map<std::string, DType> kTypes = {{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};

struct Arguments {
  ConvertOptions options;
  std::string format, type;
  bool no_tokenizer = false;
};

template <class Values>
std::vector<std::string> Names(const Values& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

void AddOptions(CLI::App& app, Arguments& given) {
  app.footer(kFooter);
  app.add_option("from", given.options.from,
                 "GGUF file, folder of Hugging Face or FasterTransformer, or checkpoint of Megatron-LM or NeMo")
      ->type_name("PATH")
      ->required();
  app.add_option("to", given.options.to, "The file or folder to make; nothing may be there")
      ->type_name("PATH")
      ->required();
  app.add_option(
         "--format", given.format,
         "What to write [gguf where the name ends in .gguf, fastertransformer for several GPUs, else safetensors]")
      ->check(CLI::IsMember(Names(kFormats)));
  app.add_option("--type", given.type,
                 "Of the weights, rounded to nearest [the matrices' own, f32 where these are quantised]")
      ->check(CLI::IsMember(Names(kTypes)));
  app.add_option("--tensor-parallel", given.options.gpus,
                 "GPUs that a folder of FasterTransformer is cut for, which must divide the heads [1]")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.add_flag("--no-tokenizer", given.no_tokenizer, "Leave out tokenizer, chat template and sampling defaults");
}

}  // namespace

CommandOutcome RunConvertCommand(const std::vector<std::string>& args) {
  CLI::App app(kSummary, "ringside-convert");
  app.set_version_flag("--version", "ringside-convert " RINGSIDE_VERSION);
  Arguments given;
  AddOptions(app, given);
  if (args == std::vector<std::string>{"--describe"}) return {.to_stdout = DescribeProgram(app, RINGSIDE_VERSION)};
  if (auto outcome = ParseCommand(app, args)) return *outcome;
  ConvertOptions& options = given.options;
  if (!given.format.empty()) options.format = kFormats.at(given.format);
  if (!given.type.empty()) options.dtype = kTypes.at(given.type);
  options.tokenizer = !given.no_tokenizer;
  const Status status = Convert(options);
  if (status.ok()) return {};
  return {kCommandFailed, "", "ringside-convert: " + status.message() + "\n"};
}

}  // namespace ringside
