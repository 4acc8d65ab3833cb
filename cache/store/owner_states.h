// The two states of an owner in the tiers, which change independently, and their legal transitions: the arrival of its
// newest snapshot, and the work on its object on disk.
//
//     arrival:  kNone --offer--> kWaiting --remove--> kNone
//               kNone --fork--> kForking --offer--> kWaiting
//                               kForking --cancel fork--> kNone
//               kWaiting --fork--> kWaitingAndForking --offer, cancel fork--> kWaiting
//                                  kWaitingAndForking --remove--> kForking
//               any state --erase--> kNone
//
//     disk:     kNone <--write--> kWriting
//                 |                  |
//               erase              erase
//                 v                  v
//             kErasing <--write--> kErasingWhileWriting
#pragma once

#include <cstdint>
#include <optional>

namespace ringside {

/// The newest snapshot of an owner, before a tier has it.
enum class Arrival : uint8_t {
  kNone,              // the tiers have the newest snapshot, if there is one
  kWaiting,           // offered, in no tier yet
  kForking,           // a fork from another owner is pending
  kWaitingAndForking  // a fork is pending, and until then a snapshot waits
};
enum class ArrivalEvent : uint8_t {
  kOffer,       // a snapshot of this owner, or the one that its fork has read; supersedes both
  kFork,        // a fork to this owner, which supersedes an earlier fork
  kCancelFork,  // nothing to fork
  kRemove,      // the waiting snapshot was stored, or dropped
  kErase
};

/// Work on an owner's object on disk.
enum class DiskWork : uint8_t {
  kNone,
  kWriting,             // a copy of the object in memory is being written
  kErasing,             // hidden from lookups while the disk may still have the object
  kErasingWhileWriting  // both
};
enum class DiskEvent : uint8_t { kBeginWrite, kEndWrite, kErase, kEndErase };

/// The state after an event; nullopt = illegal.
std::optional<Arrival> Next(Arrival from, ArrivalEvent event);
std::optional<DiskWork> Next(DiskWork from, DiskEvent event);

inline bool HasWaiting(Arrival arrival) {
  return arrival == Arrival::kWaiting || arrival == Arrival::kWaitingAndForking;
}
inline bool HasFork(Arrival arrival) { return arrival == Arrival::kForking || arrival == Arrival::kWaitingAndForking; }
inline bool IsWriting(DiskWork work) { return work == DiskWork::kWriting || work == DiskWork::kErasingWhileWriting; }
inline bool IsErasing(DiskWork work) { return work == DiskWork::kErasing || work == DiskWork::kErasingWhileWriting; }

}  // namespace ringside
