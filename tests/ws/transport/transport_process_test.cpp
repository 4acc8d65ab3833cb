// The server as a process: its line on standard output, its exit statuses, and its shutdown. Needs the binary next to
// the test's own; the tests named RealModel* also need a model.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "kernels/backend.h"
#include "tests/ws/transport/transport_client.h"

namespace ringside::testing {
namespace {

using Args = std::vector<std::string>;

std::filesystem::path Binary() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "ringside-server";
}

/// A running server, stopped with the object.
class Process {
 public:
  explicit Process(const Args& args) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    log_ = std::filesystem::temp_directory_path() / ("ringside_process_" + std::to_string(getpid()) + ".log");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(log, STDERR_FILENO);
      std::vector<char*> argv = {const_cast<char*>("ringside-server")};
      for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
      argv.push_back(nullptr);
      execv(Binary().c_str(), argv.data());
      _exit(127);
    }
    close(out[1]);
    out_ = out[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    std::filesystem::remove(log_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// The next line of standard output; "" at its end.
  std::string ReadLine() {
    std::string line;
    char c = 0;
    while (read(out_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }
  void Signal(int number) const { kill(pid_, number); }
  /// Waits for the end; returns the exit status, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Its standard error so far.
  std::string Log() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::filesystem::path log_;
};

class ServerProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Binary())) GTEST_SKIP() << Binary() << " has not been built";
  }
};

TEST_F(ServerProcessTest, BadConfigurationExitsWith78AndAMessage) {
  for (const Args& args : {Args{}, Args{"--model", "m", "--port", "http"}, Args{"--model", "m", "--slot", "1"},
                           Args{"--model", "m", "--host", "0.0.0.0"}, Args{"--model", "m", "--quantization", "fp8"},
                           Args{"--config", "/nowhere.yaml"}}) {
    Process process(args);
    EXPECT_EQ(process.ReadLine(), "");
    EXPECT_EQ(process.Wait(), 78);
    EXPECT_TRUE(process.Log().starts_with("ringside-server: ")) << process.Log();
  }
}

TEST_F(ServerProcessTest, MissingModelExitsWith1) {
  Process process({"--model", "/nowhere/model.gguf", "--port", "0"});
  EXPECT_EQ(process.ReadLine(), "");
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_NE(process.Log().find("/nowhere/model.gguf"), std::string::npos);
}

TEST_F(ServerProcessTest, MissingDeviceExitsWith1AndAMessage) {
  if (MakeCudaBackend({}).ok()) GTEST_SKIP() << "there is one";
  EXPECT_EQ(MakeCudaBackend({}).status().code(), StatusCode::kUnavailable);
  Process process({"--model", "/nowhere/model.gguf", "--port", "0", "--device", "cuda"});
  EXPECT_EQ(process.ReadLine(), "");
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_NE(process.Log().find("CUDA"), std::string::npos) << process.Log();
  EXPECT_EQ(process.Log().find("/nowhere/model.gguf"), std::string::npos) << "the device comes first";
}

TEST_F(ServerProcessTest, HelpAndVersionExitWith0) {
  Process version({"--version"});
  EXPECT_TRUE(version.ReadLine().starts_with("ringside-server "));
  EXPECT_EQ(version.Wait(), 0);
  Process help({"--help"});
  EXPECT_NE(help.ReadLine(), "");
}

