#include "kernels/cuda/slab_copies.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

// per call; smaller calls are dominated by the gap of 3 us between calls
constexpr int64_t kCallBytes = int64_t{5} << 19;
constexpr int64_t kMaxSplitParts = 8;  // parts of a load; an event after each makes its layers available

/// The runs of tiles, without those of recurrent state.
std::vector<SlabRun> TileRuns(const KvShape& shape, std::span<const SlabRun> runs) {
  std::vector<SlabRun> tiles;
  for (const SlabRun& run : runs) {
    if (run.offset >= shape.state.bytes()) tiles.push_back(run);
  }
  return tiles;
}

// Number of layers copied per call and run.
int64_t LayersPerPart(const KvShape& shape, std::span<const SlabRun> runs) {
  int64_t bytes = 0;
  for (const SlabRun& run : runs) bytes = std::max(bytes, run.bytes);
  const int64_t parts = std::clamp<int64_t>(bytes / kCallBytes, 1, std::min(kMaxSplitParts, shape.layers));
  return (shape.layers + parts - 1) / parts;
}

/// Copies a run without regard to layers.
void CopyStrided(bool to_host, const SlabRun& run, std::byte* slab, cudaStream_t stream) {
  const auto width = static_cast<size_t>(run.bytes), pitch = static_cast<size_t>(run.stride),
             host_pitch = static_cast<size_t>(run.host_stride), count = static_cast<size_t>(run.count);
  std::byte* device = slab + run.offset;
  if (to_host) {
    CHECK_CUDA(cudaMemcpy2DAsync(run.host, host_pitch, device, pitch, width, count, cudaMemcpyDeviceToHost, stream));
  } else {
    CHECK_CUDA(cudaMemcpy2DAsync(device, pitch, run.host, host_pitch, width, count, cudaMemcpyHostToDevice, stream));
  }
}

void CopyWhole(bool to_host, const SlabRun& run, std::byte* slab, cudaStream_t stream) {
  if (run.stride > 0) return CopyStrided(to_host, run, slab, stream);
  std::byte* device = slab + run.offset;
  const auto bytes = static_cast<size_t>(run.bytes);
  if (to_host) {
    CHECK_CUDA(cudaMemcpyAsync(run.host, device, bytes, cudaMemcpyDeviceToHost, stream));
  } else {
    CHECK_CUDA(cudaMemcpyAsync(device, run.host, bytes, cudaMemcpyHostToDevice, stream));
  }
}

/// Copies some layers of a run that is part of a larger slab on the host: with ranks, whose layers do not differ.
void CopyChunks(bool to_host, const KvShape& shape, const SlabRun& run, std::byte* slab, int64_t layer, int64_t layers,
                cudaStream_t stream) {
  const int64_t piece = shape.layer_tile_bytes();
  const auto width = static_cast<size_t>(piece), pitch = static_cast<size_t>(run.host_layer_stride);
  const cudaPitchedPtr device{slab + run.offset + layer * piece, width, width, static_cast<size_t>(shape.layers)};
  const cudaPitchedPtr host{run.host + layer * run.host_layer_stride, pitch, width,
                            static_cast<size_t>(run.host_tile_stride) / pitch};
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = to_host ? device : host;
  copy.dstPtr = to_host ? host : device;
  copy.extent = {width, static_cast<size_t>(layers), static_cast<size_t>(run.bytes / shape.tile_bytes())};
  copy.kind = to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  CHECK_CUDA(cudaMemcpy3DAsync(&copy, stream));
}

}  // namespace

