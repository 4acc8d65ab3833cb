#include "clients/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "base/cli/command_line.h"
#include "base/cli/their_settings.h"
#include "clients/program/server_options.h"

namespace ringside::client {
namespace {

struct Raw {
  std::string colour = "auto";
  std::map<std::string, std::string> settings;
  std::vector<std::string> stops, prompt;
  std::string system, exported;
  bool no_history = false, ephemeral = false, keep = false, show_thinking = false, hide_thinking = false;
};

/// Options of every chat command, wherever its server comes from.
void AddChatOptions(CLI::App* chat, Options& options, Raw& raw) {
  chat->add_option("--color,--colour", raw.colour,
                   "Colour: auto (on a terminal, unless NO_COLOR is set), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  auto* session = chat->add_option("-s,--session", options.chat.session,
                                   "Continue this conversation: its id, or its number in the list");
  auto* last = chat->add_flag("-c,--continue", options.chat.continue_last, "Continue the conversation used last");
  auto* system = chat->add_option("--system", raw.system, "System message of a new conversation");
  session->excludes(last);
  system->excludes(session)->excludes(last);
  auto* ephemeral = chat->add_flag("--ephemeral", raw.ephemeral,
                                   "Delete the conversation on exit (the default for a new one with piped input)");
  chat->add_flag("--keep", raw.keep, "Keep the conversation even with piped input")->excludes(ephemeral);
  ephemeral->excludes(session)->excludes(last);
  chat->add_flag("--plain", options.chat.plain, "Show answers verbatim instead of rendering Markdown");
  auto* show = chat->add_flag("--show-thinking", raw.show_thinking,
                              "Show the model's reasoning (the default on a terminal, not in a pipe)");
  chat->add_flag("--hide-thinking", raw.hide_thinking, "Hide the model's reasoning")->excludes(show);
  for (const std::string& name : Settings::Names()) {
    if (name == "stop") continue;
    std::string flag = "--" + name;
    for (char& c : flag) c = c == '_' ? '-' : c;
    chat->add_option(flag, raw.settings[name], "As /set " + name);
  }
  chat->add_option("--stop", raw.stops, "Text that ends an answer; repeatable")->take_all()->expected(1);
  chat->add_flag("--stats", options.chat.stats, "Show the cost after every answer");
  chat->add_flag("--no-history", raw.no_history, "Do not keep an input history");
  chat->add_option("prompt", raw.prompt, "Words of the prompt; piped standard input precedes them");
}

CLI::App* AddChat(CLI::App& app, Options& options, Raw& raw) {
  CLI::App* chat = app.add_subcommand("chat", "Chat in the terminal; answer once if there is a prompt or piped input");
  AddServerOptions(*chat, options.server);
  chat->add_option("--model", options.chat.model, "One of the server's models, for a new conversation");
  AddChatOptions(chat, options, raw);
  return chat;
}

CLI::App* AddRun(CLI::App& app, Options& options, Raw& raw) {
  CLI::App* run = app.add_subcommand("run", "Start a private server with a model, chat with it, stop it");
  run->add_option(
         "model", options.run.model,
         "The name of a model on this machine (ringside models), one that ringside pull takes, or a path: GGUF "
         "file, Hugging Face or FasterTransformer folder, or Megatron-LM or NeMo checkpoint")
      ->type_name("PATH")
      ->required();
  run->add_option("--store-path", options.run.store_path,
                  "Folder for the conversations [ringside/run in the user's data folder]")
      ->type_name("PATH");
  AddChatOptions(run, options, raw);
  run->footer("The server reads its settings from the environment: RINGSIDE_DEVICE=cuda, RINGSIDE_MEMORY_LEN=4096.");
  return run;
}

CLI::App* AddModels(CLI::App& app, Options& options) {
  CLI::App* models = app.add_subcommand(
      "models", "List the models on this machine: those that load, their memory, and the tokens per second to expect");
  models->add_flag("--json", options.models_json, "Print everything, as JSON");
  CLI::Option* served = models->add_flag("--server", options.served_models,
                                         "List the models of a running server instead, with their states and memory");
  AddServerOptions(*models, options.server);
  for (const char* name : {"--url", "--api-key", "--cacert", "--insecure"}) models->get_option(name)->needs(served);
  models->footer(
      "Searches the folders of ringside pull, Hugging Face, LM Studio and Ollama. Reads headers only, and measures the "
      "memory bandwidth for a third of a second.");
  return models;
}

/// `ringside load` and `ringside unload`.
void AddModelChanges(CLI::App& app, Options& options) {
  for (const auto& [name, help] :
       {std::pair("load", "Load a model of the server's --models-dir now (needs a key with scope admin)"),
        std::pair("unload", "Free its memory; conversations stay (needs a key with scope admin)")}) {
    CLI::App* verb = app.add_subcommand(name, help);
    AddServerOptions(*verb, options.server);
    verb->add_option("model", options.changed_model, "A model of ringside models --server")
        ->type_name("NAME")
        ->required();
  }
}

CLI::App* AddPull(CLI::App& app, Options& options) {
  CLI::App* pull = app.add_subcommand("pull", "Download a model; continue an interrupted download");
  pull->add_option("model", options.pull.reference,
                   "hf:OWNER/REPO[:QUANTISATION] of Hugging Face, NAME[:TAG] of Ollama's library, or the URL of a GGUF "
                   "file")
      ->type_name("MODEL")
      ->required();
  pull->add_option("--sha256", options.pull.sha256, "The file's digest, for a URL")->type_name("HEX");
  pull->add_option("--retries", options.pull.retries, "Attempts without a new byte after which it gives up [5]")
      ->type_name("N")
      ->check(CLI::Range(0, 1000).description(""));
  pull->add_option("--timeout", options.pull.timeout_s, "Longest time without a byte [30]")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600).description(""));
  pull->add_option("--cacert", options.pull.ca_file, "Trust certificates of the authorities in this file")
      ->type_name("PATH");
  pull->add_flag("-q,--quiet", options.pull.quiet, "Show no progress");
  pull->footer(
      "Prints the model's path. A download is verified by its digest before the model gets its name. HF_TOKEN is sent "
      "to Hugging Face only; HF_ENDPOINT and OLLAMA_REGISTRY name mirrors.");
  return pull;
}

