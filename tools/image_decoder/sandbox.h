// The limits of a process that decodes bytes from outside. Irrevocable: called once, before the first byte is read.
#pragma once

#include <cstdint>

namespace ringside::decoder {

struct SandboxLimits {
  int64_t memory_bytes = 0;  // of address space
  int64_t cpu_seconds = 0;
};

/// Leaves the process its memory and descriptors 0 and 1: other descriptors are closed, no file can be opened or
/// written, no process or thread started, and system calls outside a list end the process (seccomp). Builds with a
/// sanitizer, which needs more calls and memory, have neither filter nor memory limit. False if the system refuses.
bool EnterSandbox(const SandboxLimits& limits);

}  // namespace ringside::decoder
