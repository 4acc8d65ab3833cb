#include "clients/cli/describe.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace ringside::client {
namespace {

/// The server has an equivalent for its own commands; client and server share no code.
nlohmann::json Describe(const CLI::App& app) {
  using nlohmann::json;
  json options = json::array(), arguments = json::array(), commands = json::array();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      arguments.push_back({{"name", option->get_single_name()},
                           {"value", option->get_type_name()},
                           {"help", option->get_description()},
                           {"required", option->get_required()},
                           {"many", option->get_items_expected_max() > 1}});
      continue;
    }
    json flags = json::array();
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    const std::string value = option->get_type_size_max() == 0 ? "" : option->get_type_name();
    options.push_back({{"flags", flags}, {"value", value}, {"help", option->get_description()}, {"group", ""}});
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(Describe(*command));
  }
  return {{"name", app.get_name()}, {"summary", app.get_description()}, {"footer", app.get_footer()},
          {"options", options},     {"arguments", arguments},           {"commands", commands}};
}

}  // namespace

std::string DescribeCommandLine(const CLI::App& app) {
  nlohmann::json described = Describe(app);
  described["version"] = RINGSIDE_VERSION;
  return described.dump(1) + "\n";
}

}  // namespace ringside::client