/// The parsed sessions verb.
SessionsOptions::Verb SessionsVerb(const CLI::App& sessions) {
  using Verb = SessionsOptions::Verb;
  static constexpr std::pair<const char*, Verb> kVerbs[] = {{"show", Verb::kShow},
                                                            {"export", Verb::kExport},
                                                            {"import", Verb::kImport},
                                                            {"delete", Verb::kDelete},
                                                            {"verify", Verb::kVerify}};
  for (const auto& [name, verb] : kVerbs) {
    if (sessions.got_subcommand(name)) return verb;
  }
  return Verb::kList;
}

CLI::App* AddSessions(CLI::App& app, Options& options, Raw& raw) {
  CLI::App* sessions = app.add_subcommand("sessions", "List and manage the conversations on the server");
  AddServerOptions(*sessions, options.server);
  sessions->require_subcommand(0, 1);
  const auto add_json = [&](CLI::App* verb) {
    verb->add_flag("--json", options.sessions.json, "Print everything the server returns, as JSON");
  };
  add_json(sessions);
  const auto add = [&](const char* name, const char* help) {
    CLI::App* verb = sessions->add_subcommand(name, help);
    AddServerOptions(*verb, options.server);
    return verb;
  };
  const auto add_ids = [&](CLI::App* verb, const char* help) {
    return verb->add_option("id", options.sessions.ids, help)->type_name("ID ...");
  };
  CLI::App* list = add("list", "One line per conversation, newest first (the default verb)");
  list->add_option("-n,--limit", options.sessions.limit, "Maximum number of conversations")
      ->check(CLI::Range(1, 1000000));
  add_json(list);
  CLI::App* show = add("show", "Show a conversation's size and where it is stored");
  add_ids(show, "Conversations: ids (conv_...), or numbers in the list")->required();
  add_json(show);
  CLI::App* exporting = add("export", "Export a conversation to a file");
  exporting->add_option("id", raw.exported, "The conversation")->required();
  exporting->add_option("file", options.sessions.path, "File to create; - for standard output [ID.ringside]")
      ->type_name("PATH");
  add("import", "Import an exported conversation as a new one")
      ->add_option("file", options.sessions.path, "File to read; - for standard input")
      ->type_name("PATH")
      ->required();
  add_ids(add("delete", "Delete conversations permanently"), "Conversations, as for show")->required();
  CLI::App* verify = add("verify", "Verify stored conversations; exits with 74 if any is damaged");
  add_ids(verify, "Conversations [all, of every owner]");
  verify->add_flag("--json", options.sessions.json, "Print the verdicts as JSON");
  return sessions;
}

