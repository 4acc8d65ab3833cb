#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "clients/bench/percentiles.h"
#include "clients/bench/workload.h"
#include "clients/chat/chat_client.h"
#include "clients/chat/remembered.h"
#include "clients/chat/repl/commands.h"
#include "clients/chat/repl/completion.h"
#include "clients/chat/session_list.h"
#include "clients/chat/settings.h"
#include "clients/cli/options.h"
#include "clients/terminal/history.h"
#include "clients/terminal/screen.h"

namespace ringside::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Name = Command::Name;

TEST(Commands, ReadsNamesAndArguments) {
  EXPECT_EQ(ParseCommand("/help").name, Name::kHelp);
  EXPECT_EQ(ParseCommand("/?").name, Name::kHelp);
  EXPECT_EQ(ParseCommand("/quit").name, Name::kBye);
  const Command set = ParseCommand("/set  temperature   0.5  ");
  EXPECT_EQ(set.name, Name::kSet);
  EXPECT_EQ(set.text, "temperature   0.5");
  EXPECT_EQ(ParseCommand("/system You are \"brief\".").text, "You are \"brief\".");
}

TEST(Commands, OtherTextIsInput) {
  EXPECT_EQ(ParseCommand("hello /help").name, Name::kNone);
  EXPECT_EQ(ParseCommand("//etc/passwd").text, "/etc/passwd");
  EXPECT_EQ(ParseCommand("//etc/passwd").name, Name::kNone);
  EXPECT_EQ(ParseCommand("/help\nme").name, Name::kNone);
  EXPECT_EQ(ParseCommand("").name, Name::kNone);
}

TEST(Commands, UnknownCommandGivesAHint) {
  const Command command = ParseCommand("/regne");
  EXPECT_EQ(command.name, Name::kUnknown);
  EXPECT_THAT(command.hint, HasSubstr("Did you mean /regen?"));
  EXPECT_EQ(ParseCommand("/etc/passwd").name, Name::kUnknown);
  EXPECT_EQ(ParseCommand("/").name, Name::kUnknown);
}

TEST(Commands, HelpListsAllCommands) {
  for (const char* name : {"/help", "/regen", "/continue", "/undo", "/rewind", "/fork", "/system", "/set", "/stats",
                           "/sessions", "/resume", "/title", "/edit", "/save", "/export", "/bye"}) {
    EXPECT_THAT(CommandHelp(), HasSubstr(name));
  }
}

TEST(Commands, CommandsOfOtherChatsSuggestOurs) {
  for (const auto& [other, ours] : std::vector<std::pair<std::string, std::string>>{
           {"/show", "/set"}, {"/load x", "/resume"}, {"/clear", "/new"}, {"/list", "/sessions"}}) {
    EXPECT_EQ(ParseCommand(other).name, Name::kUnknown);
    EXPECT_THAT(ParseCommand(other).hint, HasSubstr(ours)) << other;
  }
}

TEST(Completion, CompletesCommandsSettingsAndConversations) {
  EXPECT_THAT(CompleteLine("/resu", {}), ElementsAre("/resume "));
  EXPECT_THAT(CompleteLine("/set top", {}), ElementsAre("/set top_p ", "/set top_k "));
  EXPECT_THAT(CompleteLine("/set top_k ", {}), ElementsAre("/set top_k default"));
  EXPECT_THAT(CompleteLine("/resume ", {"conv_a", "conv_b"}), ElementsAre("/resume 1", "/resume 2"));
  EXPECT_THAT(CompleteLine("/resume c", {"conv_a", "conv_b"}), ElementsAre("/resume conv_a", "/resume conv_b"));
  EXPECT_THAT(CompleteLine("/stats o", {}), ElementsAre("/stats on", "/stats off"));
  EXPECT_THAT(CompleteLine("/think o", {}), ElementsAre("/think on", "/think off"));
  EXPECT_THAT(CompleteLine("/undo ", {"conv_a"}), ElementsAre());
  EXPECT_THAT(CompleteLine("hello /sa", {}), ElementsAre());
}

