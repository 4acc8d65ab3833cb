#include "base/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/cli/near_name.h"

namespace ringside {
namespace {

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

std::string DidYouMean(std::string_view near) {
  return near.empty() ? "" : "Did you mean " + std::string(near) + "?\n";
}

/// A line that names the command nearest to the first word, or "".
std::string NearCommand(const CLI::App& command, std::string_view word) {
  std::vector<std::string_view> names;
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* known : commands) names.push_back(known->get_name());
  return DidYouMean(NearName(word, names));
}

/// A line that names the option or the command nearest to the first unknown one, or "".
std::string Suggestion(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty() && !unknown.front().starts_with('-')) return NearCommand(*command, unknown.front());
  std::vector<std::string_view> names;
  for (const CLI::Option* option : command->get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  for (const std::string& word : unknown) {
    if (!word.starts_with("--")) continue;
    const std::string_view near = NearName(std::string_view(word).substr(2, word.find('=') - 2), names);
    return near.empty() ? "" : DidYouMean("--" + std::string(near));
  }
  return "";
}

}  // namespace

int PrintOutcome(const CommandOutcome& outcome) {
  std::fputs(outcome.to_stderr.c_str(), stderr);
  std::fputs(outcome.to_stdout.c_str(), stdout);
  return outcome.exit_code;
}

std::optional<CommandOutcome> ParseCommand(CLI::App& app, const std::vector<std::string>& args) {
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
    if (kind == CLI::ExitCodes::ExtrasError) err << Suggestion(app);
    if (kind == CLI::ExitCodes::RequiredError && !args.empty()) err << NearCommand(app, args.front());
    return CommandOutcome{code == 0 ? 0 : kBadCommand, out.str(), err.str()};
  }
}

std::string DescribeCommand(const CLI::App& app) { return Describe(app).dump(); }

std::string DescribeProgram(const CLI::App& app, const std::string& version) {
  nlohmann::json described = Describe(app);
  described["version"] = version;
  return described.dump(1) + "\n";
}

}  // namespace ringside