CLI::App* AddEngines(CLI::App& app, Options& options) {
  CLI::App* engines = app.add_subcommand(
      "engines",
      "Show the server's engines (slots, memory, turns), drain or resume one (needs a key with scope admin)");
  engines->require_subcommand(0, 1);
  const auto add_usual = [&](CLI::App* verb) {
    AddServerOptions(*verb, options.server);
    verb->add_flag("--json", options.engines.json, "Print everything the server returns, as JSON");
  };
  add_usual(engines);
  for (const auto& [name, help] :
       {std::pair("drain", "Move its conversations to the other engines; running turns finish first"),
        std::pair("resume", "Let it accept conversations again")}) {
    CLI::App* verb = engines->add_subcommand(name, help);
    add_usual(verb);
    verb->add_option("engine", options.engines.engine, "Number of the engine in the list")
        ->type_name("N")
        ->check(CLI::Range(0, 1023))
        ->required();
  }
  return engines;
}

CLI::App* AddOwners(CLI::App& app, Options& options) {
  CLI::App* owners = app.add_subcommand(
      "owners", "Show what each owner has on the server, and the totals (needs a key with scope admin)");
  AddServerOptions(*owners, options.server);
  owners->add_flag("--json", options.owners_json, "Print everything the server returns, as JSON");
  return owners;
}

CLI::App* AddDrain(CLI::App& app, Options& options) {
  CLI::App* drain = app.add_subcommand(
      "drain", "Hand a server's conversations over to the other servers of its store (needs a key with scope admin)");
  AddServerOptions(*drain, options.server);
  CLI::Option* wait = drain->add_flag("--wait", options.drain.wait, "Return once it has no conversation left");
  drain->add_flag("--resume", options.drain.resume, "Let it have conversations again")->excludes(wait);
  return drain;
}

CLI::App* AddBackup(CLI::App& app, Options& options) {
  CLI::App* backup = app.add_subcommand("backup", "Back up a running server's store into its --backup-path");
  AddServerOptions(*backup, options.server);
  return backup;
}

/// Adds a verb for a measurement, with the options common to all.
CLI::App* AddEvalTask(CLI::App* eval, const char* name, const char* help, const char* file, Options& options) {
  CLI::App* task = eval->add_subcommand(name, help);
  AddServerOptions(*task, options.server);
  task->add_option("file", options.eval.path, file)->type_name("PATH")->required();
  task->add_option("--model", options.eval_model, "As for ringside run: start a private server with it, and stop it")
      ->type_name("PATH")
      ->excludes(task->get_option("--url"));
  task->add_option("--served-model", options.eval.model, "Model to request [the server's first]");
  task->add_option("--prefix", options.eval.prefix, "Text before every sample, such as the BOS token: <s>");
  task->add_option("-n,--limit", options.eval.limit, "Number of samples to use, from the start [all]")
      ->check(CLI::Range(1, 1 << 30));
  task->add_option("--in-flight", options.eval.in_flight, "Concurrent requests")->check(CLI::Range(1, 256));
  task->add_flag("--json", options.eval.json, "Write the figures as JSON");
  return task;
}

