#include "tests/session/postgres/postgres_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/check.h"

namespace ringside {
namespace {

using namespace std::chrono_literals;

/// The folder with initdb and postgres; "" = none.
std::string FindPrograms() {
  for (const char* folder : {"/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/17/bin",
                             "/usr/bin", "/usr/local/bin"}) {
    if (std::filesystem::exists(std::string(folder) + "/initdb")) return folder;
  }
  return "";
}

/// Starts a program as an unprivileged user (PostgreSQL refuses root), which ends with this process.
pid_t StartProgram(const std::vector<std::string>& command, const std::string& output) {
  const passwd* const user = getuid() == 0 ? getpwnam("nobody") : nullptr;
  const pid_t parent = getpid(), child = fork();
  CHECK(child >= 0);
  if (child > 0) return child;
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const bool ready = (user == nullptr || (setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0)) &&
                     freopen(output.c_str(), "a", stdout) != nullptr && dup2(STDOUT_FILENO, STDERR_FILENO) >= 0 &&
                     prctl(PR_SET_PDEATHSIG, SIGQUIT) == 0 && getppid() == parent && chdir("/") == 0;
  if (ready) execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

PostgresServer* PostgresServer::Get() {
  static const std::unique_ptr<PostgresServer> server = [] {
    const std::string programs = FindPrograms();
    if (programs.empty()) return std::unique_ptr<PostgresServer>();
    std::unique_ptr<PostgresServer> started(new PostgresServer());
    started->Start(programs);
    return started;
  }();
  return server.get();
}

void PostgresServer::Start(const std::string& programs) {
  std::string name = (std::filesystem::temp_directory_path() / "postgres_test.XXXXXX").string();
  CHECK(mkdtemp(name.data()) != nullptr);
  folder_ = name;
  if (getuid() == 0) CHECK_EQ(chown(name.c_str(), getpwnam("nobody")->pw_uid, getpwnam("nobody")->pw_gid), 0);
  const std::string data = folder_ + "/data", output = folder_ + "/output";
  int status = 0;
  const pid_t made = StartProgram({programs + "/initdb", "--no-sync", "--auth=trust", "--username=ringside",
                                   "--encoding=UTF8", "--no-locale", "--pgdata=" + data},
                                  output);
  CHECK_EQ(waitpid(made, &status, 0), made);
  CHECK_EQ(status, 0);
  process_ = StartProgram({programs + "/postgres", "-D", data, "-k", folder_, "-c", "listen_addresses=", "-c",
                           "port=5432", "-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "fsync=off"},
                          output);
  for (bool ready = false; !ready; std::this_thread::sleep_for(20ms)) {
    CHECK_EQ(waitpid(process_, &status, WNOHANG), 0);
    const StopSignal stop;
    const PostgresTarget target(*PostgresTarget::Parse(Url("postgres"), "test"));
    ready = PostgresConnection::Open(target, stop, 5s, std::chrono::steady_clock::now() + 5s).ok();
  }
}

PostgresServer::~PostgresServer() {
  if (process_ != 0) {
    kill(process_, SIGQUIT);
    waitpid(process_, nullptr, 0);
  }
  std::filesystem::remove_all(folder_);
}

std::string PostgresServer::MakeDatabase() {
  std::string name = fmt::format("test_{}", ++databases_);
  Execute("postgres", "create database " + name);
  return name;
}

std::string PostgresServer::Url(const std::string& database, const std::string& role, const std::string& folder) const {
  return fmt::format("postgresql://{}@/{}?host={}&port=5432", role, database, folder.empty() ? folder_ : folder);
}

PostgresReply PostgresServer::Ask(const std::string& database, const std::string& sql, PostgresReply::Columns columns) {
  const StopSignal stop;
  const PostgresTarget target(*PostgresTarget::Parse(Url(database), "test"));
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  auto connection = PostgresConnection::Open(target, stop, 60s, deadline);
  if (!connection.ok()) ADD_FAILURE() << connection.status().ToString();
  if (!connection.ok()) return {};
  auto reply = (*connection)->Run({.sql = sql, .columns = std::move(columns), .prepared = false}, deadline);
  EXPECT_TRUE(reply.ok()) << sql << ": " << reply.status().ToString();
  return reply.ok() ? std::move(*reply) : PostgresReply();
}

void PostgresServer::Execute(const std::string& database, const std::string& sql) { Ask(database, sql, {}); }

std::vector<int64_t> PostgresServer::Numbers(const std::string& database, const std::string& sql) {
  const PostgresReply reply = Ask(database, sql, {PostgresType::kInt8});
  std::vector<int64_t> numbers;
  for (size_t row = 0; row < reply.rows(); ++row) numbers.push_back(reply.Int8(row, 0));
  return numbers;
}

std::vector<std::string> PostgresServer::Texts(const std::string& database, const std::string& sql) {
  return Ask(database, sql, {PostgresType::kText}).Texts(0);
}

}  // namespace ringside
