#include "kernels/ranks/ranks.h"

#include <thread>

#include "kernels/cpu/thread_pool.h"

namespace ringside {

Result<std::vector<std::unique_ptr<Backend>>> MakeRanks(const RankLayout& layout, std::chrono::milliseconds timeout,
                                                        const MakeRank& make) {
  return MakeRanks(MakeThreadComms(layout, timeout), make);
}

Result<std::vector<std::unique_ptr<Backend>>> MakeRanks(std::vector<RankComms> comms, const MakeRank& make) {
  std::vector<std::unique_ptr<Backend>> backends(comms.size());
  std::vector<Status> statuses(comms.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < comms.size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto made = make(static_cast<int>(rank), std::move(comms[rank]));
      statuses[rank] = made.status();
      if (made.ok()) backends[rank] = std::move(*made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) RETURN_IF_ERROR(status);
  return backends;
}

int UsableCpuCores() { return cpu::UsableCores(); }

}  // namespace ringside