CLI::App* AddEval(CLI::App& app, Options& options) {
  CLI::App* eval =
      app.add_subcommand("eval", "Evaluate a model on a server whose completions return prompt log probabilities");
  eval->require_subcommand(1);
  CLI::App* perplexity =
      AddEvalTask(eval, "perplexity", "Perplexity of a text, over sliding windows", "The text", options);
  perplexity->add_option("--context", options.eval.context, "Tokens per window")->check(CLI::Range(2, 1 << 24));
  perplexity->add_option("--stride", options.eval.stride, "Tokens by which each window advances [half of --context]")
      ->check(CLI::Range(1, 1 << 24));
  AddEvalTask(eval, "last-word", "Prediction of the last word of passages, as in LAMBADA", "JSON lines {\"text\": ...}",
              options);
  AddEvalTask(eval, "choices", "Multiple-choice questions: whether the right answer is the likeliest",
              "JSON lines {\"question\": ..., \"choices\": [...], \"answer\": number from 0, or text}", options);
  return eval;
}

std::string EnvironmentName(std::string_view flag) {
  std::string name = "RINGSIDE_";
  for (const char c : flag) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

/// A line about the first unknown flag of `ringside run`, which may be a setting of this or another server; "" if there
/// is none.
std::string RunAdvice(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with('-')) continue;
    std::string_view flag = std::string_view(word).substr(0, word.find('='));
    flag.remove_prefix(std::min(flag.find_first_not_of('-'), flag.size()));
    const TheirSetting* theirs = FindTheirSetting(flag);
    std::string advice = theirs != nullptr ? theirs->Describe() + ". " : "";
    if (theirs != nullptr && theirs->here.starts_with("--")) {
      const std::string_view ours = theirs->here.substr(2, theirs->here.find(' ') - 2);
      return advice + "Set " + EnvironmentName(ours) + " in the environment.\n";
    }
    if (theirs == nullptr && word.starts_with("--")) {
      advice = "A setting of the server goes into the environment: " + EnvironmentName(flag) + ".";
    }
    return advice.empty() ? "" : advice + "\n";
  }
  return "";
}

Options Refuse(Options options, const std::string& why) {
  options.verb = Options::Verb::kNone;
  options.exit_code = 2;
  options.to_stderr = "ringside: " + why + "\n";
  return options;
}

Options Check(Options options, const Raw& raw) {
  const Outcome<Done> settled = SettleServer(options.server);
  if (!settled) return Refuse(std::move(options), settled.failure().message);
  options.chat.colour = raw.colour == "always"  ? ColourMode::kAlways
                        : raw.colour == "never" ? ColourMode::kNever
                                                : ColourMode::kAuto;
  options.chat.history = !raw.no_history;
  if (raw.ephemeral || raw.keep) options.chat.ephemeral = raw.ephemeral;
  if (raw.show_thinking || raw.hide_thinking) options.chat.show_thinking = raw.show_thinking;
  if (const char* command = std::getenv("RINGSIDE_CHAT_COMMAND")) options.chat.command = command;
  if (!raw.system.empty()) options.chat.system = raw.system;
  for (const auto& [name, value] : raw.settings) {
    if (value.empty()) continue;
    const Outcome<Done> set = options.chat.settings.Set(name, value);
    if (!set) return Refuse(std::move(options), set.failure().message);
  }
  if (!raw.stops.empty()) {
    const Outcome<Done> set = options.chat.settings.SetStops(raw.stops);
    if (!set) return Refuse(std::move(options), set.failure().message);
  }
  for (const std::string& word : raw.prompt) {
    options.chat.prompt += (options.chat.prompt.empty() ? "" : " ") + word;
  }
  return options;
}

}  // namespace