TEST(Completion, CompletesFiles) {
  const std::string folder = ::testing::TempDir() + "ringside_completion";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/notes");
  for (const char* name : {"/note.md", "/other.md", "/.hidden"}) std::ofstream(folder + name) << "x";
  const std::string save = "/save " + folder;
  EXPECT_THAT(CompleteLine(save + "/no", {}), ElementsAre(save + "/note.md", save + "/notes/"));
  EXPECT_THAT(CompleteLine("/export " + folder + "/o", {}), ElementsAre("/export " + folder + "/other.md"));
  EXPECT_THAT(CompleteLine(save + "/", {}), ElementsAre(save + "/note.md", save + "/notes/", save + "/other.md"));
  EXPECT_THAT(CompleteLine(save + "/.h", {}), ElementsAre(save + "/.hidden"));
  ::setenv("HOME", folder.c_str(), 1);
  EXPECT_THAT(CompleteLine("/save ~/ot", {}), ElementsAre("/save ~/other.md"));
  EXPECT_THAT(CompleteLine("/save /no/such/folder/", {}), ElementsAre());
  std::ofstream(folder + "/my cat.png") << "x";
  EXPECT_THAT(CompleteLine("/image ~/my", {}), ElementsAre("/image ~/my cat.png"));
  EXPECT_THAT(CompleteLine("/image ~/my c", {}), ElementsAre("/image ~/my cat.png"));
  EXPECT_THAT(CompleteLine("/image \"~/my c", {}), ElementsAre("/image \"~/my cat.png\""));
  EXPECT_THAT(CompleteLine("/read '" + folder + "/not", {}),
              ElementsAre("/read '" + folder + "/note.md'", "/read '" + folder + "/notes/"));
  std::filesystem::remove_all(folder);
}

TEST(Settings, AreSentUnderTheirWireNames) {
  Settings settings;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
           {"temperature", "0.5"}, {"max_tokens", "12"}, {"stop", "END\\n"}, {"seed", "-3"}, {"top_k", "40"}}) {
    EXPECT_TRUE(settings.Set(name, value).ok()) << name;
  }
  EXPECT_THAT(settings.Fields(),
              ElementsAre(std::pair("temperature", "0.5"), std::pair("top_k", "40"), std::pair("seed", "-3"),
                          std::pair("max_output_tokens", "12"), std::pair("stop", R"(["END\n"])")));
  EXPECT_TRUE(settings.Set("stop", R"(["a", "b"])").ok());
  EXPECT_EQ(settings.Fields().back().second, R"(["a","b"])");
  EXPECT_TRUE(settings.Set("temperature", "default").ok());
  EXPECT_EQ(settings.Fields().front().first, "top_k");
}

TEST(Settings, ThinkingIsASeparateMember) {
  Settings settings;
  for (const auto& [value, json] : std::vector<std::pair<std::string, std::string>>{
           {"on", R"({"enabled":true})"}, {"off", R"({"effort":"none"})"}, {"high", R"({"effort":"high"})"}}) {
    EXPECT_TRUE(settings.Set("think", value).ok());
    EXPECT_THAT(settings.Fields(), ElementsAre(std::pair("reasoning", json)));
  }
  EXPECT_FALSE(settings.Set("think", "hard").ok());
  EXPECT_TRUE(settings.Set("think", "default").ok());
  EXPECT_TRUE(settings.Fields().empty());
}

TEST(Settings, RefusesInvalidValues) {
  Settings settings;
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"temperature", "3"},
                                                                                    {"temperature", "warm"},
                                                                                    {"temperature", "nan"},
                                                                                    {"temperature", "0.5x"},
                                                                                    {"top_p", "-0.1"},
                                                                                    {"top_k", "1.5"},
                                                                                    {"max_tokens", "0"},
                                                                                    {"seed", "99999999999999999999"},
                                                                                    {"stop", "[1]"},
                                                                                    {"stop", ""},
                                                                                    {"colour", "red"}}) {
    EXPECT_FALSE(settings.Set(name, value).ok()) << name << " " << value;
  }
  EXPECT_TRUE(settings.Fields().empty());
  EXPECT_THAT(settings.Set("colour", "red").failure().message, HasSubstr("temperature"));
}

