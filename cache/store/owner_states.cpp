#include "cache/store/owner_states.h"

namespace ringside {
namespace {

template <class State, class Event>
struct Transition {
  State from;
  Event event;
  State to;
};

constexpr Transition<Arrival, ArrivalEvent> kArrivals[] = {
    {Arrival::kNone, ArrivalEvent::kOffer, Arrival::kWaiting},
    {Arrival::kNone, ArrivalEvent::kFork, Arrival::kForking},
    {Arrival::kNone, ArrivalEvent::kErase, Arrival::kNone},
    {Arrival::kWaiting, ArrivalEvent::kOffer, Arrival::kWaiting},
    {Arrival::kWaiting, ArrivalEvent::kFork, Arrival::kWaitingAndForking},
    {Arrival::kWaiting, ArrivalEvent::kRemove, Arrival::kNone},
    {Arrival::kWaiting, ArrivalEvent::kErase, Arrival::kNone},
    {Arrival::kForking, ArrivalEvent::kOffer, Arrival::kWaiting},
    {Arrival::kForking, ArrivalEvent::kFork, Arrival::kForking},
    {Arrival::kForking, ArrivalEvent::kCancelFork, Arrival::kNone},
    {Arrival::kForking, ArrivalEvent::kErase, Arrival::kNone},
    {Arrival::kWaitingAndForking, ArrivalEvent::kOffer, Arrival::kWaiting},
    {Arrival::kWaitingAndForking, ArrivalEvent::kFork, Arrival::kWaitingAndForking},
    {Arrival::kWaitingAndForking, ArrivalEvent::kCancelFork, Arrival::kWaiting},
    {Arrival::kWaitingAndForking, ArrivalEvent::kRemove, Arrival::kForking},
    {Arrival::kWaitingAndForking, ArrivalEvent::kErase, Arrival::kNone},
};

// Complete: writers and erasures run on different threads. Two writers may copy the same object at a time; the first
// that ends, ends the state. Two erasures may be pending, with the same rule.
constexpr Transition<DiskWork, DiskEvent> kDiskWorks[] = {
    {DiskWork::kNone, DiskEvent::kBeginWrite, DiskWork::kWriting},
    {DiskWork::kNone, DiskEvent::kEndWrite, DiskWork::kNone},
    {DiskWork::kNone, DiskEvent::kErase, DiskWork::kErasing},
    {DiskWork::kNone, DiskEvent::kEndErase, DiskWork::kNone},
    {DiskWork::kWriting, DiskEvent::kBeginWrite, DiskWork::kWriting},
    {DiskWork::kWriting, DiskEvent::kEndWrite, DiskWork::kNone},
    {DiskWork::kWriting, DiskEvent::kErase, DiskWork::kErasingWhileWriting},
    {DiskWork::kWriting, DiskEvent::kEndErase, DiskWork::kWriting},
    {DiskWork::kErasing, DiskEvent::kBeginWrite, DiskWork::kErasingWhileWriting},
    {DiskWork::kErasing, DiskEvent::kEndWrite, DiskWork::kErasing},
    {DiskWork::kErasing, DiskEvent::kErase, DiskWork::kErasing},
    {DiskWork::kErasing, DiskEvent::kEndErase, DiskWork::kNone},
    {DiskWork::kErasingWhileWriting, DiskEvent::kBeginWrite, DiskWork::kErasingWhileWriting},
    {DiskWork::kErasingWhileWriting, DiskEvent::kEndWrite, DiskWork::kErasing},
    {DiskWork::kErasingWhileWriting, DiskEvent::kErase, DiskWork::kErasingWhileWriting},
    {DiskWork::kErasingWhileWriting, DiskEvent::kEndErase, DiskWork::kWriting},
};

template <class State, class Event, size_t n>
std::optional<State> FindNext(const Transition<State, Event> (&table)[n], State from, Event event) {
  for (const auto& row : table) {
    if (row.from == from && row.event == event) return row.to;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Arrival> Next(Arrival from, ArrivalEvent event) { return FindNext(kArrivals, from, event); }
std::optional<DiskWork> Next(DiskWork from, DiskEvent event) { return FindNext(kDiskWorks, from, event); }

}  // namespace ringside