class RealModelServerProcessTest : public ServerProcessTest {
 protected:
  void SetUp() override {
    ServerProcessTest::SetUp();
    if (std::getenv("RINGSIDE_TEST_MODEL") == nullptr) GTEST_SKIP() << "RINGSIDE_TEST_MODEL is not set";
    store_ = std::filesystem::temp_directory_path() / ("ringside_store_" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(store_); }

  Args ModelArgs(const Args& more = {}) const {
    Args args = {"--model", std::getenv("RINGSIDE_TEST_MODEL"), "--port", "0", "--slots", "2", "--memory-len", "256"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// Reads the port from the server's ready line.
  static uint16_t ReadPort(Process& process) {
    const std::string line = process.ReadLine();
    EXPECT_TRUE(line.starts_with("ringside-server listening on http://127.0.0.1:")) << line << process.Log();
    return static_cast<uint16_t>(std::atoi(line.substr(line.rfind(':') + 1).c_str()));
  }
  /// A socket with a running answer of kLong tokens.
  static constexpr int kLong = 30'000;  // tokens: minutes of work, and within the limit of a request

  static std::unique_ptr<WireClient> BeginAnswer(uint16_t port, int tokens) {
    auto client = std::make_unique<WireClient>(port);
    EXPECT_EQ(client->Upgrade("/v1/responses")->status, 101);
    client->SendText(nlohmann::json{
        {"type", "response.create"},
        {"input", "Tell a long story."},
        {"max_output_tokens", tokens},
        {"min_tokens",
         tokens}}.dump());
    while (const auto text = client->ReadText()) {
      const auto event = nlohmann::json::parse(*text);
      if (event["type"] == "response.output_text.delta") return client;
      if (event["type"] == "error") throw std::runtime_error("no answer began: " + *text);
    }
    throw std::runtime_error("no answer began");
  }

  std::filesystem::path store_;
};

TEST_F(RealModelServerProcessTest, StopWaitsForARunningAnswer) {
  Process process(ModelArgs({"--store-path", store_, "--shutdown-timeout", "600"}));
  const uint16_t port = ReadPort(process);
  EXPECT_EQ(WireClient(port).Get("/readyz")->status, 200);
  EXPECT_EQ(nlohmann::json::parse(WireClient(port).Get("/v1/models")->body)["data"].size(), 1u);
  {
    Process second(ModelArgs({"--store-path", store_}));
    EXPECT_EQ(second.ReadLine(), "");
    EXPECT_EQ(second.Wait(), 73);
  }
  constexpr int kTokens = 600;  // it must still be running when the signal arrives
  const auto client = BeginAnswer(port, kTokens);
  process.Signal(SIGTERM);
  bool draining = false, ended = false;
  while (const auto text = client->ReadText()) {
    const auto event = nlohmann::json::parse(*text);
    if (event["type"] == "ringside:server.draining") {
      draining = true;
      EXPECT_EQ(event["deadline_ms"], 600'000);
      EXPECT_EQ(WireClient(port).Get("/readyz")->status, 503);
      EXPECT_EQ(WireClient(port).Get("/v1/models")->status, 200) << "reads are answered";
      EXPECT_EQ(WireClient(port).Get("/livez")->status, 200);
    }
    if (event["type"] == "response.incomplete") {
      ended = true;
      EXPECT_EQ(event["response"]["status"], "incomplete");
      EXPECT_EQ(event["response"]["usage"]["output_tokens"], kTokens);
      break;
    }
  }
  EXPECT_TRUE(draining);
  EXPECT_TRUE(ended);
  EXPECT_EQ(client->ReadClose(), 1012);
  client->SendFrame(8, "\x03\xf4");
  EXPECT_EQ(process.ReadLine(), "");  // that was the only line
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(RealModelServerProcessTest, InterruptsTurnsThatExceedTheStopTimeout) {
  Process process(ModelArgs({"--shutdown-timeout", "0"}));
  const auto client = BeginAnswer(ReadPort(process), kLong);
  process.Signal(SIGINT);
  std::string reason;
  while (const auto text = client->ReadText()) {
    const auto event = nlohmann::json::parse(*text);
    if (event["type"] == "response.incomplete") reason = event["response"]["incomplete_details"]["reason"];
  }
  EXPECT_EQ(reason, "interrupted");
  EXPECT_EQ(process.Wait(), 0);
}

TEST_F(RealModelServerProcessTest, SecondSignalStopsImmediately) {
  Process process(ModelArgs({"--shutdown-timeout", "600"}));
  const auto client = BeginAnswer(ReadPort(process), kLong);
  process.Signal(SIGTERM);
  while (const auto text = client->ReadText()) {
    if (nlohmann::json::parse(*text)["type"] == "ringside:server.draining") break;
  }
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace ringside::testing
