#include "kernels/cuda/ranks/peer_memory.h"

#include <fmt/format.h>

#include <fstream>
#include <random>
#include <string>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

namespace {

uint64_t ProcessNumber() {
  static const uint64_t number = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return number;
}

/// Boot id of this machine; empty if unknown.
std::array<char, 40> ThisMachine() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  std::array<char, 40> out{};
  id.copy(out.data(), out.size() - 1);
  return out;
}

}  // namespace

Status AgreeOnStatus(Comm& comm, const Status& own) {
  struct Said {
    StatusCode code = StatusCode::kOk;
    char message[252] = {};
  } said{.code = own.code()};
  own.message().copy(said.message, sizeof(said.message) - 1);
  std::vector<Said> all(static_cast<size_t>(comm.ranks()));
  comm.AllGather(&said, sizeof(said), all.data());
  RETURN_IF_ERROR(comm.status());
  RETURN_IF_ERROR(own);
  for (const Said& one : all) {
    if (one.code != StatusCode::kOk) return {one.code, one.message};
  }
  return Status::Ok();
}

RankTimeout PeerMemory::MakeTimeout(std::chrono::milliseconds timeout) {
  void* host = nullptr;
  if (cudaHostAlloc(&host, sizeof(uint32_t), cudaHostAllocPortable) == cudaSuccess) {
    *static_cast<uint32_t*>(host) = 0;
  } else {
    static_cast<void>(cudaGetLastError());
    had_room_ = false;
  }
  lost_ = static_cast<uint32_t*>(host);
  return {.lost = Allocate<uint32_t>(1),
          .lost_on_host = static_cast<uint32_t*>(host),
          .ns = static_cast<uint64_t>(std::chrono::nanoseconds(timeout).count())};
}

void PeerMemory::Stop() {
  for (void* memory : mapped_) CHECK_CUDA(cudaIpcCloseMemHandle(memory));
  for (void* memory : memory_) CHECK_CUDA(cudaFree(memory));
  if (!for_processes_) {
    for (void* memory : exported_) CHECK_CUDA(cudaFree(memory));
  }
  mapped_.clear();
  memory_.clear();
  exported_.clear();
  for_processes_ = false;
  had_room_ = true;
  if (lost_ != nullptr) CHECK_CUDA(cudaFreeHost(const_cast<uint32_t*>(lost_)));
  lost_ = nullptr;
}

void* PeerMemory::TakeBytes(size_t bytes) {
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    had_room_ = false;
    return nullptr;
  }
  memory_.push_back(data);
  CHECK_CUDA(cudaMemset(data, 0, bytes));
  return data;
}

PeerHandle PeerMemory::ExportBytes(int device, size_t bytes) {
  // An IPC handle exposes the whole driver allocation, from its base on. So an exported block gets a separate
  // allocation.
  constexpr size_t kAtOnce = 2 << 20;
  PeerHandle out{.process = ProcessNumber(), .machine = ThisMachine(), .device = device};
  out.address = TakeBytes((bytes + kAtOnce - 1) / kAtOnce * kAtOnce);
  if (out.address == nullptr) return out;
  memory_.pop_back();
  exported_.push_back(out.address);
  out.for_processes = cudaIpcGetMemHandle(&out.handle, out.address) == cudaSuccess;
  static_cast<void>(cudaGetLastError());
  return out;
}

Status PeerMemory::MapPeerBytes(int own, const PeerHandle& other, void** to) {
  if (other.process != ProcessNumber()) return MapProcessBytes(own, other, to);
  *to = other.address;
  if (own == other.device) return Status::Ok();  // its own memory, or ranks of a test that share a device
  int can = 0;
  CHECK_CUDA(cudaDeviceCanAccessPeer(&can, own, other.device));
  const cudaError_t error = can != 0 ? cudaDeviceEnablePeerAccess(other.device, 0) : cudaErrorPeerAccessUnsupported;
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled) return Status::Ok();
  return Unavailable(
      fmt::format("device {} has no peer access to device {}: {}", own, other.device, cudaGetErrorString(error)));
}

Status PeerMemory::MapProcessBytes(int own, const PeerHandle& other, void** to) {
  const std::array<char, 40> machine = ThisMachine();
  if (machine[0] == 0 || machine != other.machine) return Unavailable("the other rank is on another machine");
  if (!other.for_processes) return Unavailable("the other rank's device does not support IPC memory handles");
  for_processes_ = true;  // access is mutual: the other process may map this one's memory
  const cudaError_t error = cudaIpcOpenMemHandle(to, other.handle, cudaIpcMemLazyEnablePeerAccess);
  static_cast<void>(cudaGetLastError());
  if (error != cudaSuccess) {
    return Unavailable(
        fmt::format("device {} cannot map the device memory of another process: {}", own, cudaGetErrorString(error)));
  }
  mapped_.push_back(*to);
  return Status::Ok();
}

}  // namespace ringside::cuda