TEST(Settings, DescribesOneSettingPerLine) {
  Settings settings;
  ASSERT_TRUE(settings.Set("min_p", "0.25").ok());
  const std::string text = settings.Describe({{"min_p", "0"}, {"top_p", "0.9"}, {"max_output_tokens", "1024"}});
  EXPECT_THAT(text, HasSubstr("  min_p               0.25            drop tokens"));
  EXPECT_THAT(text, HasSubstr("  top_p               0.9 (default)   sample from"));
  EXPECT_THAT(text, HasSubstr("  max_tokens          1024 (default)  longest answer"));
  EXPECT_THAT(text, HasSubstr("  seed                random (default) the same seed"));
  EXPECT_THAT(text, HasSubstr("  stop                none (default)  text that"));
  EXPECT_THAT(text, HasSubstr("  presence_penalty    0 (default)     0 = none"));
}

/// Provides a temporary folder.
class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() { EXPECT_NE(mkdtemp(folder_.data()), nullptr); }
  ~HistoryTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = ::testing::TempDir() + "ringside_history.XXXXXX";
};

TEST_F(HistoryTest, IsPersistedPrivately) {
  const std::string path = folder_ + "/history";
  {
    History history(path);
    for (const char* entry : {"one", "two\nlines \\n", "two\nlines \\n", "  ", "three"}) history.Add(entry);
  }
  EXPECT_THAT(History(path).entries(), ElementsAre("one", "two\nlines \\n", "three"));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(HistoryTest, IsBounded) {
  const std::string path = folder_ + "/history";
  for (int run = 0; run < 3; ++run) {
    History history(path);
    for (size_t i = 0; i < History::kMaxEntries; ++i) history.Add("entry " + std::to_string(i));
    EXPECT_EQ(history.entries().size(), History::kMaxEntries);
  }
  History history(path);
  EXPECT_EQ(history.entries().size(), History::kMaxEntries);
  EXPECT_EQ(history.entries().back(), "entry " + std::to_string(History::kMaxEntries - 1));
  history.Add(std::string(History::kMaxEntryBytes + 1, 'x'));
  EXPECT_NE(history.entries().back()[0], 'x');
}

TEST_F(HistoryTest, OffKeepsNoHistory) {
  const std::string path = folder_ + "/history";
  History history(path);
  history.set_on(false);
  history.Add("secret");
  EXPECT_TRUE(history.entries().empty());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(HistoryTest, UnwritableHistoryFileIsHarmless) {
  History history(folder_ + "/no/such/folder/history");
  history.Add("one");
  EXPECT_THAT(history.entries(), ElementsAre("one"));
}

TEST_F(HistoryTest, RemembersTheLastConversationPerServer) {
  ::setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  ServerUrl one, two;
  two.port = 9;
  EXPECT_EQ(LastConversation(one), "");
  RememberLastConversation(one, "conv_a");
  RememberLastConversation(two, "conv_b");
  RememberLastConversation(one, "conv_c");
  EXPECT_EQ(LastConversation(one), "conv_c");
  EXPECT_EQ(LastConversation(two), "conv_b");
  ::unsetenv("XDG_STATE_HOME");
}

TEST(ChatClient, RecognisesIds) {
  EXPECT_TRUE(IsConversationId("conv_aZ09"));
  for (const char* bad : {"", "conv_", "resp_a", "conv_a/b", "conv_a b", "conv_a\r\nX: y", "conv_%2e"}) {
    EXPECT_FALSE(IsConversationId(bad)) << bad;
  }
}

TEST(ChatClient, DescribesAReport) {
  TurnReport report;
  report.ttft_ms = 35.2;
  report.tokens_per_s = 78.11;
  report.tokens_computed = 12;
  report.cached_tokens = 420;
  report.position = 433;
  report.source = "slot";
  const std::string line = DescribeReport(report);
  for (const char* part :
       {"35 ms", "78.1 tokens/s", "12 computed", "420 cached", "position 433", "0 evicted", "slot"}) {
    EXPECT_THAT(line, HasSubstr(part));
  }
}

TEST(SessionList, NumbersAndMarks) {
  const std::string text =
      DescribeSessions({{.id = "conv_a", .messages = 2, .tokens = 30, .cache = "host"},
                        {.id = "conv_b", .metadata = {{"title", "Why is the sky blue?"}}, .messages = 1}},
                       "conv_b");
  EXPECT_THAT(text, HasSubstr("  1   conv_a"));
  EXPECT_THAT(text, HasSubstr("2 messages, 30 tokens, cache: host"));
  EXPECT_THAT(text, HasSubstr("  1 message\n      Why is the sky blue?"));
  EXPECT_THAT(text, HasSubstr("* 2   conv_b"));
  EXPECT_THAT(DescribeSessions({}, ""), HasSubstr("no conversations"));
}

TEST(Colour, RequiresATerminalAndNoOptOut) {
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_TRUE(WantsColour(ColourMode::kAuto, true));
  EXPECT_FALSE(WantsColour(ColourMode::kAuto, false));
  EXPECT_FALSE(WantsColour(ColourMode::kNever, true));
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(WantsColour(ColourMode::kAuto, true));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(WantsColour(ColourMode::kAuto, true));
  EXPECT_TRUE(WantsColour(ColourMode::kAlways, true));
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(WantsColour(ColourMode::kAuto, true));
}

Options Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "ringside");
  return ParseOptions(static_cast<int>(args.size()), args.data());
}

