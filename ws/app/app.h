// The server process: creates model, engines, sessions and transport, runs them and shuts them down. Lives in main; its
// own thread only waits.
#pragma once

#include "ws/app/app_signals.h"
#include "ws/config/config.h"

namespace ringside {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;          // could not start
inline constexpr int kExitStoreInUse = 73;     // another process uses the store, or the name in it
inline constexpr int kExitStoreDamaged = 74;   // the store is damaged or incomplete
inline constexpr int kExitStorageFailed = 75;  // the disk failed, or the lease was taken; nothing acknowledged is lost
inline constexpr int kExitDeviceFailed = 76;   // a device or another process failed; nothing acknowledged is lost
inline constexpr int kExitBadConfig = 78;      // invalid settings, or a store of another version or key

/// Serves until a signal requests a stop; returns the exit status. When ready, it writes exactly one line to standard
/// output: "ringside-server listening on http://ADDRESS:PORT". Everything else goes to the log.
/// Shutdown: /readyz turns 503, every WebSocket receives {"type":"ringside:server.draining","deadline_ms":N}, running
/// turns may end within the shutdown timeout, new ones are refused; then every socket is closed with 1012.
int RunServer(const ServerConfig& config, SignalWatcher& signals);

}  // namespace ringside
