#include "ws/app/app_follower.h"

#include <thread>

#include "base/log.h"
#include "ws/app/app.h"
#include "ws/app/app_models.h"

namespace ringside {

int FollowFirst(const ServerConfig& config, SignalWatcher& signals, Processes& processes,
                std::optional<StopDeadline>& deadline) {
  signals.Defer();
  // Whatever this process waits for when another is lost, its device perhaps, it does not wait for longer.
  std::optional<StopDeadline> lost;
  std::thread watch([&] {
    processes.AwaitFirst();
    lost.emplace(processes.timeout(), kExitDeviceFailed);
  });
  const Status followed = FollowModel(config, processes);
  const int exit_code = followed.ok() ? kExitOk : kExitDeviceFailed;
  deadline.emplace(std::chrono::seconds(config.shutdown_timeout_s) + processes.timeout(), exit_code);
  if (followed.ok()) processes.AwaitFirst();
  const Status left = processes.Leave();
  watch.join();
  if (!followed.ok()) LogError("{}", followed.message());
  // Where the first has left in order, its own exit code says why.
  return left.ok() ? kExitOk : kExitDeviceFailed;
}

}  // namespace ringside