TEST(Options, ReadsAChat) {
  const Options options = Parse({"chat", "--url", "ws://h:9", "--temperature", "0", "--stop", "a", "--stop", "b",
                                 "--system", "Be brief.", "--color", "never", "tell", "me"});
  EXPECT_EQ(options.verb, Options::Verb::kChat);
  EXPECT_EQ(options.server.url.port, 9);
  EXPECT_EQ(options.chat.colour, ColourMode::kNever);
  EXPECT_EQ(options.chat.prompt, "tell me");
  EXPECT_EQ(options.chat.ephemeral, std::nullopt);
  EXPECT_EQ(options.chat.system, "Be brief.");
  EXPECT_THAT(options.chat.settings.Fields(),
              ElementsAre(std::pair("temperature", "0.0"), std::pair("stop", R"(["a","b"])")));
}

TEST(Options, ConversationMayBeEphemeralOrStored) {
  EXPECT_EQ(Parse({"chat", "--ephemeral"}).chat.ephemeral, true);
  EXPECT_EQ(Parse({"chat", "--keep", "hi"}).chat.ephemeral, false);
  EXPECT_TRUE(Parse({"chat", "--plain"}).chat.plain);
  EXPECT_EQ(Parse({"chat"}).chat.show_thinking, std::nullopt);
  EXPECT_EQ(Parse({"chat", "--show-thinking"}).chat.show_thinking, true);
  EXPECT_EQ(Parse({"chat", "--hide-thinking"}).chat.show_thinking, false);
  EXPECT_THAT(Parse({"chat", "--think", "low"}).chat.settings.Fields(),
              ElementsAre(std::pair("reasoning", R"({"effort":"low"})")));
  EXPECT_EQ(Parse({"chat", "--ephemeral", "--session", "conv_a"}).exit_code, 2);
  EXPECT_EQ(Parse({"chat", "--ephemeral", "--keep"}).exit_code, 2);
}

TEST(Options, RunTakesAModelAndAChat) {
  const Options options = Parse({"run", "model.gguf", "--store-path", "/tmp/s", "--stats", "-s", "3", "tell", "me"});
  EXPECT_EQ(options.verb, Options::Verb::kRun);
  EXPECT_EQ(options.run.model, "model.gguf");
  EXPECT_EQ(options.run.store_path, "/tmp/s");
  EXPECT_EQ(options.chat.session, "3");
  EXPECT_EQ(options.chat.prompt, "tell me");
  EXPECT_TRUE(options.chat.stats);
  EXPECT_EQ(Parse({"run"}).exit_code, 2);
}

TEST(Options, ChatTakesAModelOfTheServer) {
  EXPECT_EQ(Parse({"chat", "--model", "qwen/x", "Hi"}).chat.model, "qwen/x");
  EXPECT_EQ(Parse({"chat", "Hi"}).chat.model, "");
}

TEST(Options, AcceptsNegativeNumbersAndArgumentsAfterADoubleDash) {
  const Options options = Parse({"chat", "--seed", "-3", "--presence-penalty=-0.5", "--", "-c", "is", "a", "flag"});
  EXPECT_EQ(options.exit_code, 0) << options.to_stderr;
  EXPECT_THAT(options.chat.settings.Fields(),
              ElementsAre(std::pair("seed", "-3"), std::pair("presence_penalty", "-0.5")));
  EXPECT_EQ(options.chat.prompt, "-c is a flag");
}