Options ParseOptions(int argc, const char* const* argv) {
  Options options;
  Raw raw;
  CLI::App app("ringside: chat with a ringside-server, manage its conversations, benchmark it", "ringside");
  app.require_subcommand(1);
  app.set_version_flag("--version", "ringside " RINGSIDE_VERSION);
  CLI::App* chat = AddChat(app, options, raw);
  CLI::App* sessions = AddSessions(app, options, raw);
  CLI::App* engines = AddEngines(app, options);
  CLI::App* owners = AddOwners(app, options);
  CLI::App* backup = AddBackup(app, options);
  CLI::App* drain = AddDrain(app, options);
  CLI::App* eval = AddEval(app, options);
  CLI::App* run = AddRun(app, options, raw);
  CLI::App* models = AddModels(app, options);
  CLI::App* pull = AddPull(app, options);
  AddModelChanges(app, options);
  CLI::App* health =
      app.add_subcommand("health", "Check whether the server is ready: exits with 0 if it is, with 1 if not");
  AddServerOptions(*health, options.server);
  app.add_subcommand("keys", "Create, list, revoke and rotate the keys in a server's keys file");
  app.add_subcommand("convert", "Convert a model to another format");
  app.add_subcommand("bench", "Benchmark a running server");
  if (argc == 2 && std::string_view(argv[1]) == "--describe") {
    options.to_stdout = DescribeProgram(app, RINGSIDE_VERSION);
    return options;
  }
  if (const auto outcome = ParseCommand(app, {argv + 1, argv + argc})) {
    options.exit_code = outcome->exit_code;
    options.to_stdout = outcome->to_stdout;
    options.to_stderr = outcome->to_stderr;
    if (outcome->exit_code == kBadCommand && argc > 1 && std::string_view(argv[1]) == "run") {
      options.to_stderr += RunAdvice(app);
    }
    return options;
  }
  if (chat->parsed()) options.verb = Options::Verb::kChat;
  if (owners->parsed()) options.verb = Options::Verb::kOwners;
  if (backup->parsed()) options.verb = Options::Verb::kBackup;
  if (drain->parsed()) options.verb = Options::Verb::kDrain;
  if (health->parsed()) options.verb = Options::Verb::kHealth;
  if (run->parsed()) options.verb = Options::Verb::kRun;
  if (models->parsed()) options.verb = Options::Verb::kModels;
  if (pull->parsed()) options.verb = Options::Verb::kPull;
  if (app.got_subcommand("load")) options.verb = Options::Verb::kLoad;
  if (app.got_subcommand("unload")) options.verb = Options::Verb::kUnload;
  if (sessions->parsed()) {
    options.verb = Options::Verb::kSessions;
    options.sessions.verb = SessionsVerb(*sessions);
    if (!raw.exported.empty()) options.sessions.ids = {raw.exported};
  }
  if (engines->parsed()) {
    using Verb = EnginesOptions::Verb;
    options.verb = Options::Verb::kEngines;
    if (engines->got_subcommand("drain")) options.engines.verb = Verb::kDrain;
    if (engines->got_subcommand("resume")) options.engines.verb = Verb::kResume;
  }
  if (eval->parsed()) {
    using Task = EvalOptions::Task;
    options.verb = Options::Verb::kEval;
    if (eval->got_subcommand("last-word")) options.eval.task = Task::kLastWord;
    if (eval->got_subcommand("choices")) options.eval.task = Task::kChoices;
    if (options.eval.stride > options.eval.context) {
      return Refuse(std::move(options), "--stride must not exceed --context.");
    }
  }
  const bool only_number = raw.prompt.size() == 1 && raw.prompt[0].find_first_not_of("0123456789") == std::string::npos;
  if (run->parsed() && options.chat.continue_last && only_number) {
    return Refuse(std::move(options),
                  "-c continues the conversation used last. llama.cpp's -c, the length of the window, "
                  "is RINGSIDE_MEMORY_LEN=" +
                      raw.prompt[0] + " in the environment here.");
  }
  return Check(std::move(options), raw);
}

}  // namespace ringside::client