void SlabCopies::WaitForAll() {
  for (const cudaStream_t stream : streams()) {
    if (stream != nullptr) CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  while (!copies_.empty()) Forget(0);
}

void SlabCopies::Stop() {
  WaitForAll();
  for (cudaStream_t* stream : {&to_host_, &to_device_}) {
    if (*stream != nullptr) CHECK_CUDA(cudaStreamDestroy(std::exchange(*stream, nullptr)));
  }
  for (const cudaEvent_t event : free_events_) CHECK_CUDA(cudaEventDestroy(event));
  free_events_.clear();
}

void SlabCopies::Start() {
  CHECK_CUDA(cudaStreamCreateWithFlags(&to_host_, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&to_device_, cudaStreamNonBlocking));
}

cudaEvent_t SlabCopies::AcquireEvent() {
  cudaEvent_t event = nullptr;
  if (free_events_.empty()) {
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }
  event = free_events_.back();
  free_events_.pop_back();
  return event;
}

CopyTicket SlabCopies::Begin(bool to_host, const KvShape& shape, std::byte* slab, std::span<const SlabRun> runs,
                             cudaStream_t step) {
  const cudaStream_t stream = to_host ? to_host_ : to_device_;
  const cudaEvent_t before = AcquireEvent();
  CHECK_CUDA(cudaEventRecord(before, step));
  CHECK_CUDA(cudaStreamWaitEvent(stream, before, 0));
  free_events_.push_back(before);  // a wait captures the event's state at the call, so the event can be reused
  for (const Copy& copy : copies_) {
    if (copy.slab == slab) CHECK_CUDA(cudaStreamWaitEvent(stream, copy.events.back(), 0));
  }
  const std::vector<SlabRun> tiles = TileRuns(shape, runs);
  const int64_t layers_per_event = to_host ? shape.layers : LayersPerPart(shape, tiles);
  Copy copy{++last_ticket_, slab, shape.slab_bytes(), to_host, layers_per_event, !shape.state.empty(), {}};
  const auto record = [&] {
    copy.events.push_back(AcquireEvent());
    CHECK_CUDA(cudaEventRecord(copy.events.back(), stream));
  };
  if (copy.has_state) {  // first: the first layers of a network are usually recurrent
    for (const SlabRun& run : runs) {
      if (run.offset < shape.state.bytes()) CopyWhole(to_host, run, slab, stream);
    }
    record();
  }
  const auto tile_bytes = static_cast<size_t>(shape.tile_bytes());
  for (int64_t layer = 0; layer < shape.layers; layer += copy.layers_per_event) {
    const int64_t layers = std::min(copy.layers_per_event, shape.layers - layer);
    const int64_t offset = shape.LayerOffset(layer);  // within each tile
    const auto width = static_cast<size_t>(shape.LayerOffset(layer + layers) - offset);
    for (const SlabRun& run : tiles) {
      if (run.stride > 0) {  // available with the first layers
        if (layer == 0) CopyWhole(to_host, run, slab, stream);
      } else if (run.host_layer_stride > 0) {
        CopyChunks(to_host, shape, run, slab, layer, layers, stream);
      } else if (layers == shape.layers) {
        CopyWhole(to_host, run, slab, stream);
      } else {
        CHECK_CUDA(cudaMemcpy2DAsync(slab + run.offset + offset, tile_bytes, run.host + offset, tile_bytes, width,
                                     static_cast<size_t>(run.bytes) / tile_bytes, cudaMemcpyHostToDevice, stream));
      }
    }
    record();
  }
  copies_.push_back(std::move(copy));
  return last_ticket_;
}

void SlabCopies::Forget(size_t copy) {
  free_events_.insert(free_events_.end(), copies_[copy].events.begin(), copies_[copy].events.end());
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(copy));
}

void SlabCopies::ForgetDone() {
  for (size_t i = 0; i < copies_.size();) {
    const cudaError_t state = cudaEventQuery(copies_[i].events.back());
    if (state == cudaErrorNotReady) {
      ++i;
      continue;
    }
    CHECK_CUDA(state);
    Forget(i);
  }
}

bool SlabCopies::Done(CopyTicket ticket) {
  ForgetDone();
  return std::none_of(copies_.begin(), copies_.end(), [&](const Copy& copy) { return copy.ticket == ticket; });
}

void SlabCopies::Wait(CopyTicket ticket) {
  const auto found = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& c) { return c.ticket == ticket; });
  if (found == copies_.end()) return;
  CHECK_CUDA(cudaEventSynchronize(found->events.back()));
  Forget(static_cast<size_t>(found - copies_.begin()));
}

bool SlabCopies::Moves(const void* slab) {
  const auto is_of = [&](const Copy& copy) { return copy.slab == slab; };
  if (std::none_of(copies_.begin(), copies_.end(), is_of)) return false;  // no device query in the common case
  ForgetDone();
  return std::any_of(copies_.begin(), copies_.end(), is_of);
}

void SlabCopies::Await(const void* slab, int64_t layer, cudaStream_t step) {
  for (const Copy& copy : copies_) {
    if (copy.slab != slab) continue;
    const int64_t event = (copy.has_state ? 1 : 0) + layer / copy.layers_per_event;
    CHECK_CUDA(cudaStreamWaitEvent(step, copy.events[static_cast<size_t>(event)], 0));
  }
}

void SlabCopies::AwaitState(const void* slab, cudaStream_t step) {
  for (const Copy& copy : copies_) {
    if (copy.slab == slab) CHECK_CUDA(cudaStreamWaitEvent(step, copy.events.front(), 0));
  }
}

void SlabCopies::Await(const void* place, cudaStream_t step, bool only_reads) {
  const auto* at = static_cast<const std::byte*>(place);
  for (const Copy& copy : copies_) {
    const auto* slab = static_cast<const std::byte*>(copy.slab);
    if (only_reads && copy.to_host) continue;
    if (at >= slab && at < slab + copy.slab_bytes) CHECK_CUDA(cudaStreamWaitEvent(step, copy.events.back(), 0));
  }
}

}  // namespace ringside::cuda
