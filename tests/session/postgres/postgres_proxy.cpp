#include "tests/session/postgres/postgres_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/check.h"

namespace ringside {
namespace {

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int ConnectTo(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(path);
  CHECK_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

/// Reads a server's replies up to the one that ends a transaction: ReadyForQuery, 'Z' and 5 bytes.
void DropReplies(int server) {
  char bytes[4096];
  for (ssize_t count = 1; count > 0;) {
    count = recv(server, bytes, sizeof bytes, 0);
    if (count >= 6 && bytes[count - 6] == 'Z') return;
  }
}

}  // namespace

PostgresProxy::PostgresProxy(std::string socket) : socket_(std::move(socket)) {
  std::string name = (std::filesystem::temp_directory_path() / "postgres_proxy.XXXXXX").string();
  CHECK(mkdtemp(name.data()) != nullptr);
  folder_ = name;
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = Address(folder_ + "/.s.PGSQL.5432");
  CHECK_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  CHECK_EQ(listen(listener_, 16), 0);
  accepting_ = std::thread([this] { Accept(); });
}

PostgresProxy::~PostgresProxy() {
  ending_ = true;
  SetAway(true);
  shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
  std::filesystem::remove_all(folder_);
}

void PostgresProxy::SetAway(bool away) {
  away_ = away;
  std::lock_guard lock(mutex_);
  if (!away) return;
  for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  arrived_.notify_all();
}

void PostgresProxy::Accept() {
  while (!ending_) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    std::lock_guard lock(mutex_);
    if (away_) {
      close(client);
      continue;
    }
    const int server = ConnectTo(socket_);
    open_.insert(open_.end(), {client, server});
    threads_.emplace_back([this, client, server] {
      Forward(client, server);
      std::lock_guard closing(mutex_);
      std::erase(open_, client);
      std::erase(open_, server);
      close(client);
      close(server);
    });
  }
}

void PostgresProxy::Forward(int client, int server) {
  std::string bytes(1 << 20, '\0');
  for (;;) {
    pollfd wait[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    if (poll(wait, 2, -1) < 0) continue;
    for (const bool from_client : {true, false}) {
      if (wait[from_client ? 0 : 1].revents == 0) continue;
      const ssize_t count = recv(from_client ? client : server, bytes.data(), bytes.size(), 0);
      if (count <= 0) return;
      const std::string_view part(bytes.data(), static_cast<size_t>(count));
      if (from_client ? !FromClient(client, server, part) : !SendAll(client, part)) return;
    }
  }
}

bool PostgresProxy::FromClient(int client, int server, std::string_view bytes) {
  const Loss loss = loss_;
  if (loss == Loss::kNone || bytes.find(kMark) == std::string_view::npos) return SendAll(server, bytes);
  if (loss == Loss::kReply) {
    SendAll(server, bytes);
    DropReplies(server);
  }
  loss_ = Loss::kNone;
  if (loss != Loss::kDelayed) return false;
  shutdown(client, SHUT_RDWR);
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return arrive_ || ending_; });
  if (arrive_) {
    lock.unlock();
    SendAll(server, bytes);
    DropReplies(server);
    lock.lock();
  }
  executed_ = true;
  arrived_.notify_all();
  return false;
}

void PostgresProxy::Arrive() {
  std::unique_lock lock(mutex_);
  arrive_ = true;
  arrived_.notify_all();
  arrived_.wait(lock, [this] { return executed_; });
}

}  // namespace ringside
