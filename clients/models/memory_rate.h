// The rate at which this machine's processors read memory: the bound of decoding one conversation. THREAD: any.
#pragma once

namespace ringside::client {

/// Bytes per second of all usable processors together, measured in about a third of a second; 0 without the memory for
/// it. The best of a few rounds, because other programs only slow them down.
double MeasureMemoryRate();

/// The share of that rate that decoding reaches: two thirds for models of 0.1 GB, four fifths and more for those of 1
/// GB (docs/BENCHMARKS.md, CPU).
inline constexpr double kDecodeShare = 0.75;

}  // namespace ringside::client
