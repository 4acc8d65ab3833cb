#include "kernels/cuda/ranks/stage_exchange.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/ranks/rank_messages.h"

namespace ringside::cuda {

Status StageExchange::Start(std::unique_ptr<Comm> comm, const Options& options, const Launcher& on) {
  comm_ = std::move(comm);
  Status reach = Unavailable("NCCL was requested");
  if (!options.only_nccl) {
    reach = AgreeOnStatus(*comm_, peers_.Start(*comm_, options.device));
    if (reach.ok() || reach.code() != StatusCode::kUnavailable) return reach;
    RETURN_IF_ERROR(comm_->status());
  }
  peers_.Stop();
  const Status nccl = AgreeOnStatus(*comm_, StartNccl(options, on));
  RETURN_IF_ERROR(comm_->status());
  if (nccl.ok() || options.only_nccl) return nccl;
  return Unavailable(fmt::format("pipeline stages cannot communicate over peer memory: {}; nor by NCCL: {}",
                                 reach.message(), nccl.message()));
}

Status StageExchange::StartNccl(const Options& options, const Launcher& on) {
  RETURN_IF_ERROR(messages_.Start(*comm_, options.uuid, StageLinks::kBytes, on.stream));
  // NCCL connects to a neighbour, and allocates memory, at the first message; force that before the remaining memory is
  // divided. The first stage starts, and is the last to receive.
  StreamComm& nccl = messages_.nccl();
  for (const size_t bytes : {size_t{4}, static_cast<size_t>(StageLinks::kBytes)}) {
    const bool first = comm_->rank() == 0;
    if (first) nccl.Send(messages_.memory(), bytes, next());
    nccl.Receive(messages_.memory(), bytes, last());
    if (!first) nccl.Send(messages_.memory(), bytes, next());
  }
  const auto waiting = Wait();
  CHECK_CUDA(cudaStreamSynchronize(on.stream));
  return messages_.status();
}

std::string StageExchange::Describe() const {
  if (!started()) return "";
  return by_nccl() ? ", stage transfers by NCCL" : ", stage transfers by our own kernels";
}

Status StageExchange::status() const {
  return started() ? GroupStatus(*comm_, peers_.memory(), messages_, "stage") : Status::Ok();
}

void StageExchange::Send(const Launcher& on, Tensor x) {
  if (!by_nccl()) return LaunchSend(on, peers_.links(), x);
  LaunchPackColumns(on, x, static_cast<float*>(messages_.memory()));
  messages_.nccl().Send(messages_.memory(), static_cast<size_t>(StorageBytes(x.dtype, x.rows * x.cols)), next());
}

void StageExchange::Receive(const Launcher& on, Tensor x) {
  if (!by_nccl()) return LaunchReceive(on, peers_.links(), x);
  messages_.nccl().Receive(messages_.memory(), static_cast<size_t>(StorageBytes(x.dtype, x.rows * x.cols)), last());
  LaunchUnpackColumns(WithoutOverlap(on), static_cast<float*>(messages_.memory()), x);
}

}  // namespace ringside::cuda
