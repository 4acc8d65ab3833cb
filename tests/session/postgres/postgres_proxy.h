// A Unix socket that forwards connections to PostgreSQL's, and loses one message on request: the client's that holds a
// mark. THREAD: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ringside {

class PostgresProxy {
 public:
  /// In a payload.
  static constexpr std::string_view kMark = "lose this message";
  enum class Loss {
    kNone,
    kRequest,  // it never arrives, and the connection is closed
    kReply,    // it is executed; the reply never arrives, and the connection is closed
    kDelayed,  // the connection is closed; the message arrives when Arrive is called
  };

  /// Listens in a temporary folder.
  explicit PostgresProxy(std::string socket);
  ~PostgresProxy();
  const std::string& folder() const { return folder_; }

  /// What happens to the next message with the mark.
  void LoseNext(Loss loss) { loss_ = loss; }
  /// True once it happened.
  bool lost() const { return loss_ == Loss::kNone; }
  /// Lets the delayed message arrive. Returns when it was executed.
  void Arrive();
  /// Closes all connections, and new ones at once, until `away` is false.
  void SetAway(bool away);

 private:
  void Accept();
  void Forward(int client, int server);
  /// Handles a message of the client. False: the connection ends.
  bool FromClient(int client, int server, std::string_view bytes);

  const std::string socket_;
  std::string folder_;
  int listener_ = -1;
  std::atomic<Loss> loss_{Loss::kNone};
  std::atomic<bool> away_{false}, ending_{false};
  std::mutex mutex_;  // guards the following members
  std::condition_variable arrived_;
  bool arrive_ = false, executed_ = false;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace ringside