TEST(Options, ReadsSessionCommands) {
  using Verb = SessionsOptions::Verb;
  EXPECT_EQ(Parse({"sessions"}).sessions.verb, Verb::kList);
  EXPECT_EQ(Parse({"sessions", "list", "-n", "5"}).sessions.limit, 5u);
  const Options shown = Parse({"sessions", "show", "conv_a", "conv_b", "--url", "ws://h:9"});
  EXPECT_EQ(shown.verb, Options::Verb::kSessions);
  EXPECT_EQ(shown.sessions.verb, Verb::kShow);
  EXPECT_EQ(shown.server.url.port, 9);
  EXPECT_THAT(shown.sessions.ids, ElementsAre("conv_a", "conv_b"));
  const Options exported = Parse({"sessions", "--url", "ws://h:8", "export", "conv_a", "file"});
  EXPECT_EQ(exported.sessions.verb, Verb::kExport);
  EXPECT_EQ(exported.server.url.port, 8);
  EXPECT_THAT(exported.sessions.ids, ElementsAre("conv_a"));
  EXPECT_EQ(exported.sessions.path, "file");
  EXPECT_EQ(Parse({"sessions", "import", "-"}).sessions.path, "-");
  EXPECT_EQ(Parse({"sessions", "delete", "conv_a"}).sessions.verb, Verb::kDelete);
  EXPECT_EQ(Parse({"sessions", "verify"}).sessions.verb, Verb::kVerify);
  EXPECT_TRUE(Parse({"sessions", "--json"}).sessions.json);
  EXPECT_TRUE(Parse({"sessions", "show", "3", "--json"}).sessions.json);
}

TEST(Options, ReadsEngineCommands) {
  using Verb = EnginesOptions::Verb;
  const Options listed = Parse({"engines", "--json"});
  EXPECT_EQ(listed.verb, Options::Verb::kEngines);
  EXPECT_EQ(listed.engines.verb, Verb::kList);
  EXPECT_TRUE(listed.engines.json);
  const Options drained = Parse({"engines", "drain", "1", "--url", "ws://h:9"});
  EXPECT_EQ(drained.engines.verb, Verb::kDrain);
  EXPECT_EQ(drained.engines.engine, 1);
  EXPECT_EQ(drained.server.url.port, 9);
  EXPECT_FALSE(drained.engines.json);
  EXPECT_EQ(Parse({"engines", "resume", "3"}).engines.verb, Verb::kResume);
}

TEST(Options, ReadsModelCommands) {
  const Options pull = Parse({"pull", "hf:a/b:Q4_K_M", "--retries", "2", "--timeout", "9", "-q", "--cacert", "ca.pem"});
  EXPECT_EQ(pull.verb, Options::Verb::kPull);
  EXPECT_EQ(pull.pull.reference, "hf:a/b:Q4_K_M");
  EXPECT_EQ(pull.pull.retries, 2);
  EXPECT_EQ(pull.pull.timeout_s, 9);
  EXPECT_EQ(pull.pull.ca_file, "ca.pem");
  EXPECT_TRUE(pull.pull.quiet);
  EXPECT_EQ(Parse({"models"}).verb, Options::Verb::kModels);
  EXPECT_TRUE(Parse({"models", "--json"}).models_json);
  EXPECT_FALSE(Parse({"models"}).served_models);
  EXPECT_TRUE(Parse({"models", "--server", "--url", "ws://host:1", "--json"}).served_models);
  EXPECT_EQ(Parse({"models", "--url", "ws://host:1"}).exit_code, 2);  // of this machine
  for (const auto& [word, verb] :
       {std::pair("load", Options::Verb::kLoad), std::pair("unload", Options::Verb::kUnload)}) {
    const Options options = Parse({word, "Qwen/Qwen3-4B", "--api-key", "k"});
    EXPECT_EQ(options.verb, verb);
    EXPECT_EQ(options.changed_model, "Qwen/Qwen3-4B");
    EXPECT_EQ(options.server.api_key, "k");
    EXPECT_EQ(Parse({word}).exit_code, 2);
  }
  EXPECT_EQ(Parse({"run", "qwen3:4b"}).run.model, "qwen3:4b");
}

