#include "tools/bench/gpu/nccl_sums.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace ringside {
namespace {

void Must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(1);
}
#define MUST_CUDA(call) Must((call) == cudaSuccess, #call)
#define MUST_NCCL(call) Must((call) == ncclSuccess, #call)

class NcclSums {
 public:
  NcclSums(int ranks, const std::vector<int64_t>& bytes, int sums, int repeats, bool symmetric)
      : ranks_(ranks), bytes_(bytes), sums_(sums), repeats_(repeats), symmetric_(symmetric), together_(ranks) {
    MUST_NCCL(ncclGetUniqueId(&id_));
    us_.assign(bytes.size(), std::vector<std::vector<double>>(static_cast<size_t>(ranks)));
  }

  std::vector<double> Run() {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) threads.emplace_back([this, rank] { RunRank(rank); });
    for (std::thread& thread : threads) thread.join();
    std::vector<double> medians;
    for (const auto& of_ranks : us_) {
      std::vector<double> slowest(of_ranks.front());
      for (const auto& own : of_ranks) {
        for (size_t i = 0; i < own.size(); ++i) slowest[i] = std::max(slowest[i], own[i]);
      }
      std::ranges::sort(slowest);
      medians.push_back(slowest[slowest.size() / 2]);
    }
    return medians;
  }

 private:
  void RunRank(int rank) {
    MUST_CUDA(cudaSetDevice(rank));
    cudaStream_t stream = nullptr;
    MUST_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ncclComm_t comm = nullptr;
    MUST_NCCL(ncclCommInitRank(&comm, ranks_, id_, rank));
    const auto most = static_cast<size_t>(*std::ranges::max_element(bytes_));
    void *in = nullptr, *out = nullptr;
    ncclWindow_t windows[2] = {};
    if (symmetric_) {
      MUST_NCCL(ncclMemAlloc(&in, most));
      MUST_NCCL(ncclMemAlloc(&out, most));
      MUST_NCCL(ncclCommWindowRegister(comm, in, most, &windows[0], NCCL_WIN_COLL_SYMMETRIC));
      MUST_NCCL(ncclCommWindowRegister(comm, out, most, &windows[1], NCCL_WIN_COLL_SYMMETRIC));
    } else {
      MUST_CUDA(cudaMalloc(&in, most));
      MUST_CUDA(cudaMalloc(&out, most));
    }
    MUST_CUDA(cudaMemset(in, 0x3c, most));  // 0.011 each
    MUST_CUDA(cudaDeviceSynchronize());
    for (size_t size = 0; size < bytes_.size(); ++size) Measure(rank, size, comm, stream, in, out);
    together_.arrive_and_wait();
    for (ncclWindow_t window : windows) {
      if (window != nullptr) MUST_NCCL(ncclCommWindowDeregister(comm, window));
    }
    MUST_NCCL(ncclCommDestroy(comm));
    if (symmetric_) {
      MUST_NCCL(ncclMemFree(in));
      MUST_NCCL(ncclMemFree(out));
    } else {
      MUST_CUDA(cudaFree(in));
      MUST_CUDA(cudaFree(out));
    }
    MUST_CUDA(cudaStreamDestroy(stream));
  }

  void Measure(int rank, size_t size, ncclComm_t comm, cudaStream_t stream, const void* in, void* out) {
    const auto count = static_cast<size_t>(bytes_[size] / 2);
    const auto sum = [&] { MUST_NCCL(ncclAllReduce(in, out, count, ncclBfloat16, ncclSum, comm, stream)); };
    sum();
    MUST_CUDA(cudaStreamSynchronize(stream));
    together_.arrive_and_wait();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    MUST_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < sums_; ++i) sum();
    MUST_CUDA(cudaStreamEndCapture(stream, &graph));
    MUST_CUDA(cudaGraphInstantiate(&ready, graph, 0));
    cudaEvent_t begin = nullptr, end = nullptr;
    MUST_CUDA(cudaEventCreate(&begin));
    MUST_CUDA(cudaEventCreate(&end));
    for (int i = -3; i < repeats_; ++i) {
      together_.arrive_and_wait();
      MUST_CUDA(cudaEventRecord(begin, stream));
      MUST_CUDA(cudaGraphLaunch(ready, stream));
      MUST_CUDA(cudaEventRecord(end, stream));
      MUST_CUDA(cudaStreamSynchronize(stream));
      float ms = 0;
      MUST_CUDA(cudaEventElapsedTime(&ms, begin, end));
      if (i >= 0) us_[size][static_cast<size_t>(rank)].push_back(1e3 * ms / sums_);
    }
    together_.arrive_and_wait();
    MUST_CUDA(cudaEventDestroy(begin));
    MUST_CUDA(cudaEventDestroy(end));
    MUST_CUDA(cudaGraphExecDestroy(ready));
    MUST_CUDA(cudaGraphDestroy(graph));
  }

  const int ranks_;
  const std::vector<int64_t>& bytes_;
  const int sums_, repeats_;
  const bool symmetric_;
  std::barrier<> together_;
  ncclUniqueId id_ = {};
  std::vector<std::vector<std::vector<double>>> us_;  // by size, rank, repeat
};

}  // namespace

std::vector<double> TimeNcclSums(int ranks, const std::vector<int64_t>& bytes, int sums, int repeats, bool symmetric) {
  int version = 0;
  MUST_NCCL(ncclGetVersion(&version));
  if (symmetric && version < NCCL_VERSION(2, 27, 0)) return std::vector<double>(bytes.size(), 0);
  return NcclSums(ranks, bytes, sums, repeats, symmetric).Run();
}

}  // namespace ringside
