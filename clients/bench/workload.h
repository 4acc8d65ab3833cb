// Synthetic conversations: random common words, lengths distributed as in real chats. The same seed gives the same
// text. One object per conversation. THREAD: one.
#pragma once

#include <random>
#include <string>

namespace ringside::client {

class Workload {
 public:
  explicit Workload(unsigned seed) : random_(seed) {}

  /// `count` words, in sentences.
  std::string Words(int count);
  /// A log-normal number of words around `median`, at least 1 and at most 8 times the median.
  int Length(int median);
  /// Exponentially distributed milliseconds: think time, or the time between two arrivals.
  int ThinkMs(double mean_s);

 private:
  std::mt19937 random_;
};

}  // namespace ringside::client