TEST(Options, EnvironmentIsTheDefaultAndFlagsWin) {
  ::setenv("RINGSIDE_URL", "ws://env:1", 1);
  ::setenv("RINGSIDE_API_KEY", "envkey", 1);
  EXPECT_EQ(Parse({"chat"}).server.url.host, "env");
  EXPECT_EQ(Parse({"sessions"}).server.api_key, "envkey");
  ::setenv("RINGSIDE_CHAT_COMMAND", "./scripts/chat", 1);
  EXPECT_EQ(Parse({"chat"}).chat.command, "./scripts/chat");
  ::unsetenv("RINGSIDE_CHAT_COMMAND");
  EXPECT_EQ(Parse({"chat"}).chat.command, "");
  EXPECT_EQ(Parse({"chat", "--url", "ws://flag:2"}).server.url.host, "flag");
  EXPECT_EQ(Parse({"engines", "drain", "1", "--api-key", "flagkey"}).server.api_key, "flagkey");
  ::unsetenv("RINGSIDE_URL");
  ::unsetenv("RINGSIDE_API_KEY");
}

TEST(Options, BadOptionsExitWith2AndAMessage) {
  for (const std::vector<const char*>& args :
       std::vector<std::vector<const char*>>{{},
                                             {"walk"},
                                             {"chat", "--nonsense"},
                                             {"chat", "--url", "ftp://h"},
                                             {"chat", "--temperature", "hot"},
                                             {"chat", "-c", "--session", "conv_a"},
                                             {"chat", "--session", "conv_a", "--system", "x"},
                                             {"chat", "--color", "maybe"},
                                             {"engines", "drain"},
                                             {"engines", "drain", "-1"},
                                             {"engines", "resume", "first"},
                                             {"sessions", "show"},
                                             {"sessions", "export"},
                                             {"sessions", "import"},
                                             {"sessions", "delete"},
                                             {"sessions", "polish"},
                                             {"sessions", "list", "verify"}}) {
    const Options options = Parse(args);
    EXPECT_EQ(options.verb, Options::Verb::kNone);
    EXPECT_EQ(options.exit_code, 2);
    EXPECT_FALSE(options.to_stderr.empty());
  }
}

TEST(Options, SuggestsCommandsAndSettings) {
  const auto complaint = [](std::vector<const char*> words) {
    words.insert(words.begin(), "ringside");
    const Options options = ParseOptions(static_cast<int>(words.size()), words.data());
    EXPECT_EQ(options.exit_code, 2);
    return options.to_stderr;
  };
  EXPECT_THAT(complaint({"chatt"}), HasSubstr("Did you mean chat?"));
  EXPECT_THAT(complaint({"sessions", "lst"}), HasSubstr("Did you mean list?"));
  EXPECT_THAT(complaint({"chat", "--tempratur", "1"}), HasSubstr("Did you mean --temperature?"));
  EXPECT_THAT(complaint({"run", "m", "--max-model-len", "4"}),
              HasSubstr("vLLM's --max-model-len is --memory-len here. Set RINGSIDE_MEMORY_LEN in the environment."));
  EXPECT_THAT(complaint({"run", "m", "-ngl", "99"}), HasSubstr("Set RINGSIDE_DEVICE in the environment."));
  EXPECT_THAT(complaint({"run", "m", "--host-cache-mb=5"}), HasSubstr("RINGSIDE_HOST_CACHE_MB"));
  EXPECT_THAT(complaint({"run", "m", "-c", "4096"}), HasSubstr("RINGSIDE_MEMORY_LEN=4096"));
}

TEST(Options, HelpGoesToStandardOutput) {
  const Options options = Parse({"chat", "--help"});
  EXPECT_EQ(options.exit_code, 0);
  EXPECT_THAT(options.to_stdout, HasSubstr("--session"));
  EXPECT_TRUE(options.to_stderr.empty());
}

TEST(Percentiles, AreNearestRank) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(Percentile(values, 50), 3);
  EXPECT_EQ(Percentile(values, 90), 5);
  EXPECT_EQ(Percentile(values, 0), 1);
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Median({7}), 7);
}

TEST(Workload, SameSeedGivesTheSameText) {
  EXPECT_EQ(Workload(3).Words(50), Workload(3).Words(50));
  EXPECT_NE(Workload(3).Words(50), Workload(4).Words(50));
  Workload workload(1);
  for (int i = 0; i < 1000; ++i) {
    const int length = workload.Length(30);
    EXPECT_GE(length, 1);
    EXPECT_LE(length, 240);
    EXPECT_GE(workload.ThinkMs(0.5), 0);
  }
  EXPECT_EQ(workload.ThinkMs(0), 0);
}

}  // namespace
}  // namespace ringside::client
