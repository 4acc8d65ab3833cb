#include "kernels/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cuda/cuda_check.h"
#include "kernels/deferred_token.h"
#include "kernels/formats/file_formats.h"
#include "kernels/ranks/process_devices.h"

namespace ringside {
namespace cuda {
namespace {

constexpr size_t kStagingBytes = size_t{32} << 20;  // per submission; there are two
constexpr size_t kReadbackBytes = size_t{32} << 20;
constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr size_t kScratchBytes = size_t{256} << 20;
constexpr size_t kSmallestArena = 2 * kStagingBytes + kWorkspaceBytes + kScratchBytes + (size_t{128} << 20);

void CheckFloat(const Tensor& x) {
  CHECK(!IsQuantized(x.dtype));
  CHECK(x.rows == 0 || x.data != nullptr);
  CHECK(x.rows <= 1 || x.stride >= x.cols);
}

/// Blocks until all slab memory that the copy touches is committed.
void WaitForCommit(const void* slab, std::span<const SlabRun> runs, DeviceMemory* memory) {
  for (const SlabRun& run : runs) {
    const int64_t bytes = run.bytes + (run.count - 1) * run.stride;
    memory->Await(static_cast<const std::byte*>(slab) + run.offset, static_cast<size_t>(bytes));
  }
}

}  // namespace

Status CudaBackend::Start(RankComms comms) {
  if (options_.dtype != DType::kF16 && options_.dtype != DType::kBF16) {
    return InvalidArgument("the CUDA backend supports dtype f16 or bf16", "dtype");
  }
  if (options_.quantization && !HasRowScales(*options_.quantization)) {
    return InvalidArgument("the CUDA backend supports quantization int8 or fp8", "quantization");
  }
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || options_.device >= devices) {
    return Unavailable(
        fmt::format("no CUDA device {}: {}", options_.device,
                    error != cudaSuccess ? cudaGetErrorString(error) : fmt::format("{} found", devices)));
  }
  CHECK_CUDA(cudaSetDevice(options_.device));
  CHECK_CUDA(cudaGetDeviceProperties(&properties_, options_.device));
  const int architecture = LoadedCodeArchitecture();
  const bool large = HasLargeConfig(architecture);
  if (architecture == 0 || properties_.sharedMemPerBlockOptin < SharedBytes(large)) {
    return Unavailable(fmt::format("this program was not compiled for device {} ({}, compute capability {}.{})",
                                   options_.device, properties_.name, properties_.major, properties_.minor));
  }
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  const int largest_cluster = architecture >= 900 ? kMaxClusterBlocks : 1;
  const bool hopper = properties_.major == 9;
  const DeviceTraits traits{.multiprocessors = properties_.multiProcessorCount,
                            .largest_cluster = largest_cluster,
                            .clusters = QueryResidentClusters(properties_.multiProcessorCount, largest_cluster),
                            .large = large,
                            .hopper = hopper,
                            .wgmma = hopper && HasWgmmaKernels(),
                            .tuning = &TuningOf(properties_.name)};
  const Launcher on{traits, stream_, /*overlap=*/architecture >= 900};
  if (comms.layer != nullptr) {
    RETURN_IF_ERROR(exchange_.Start(std::move(comms.layer),
                                    {.device = options_.device,
                                     .uuid = properties_.uuid,
                                     .dtype = options_.dtype,
                                     .algorithm = options_.all_reduce,
                                     .fixed_order = options_.deterministic},
                                    on));
    recorder_.runner().Join(&exchange_);
  }
  if (comms.stages != nullptr) {
    RETURN_IF_ERROR(stages_.Start(
        std::move(comms.stages),
        {.device = options_.device, .uuid = properties_.uuid, .only_nccl = options_.all_reduce == AllReduce::kNccl},
        on));
    recorder_.runner().Join(&stages_);
  }
  size_t free_bytes = 0, total_bytes = 0;
  CHECK_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  const size_t bytes = options_.memory_bytes > 0
                           ? options_.memory_bytes
                           : static_cast<size_t>(static_cast<double>(free_bytes) * options_.memory_utilization);
  const Status reserved = bytes < kSmallestArena ? Overloaded("the requested size is below the minimum")
                                                 : memory_.Start(options_.device, bytes);
  if (!reserved.ok()) {
    return Overloaded(fmt::format("device {}: cannot allocate {} bytes; {} of {} are free, at least {} are needed: {}",
                                  options_.device, bytes, free_bytes, total_bytes, kSmallestArena, reserved.message()));
  }
  slab_copies_.Start();
  RETURN_IF_ERROR(
      recorder_.Start({.staging = {memory_.AllocateHigh(kStagingBytes), memory_.AllocateHigh(kStagingBytes)},
                       .staging_bytes = kStagingBytes,
                       .readback_bytes = kReadbackBytes}));
  void* workspace = memory_.AllocateHigh(kWorkspaceBytes);
  void* scratch = memory_.AllocateHigh(kScratchBytes);
  sampled_.Start(memory_.AllocateHigh(SampledTokens::kMaxRows * sizeof(int32_t)));
  CHECK(sampled_.ids() != nullptr);
  if (options_.deterministic) recorder_.runner().FixOrder();
  if (!options_.graphs) recorder_.DisableGraphs();
  return recorder_.runner().Start(on, options_.dtype, workspace, kWorkspaceBytes, scratch, kScratchBytes);
}

void CudaBackend::MakeCurrent() { CHECK_CUDA(cudaSetDevice(options_.device)); }

CudaBackend::~CudaBackend() {
  if (stream_ != nullptr) MakeCurrent();  // the destroying thread may have selected another backend's device
  if (stream_ != nullptr) recorder_.AwaitStream();
  recorder_.ClearGraphs();
  exchange_.Stop();
  stages_.Stop();
  slab_copies_.Stop();  // copies in flight use the memory
  if (stream_ != nullptr) CHECK_CUDA(cudaStreamDestroy(stream_));
}

std::string CudaBackend::Describe() const {
  return fmt::format("{}, {} multiprocessors, {:.1f} of {:.1f} GiB free, {}{}{}{}", properties_.name,
                     properties_.multiProcessorCount, static_cast<double>(memory_.free_bytes()) / (1 << 30),
                     static_cast<double>(memory_.bytes()) / (1 << 30), options_.dtype == DType::kF16 ? "f16" : "bf16",
                     !options_.quantization                    ? ""
                     : *options_.quantization == DType::kI8    ? ", int8 weights"
                     : recorder_.runner().multiplies_in_e4m3() ? ", fp8 weights, fp8 GEMMs"
                                                               : ", fp8 weights",
                     exchange_.Describe(), stages_.Describe());
}

// ---- memory

Result<Buffer> CudaBackend::Allocate(size_t bytes) {
  void* data = memory_.AllocateHigh(std::max<size_t>(bytes, 1));
  if (data == nullptr) {
    return Overloaded(fmt::format("no device memory for {} bytes: {} are free", bytes, memory_.free_bytes()));
  }
  Flush();  // recorded operations may still use these bytes
  CHECK_CUDA(cudaMemsetAsync(data, 0, bytes, stream_));
  return Buffer(this, data, bytes);
}

void CudaBackend::Free(void* data, size_t bytes) {
  if (memory_.IsRange(data)) {  // ranges are unmapped at once, while arena memory is only reused
    Synchronize();
    slab_copies_.WaitForAll();
  }
  weights_.ForgetOrder(data);
  memory_.Free(data, std::max<size_t>(bytes, 1));
}

Result<Buffer> CudaBackend::Reserve(size_t bytes) {
  void* data = memory_.Reserve(bytes);
  if (data == nullptr) return Overloaded(fmt::format("no device addresses for {} bytes", bytes));
  return Buffer(this, data, bytes);
}

Status CudaBackend::Commit(void* data, size_t bytes) {
  if (memory_.Commit(data, bytes)) return Status::Ok();
  return Overloaded(fmt::format("no device memory for {} bytes: {} are free", bytes, memory_.free_bytes()));
}

bool CudaBackend::Committed(const void* data, size_t bytes, int64_t timeout_us) {
  return memory_.AwaitFor(data, bytes, timeout_us);
}

void CudaBackend::Decommit(void* data, size_t bytes) { Unmap(data, bytes, /*frees=*/true); }
void CudaBackend::Unshare(void* data, size_t bytes) { Unmap(data, bytes, /*frees=*/false); }

void CudaBackend::Unmap(void* data, size_t bytes, bool frees) {
  Flush();
  const auto copies = slab_copies_.streams();
  memory_.Decommit(data, bytes, frees, std::array{stream_, copies[0], copies[1]});
}

Status CudaBackend::Share(void* to, const void* from, size_t bytes) {
  memory_.Share(to, from, bytes);
  return Status::Ok();
}

void CudaBackend::CopyToDevice(void* device, const void* host, size_t bytes) {
  memory_.Await(device, bytes);
  Flush();
  CHECK_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_));
}

void CudaBackend::CopyToHost(void* host, const void* device, size_t bytes) {
  memory_.Await(device, bytes);
  Flush();
  void* to = bytes > recorder_.readback_bytes() ? host : recorder_.StageReadback(host, bytes);
  CHECK_CUDA(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream_));
}

void CudaBackend::CopyOnDevice(void* to, const void* from, size_t bytes) {
  memory_.Await(to, bytes), memory_.Await(from, bytes);
  Flush();
  slab_copies_.Await(to, stream_);
  slab_copies_.Await(from, stream_, /*only_reads=*/true);
  CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
}

Status CudaBackend::status() const {
  RETURN_IF_ERROR(DeviceStatus());
  RETURN_IF_ERROR(exchange_.status());
  return stages_.status();
}

CopyTicket CudaBackend::SaveSlab(const KvShape& shape, const void* slab, std::span<const SlabRun> runs) {
  WaitForCommit(slab, runs, &memory_);
  Flush();
  const auto waiting = recorder_.Wait();  // the copy may block if the host memory is not pinned
  return slab_copies_.Begin(true, shape, static_cast<std::byte*>(const_cast<void*>(slab)), runs, stream_);
}

CopyTicket CudaBackend::LoadSlab(const KvShape& shape, void* slab, std::span<const SlabRun> runs) {
  WaitForCommit(slab, runs, &memory_);
  Flush();
  const auto waiting = recorder_.Wait();  // the copy may block if the host memory is not pinned
  return slab_copies_.Begin(false, shape, static_cast<std::byte*>(slab), runs, stream_);
}

void CudaBackend::WaitForCopy(CopyTicket ticket) {
  const auto waiting = recorder_.Wait();  // a copy waits for the operations issued before it
  slab_copies_.Wait(ticket);
}

bool CudaBackend::PinHost(void* data, size_t bytes) {
  return cudaHostRegister(data, bytes, cudaHostRegisterPortable) == cudaSuccess;
}

// ---- weights

Result<Weight> CudaBackend::LoadWeight(const HostTensor& host) {
  RETURN_IF_ERROR(CheckWeight(host));
  return weights_.Load(host);
}

Result<Weight> CudaBackend::MakeRandomWeight(const RandomMatrix& matrix) {
  const bool on_host = options_.quantization || matrix.in_e4m3();
  return on_host ? Backend::MakeRandomWeight(matrix) : weights_.MakeRandom(matrix);
}

// ---- rows

void CudaBackend::Embed(const Weight& table, std::span<const int32_t> ids, float scale, Tensor y) {
  CheckFloat(y);
  CHECK_EQ(y.rows, static_cast<int64_t>(ids.size()));
  CHECK_EQ(y.cols, table.cols);
  for (const int32_t id : ids) {
    CHECK(IsDeferredToken(id) ? DeferredTokenIndex(id) < static_cast<size_t>(SampledTokens::kMaxRows)
                              : id < table.rows);
  }
  StepOp op{.kind = OpKind::kEmbed, .y = y, .weight_dtype = table.dtype, .indices = recorder_.Stage<int32_t>(ids)};
  op.scale = scale;
  op.sampled_ids = sampled_.ids();
  op.weights[0] = table.data.data();
  op.scales[0] = static_cast<const float*>(table.scales.data());
  recorder_.Record(op, y.rows);
}

void CudaBackend::AddPositions(const Weight& table, std::span<const int64_t> positions, Tensor y) {
  CheckFloat(y);
  CHECK_EQ(y.rows, static_cast<int64_t>(positions.size()));
  CHECK_EQ(y.cols, table.cols);
  for (const int64_t p : positions) CHECK(p >= 0 && p < table.rows);
  StepOp op{.kind = OpKind::kEmbed,
            .y = y,
            .weight_dtype = table.dtype,
            .indices = recorder_.StageIndices(positions),
            .accumulate = true};
  op.weights[0] = table.data.data();
  op.scales[0] = static_cast<const float*>(table.scales.data());
  recorder_.Record(op, y.rows);
}

void CudaBackend::RmsNorm(Tensor x, const float* weight, float eps, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK(x.dtype == DType::kF32);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  recorder_.Record({.kind = OpKind::kNorm, .x = x, .y = y, .norm_weight = weight, .eps = eps}, x.rows);
}

void CudaBackend::RmsNormHeads(Tensor x, int64_t heads, const float* weight, float eps) {
  CheckFloat(x);
  CHECK(heads > 0 && x.cols % heads == 0);
  recorder_.Record({.kind = OpKind::kNormHeads, .x = x, .y = x, .norm_weight = weight, .eps = eps, .heads = heads},
                   x.rows);
}

void CudaBackend::LayerNorm(Tensor x, const float* weight, const float* bias, float eps, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK(x.dtype == DType::kF32);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, y.cols);
  recorder_.Record(
      {.kind = OpKind::kNorm, .x = x, .y = y, .norm_weight = weight, .bias = bias, .eps = eps, .layer_norm = true},
      x.rows);
}

void CudaBackend::MultiplyActivated(Tensor x, Activation activation, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(x.cols, 2 * y.cols);
  recorder_.Record({.kind = OpKind::kMultiplyActivated, .x = x, .y = y, .activation = activation}, x.rows);
}

void CudaBackend::Activate(Tensor x, Activation activation) {
  CheckFloat(x);
  CHECK(activation != Activation::kClampedSilu);
  recorder_.Record({.kind = OpKind::kActivate, .x = x, .y = x, .activation = activation}, x.rows);
}

void CudaBackend::Add(Tensor x, Tensor y) {
  CheckFloat(x);
  CHECK(y.dtype == DType::kF32);
  CHECK(x.rows == y.rows && x.cols == y.cols);
  recorder_.Record({.kind = OpKind::kAdd, .x = x, .y = y}, x.rows);
}

void CudaBackend::SoftCap(Tensor x, float cap) {
  CheckFloat(x);
  CHECK(cap > 0);
  recorder_.Record({.kind = OpKind::kSoftCap, .x = x, .y = x, .scale = cap}, x.rows);
}

void CudaBackend::GatherRows(Tensor x, std::span<const int64_t> rows, Tensor y) {
  CheckFloat(x), CheckFloat(y);
  CHECK_EQ(y.rows, static_cast<int64_t>(rows.size()));
  CHECK_EQ(x.cols, y.cols);
  for (const int64_t row : rows) CHECK(row >= 0 && row < x.rows);
  recorder_.Record({.kind = OpKind::kGatherRows, .x = x, .y = y, .indices = recorder_.StageIndices(rows)},
                   std::max(x.rows, y.rows));
}

void CudaBackend::Linear(const LinearArgs& args) {
  CheckFloat(args.x), CheckFloat(args.y);
  CHECK_EQ(args.x.rows, args.y.rows);
  int64_t column = 0;
  for (size_t first = 0; first < args.weights.size();) {
    const Weight& of = *args.weights[first];  // adjacent weights of one type and order form one operation
    size_t end = first;
    int64_t outputs = 0;
    while (end < args.weights.size() && end - first < static_cast<size_t>(StepOp::kMaxWeights) &&
           args.weights[end]->dtype == of.dtype && weights_.OrderOf(*args.weights[end]) == weights_.OrderOf(of)) {
      CHECK_EQ(args.weights[end]->cols, args.x.cols);
      outputs += args.weights[end++]->rows;
    }
    RecordLinear(args, args.weights.subspan(first, end - first), column, outputs);
    column += outputs, first = end;
  }
  CHECK_EQ(column, args.y.cols);
}

void CudaBackend::RecordLinear(const LinearArgs& args, std::span<const Weight* const> weights, int64_t column,
                               int64_t outputs) {
  const void* rounded = args.rounded_bias;
  StepOp op{.kind = OpKind::kLinear,
            .x = args.x,
            .y = args.y.Columns(column, outputs),
            .weight_dtype = weights[0]->dtype,
            .bias = args.bias == nullptr ? nullptr : args.bias + column,
            .rounded_bias = rounded == nullptr ? nullptr : static_cast<const uint16_t*>(rounded) + column,
            .accumulate = args.accumulate};
  for (size_t i = 0; i < weights.size(); ++i) {
    op.weights[i] = weights[i]->data.data();
    op.scales[i] = static_cast<const float*>(weights[i]->scales.data());
    op.outputs[i] = weights[i]->rows;
  }
  const Buffer& order = weights[0]->order;
  const int64_t cols = args.x.cols;
  int64_t step = std::max<int64_t>(args.x.rows, 1);
  if (order)
    step = std::min(step, static_cast<int64_t>(WeightLoader::kActOrderBytes) / StorageBytes(options_.dtype, cols));
  if (options_.deterministic) step = std::min(step, kMaxFixedOrderRows);
  const Tensor y = op.y;
  for (int64_t first = 0; first < args.x.rows; first += step) {
    const int64_t rows = std::min(step, args.x.rows - first);
    op.x = args.x.Rows(first, rows);
    op.y = y.Rows(first, rows);
    if (order) {
      const Tensor ordered{options_.dtype, weights_.act_order_x(), rows, cols, cols};
      const auto* columns = static_cast<const int32_t*>(order.data());
      recorder_.Record({.kind = OpKind::kPermuteColumns, .x = op.x, .y = ordered, .indices = columns}, rows);
      op.x = ordered;
    }
    recorder_.Record(op, rows);
  }
}

void CudaBackend::LinearHeads(const HeadsArgs& args) {
  const Weight& w = *args.weight;
  CheckFloat(args.x), CheckFloat(args.y);
  CHECK(args.heads > 0 && w.rows % (args.heads * 16) == 0 && !w.order);
  CHECK_EQ(args.x.rows, args.y.rows);
  CHECK_EQ(args.x.cols, args.heads * (w.cols + args.carried));
  CHECK_EQ(args.y.cols, w.rows + args.heads * args.carried);
  StepOp op{.kind = OpKind::kLinearHeads, .x = args.x, .y = args.y, .weight_dtype = w.dtype, .heads = args.heads};
  op.weights[0] = w.data.data(), op.outputs[0] = w.rows;
  op.scales[0] = static_cast<const float*>(w.scales.data());
  recorder_.Record(op, args.x.rows);
}

// ---- ranks

void CudaBackend::AllReduceAdd(Tensor x, Tensor y) { RecordAllReduce(x, y, true); }
void CudaBackend::AllReduceInPlace(Tensor x) { RecordAllReduce(x, x, false); }

void CudaBackend::RecordAllReduce(Tensor x, Tensor y, bool accumulate) {
  CheckFloat(x), CheckFloat(y);
  CHECK(x.dtype == DType::kF32 && y.dtype == DType::kF32);
  CHECK(x.stride == x.cols && x.rows == y.rows && x.cols == y.cols && x.cols % 8 == 0 && y.stride % 4 == 0);
  CHECK(exchange_.started());
  const int64_t max_rows = RankLinks::kOutboxBytes / StorageBytes(options_.dtype, x.cols);
  for (int64_t first = 0; first < x.rows; first += max_rows) {
    const int64_t rows = std::min(max_rows, x.rows - first);
    recorder_.Record(
        {.kind = OpKind::kAllReduce, .x = x.Rows(first, rows), .y = y.Rows(first, rows), .accumulate = accumulate},
        x.rows);
  }
}

void CudaBackend::RmsNormOfRanks(Tensor x, int64_t columns, bool counts, const float* weight, float eps) {
  CheckFloat(x);
  CHECK(exchange_.started());
  recorder_.Record({.kind = OpKind::kNormOfRanks,
                    .x = x,
                    .y = x,
                    .norm_weight = weight,
                    .eps = eps,
                    .all_columns = columns,
                    .counts = counts},
                   x.rows);
}

void CudaBackend::AllGatherColumns(Tensor x, std::span<const int64_t> borders) {
  CheckFloat(x);
  CHECK(x.dtype == DType::kF32 && exchange_.started());
  CHECK_EQ(std::ssize(borders), exchange_.ranks() + 1);
  if (!std::ranges::equal(borders_, borders)) {
    CHECK(borders_.empty());  // recorded steps hold pointers into borders_
    borders_.assign(borders.begin(), borders.end());
  }
  int64_t widest = 1;
  for (size_t r = 1; r < borders.size(); ++r) widest = std::max(widest, borders[r] - borders[r - 1]);
  const int64_t max_rows = RankLinks::kOutboxBytes / StorageBytes(DType::kF32, widest);
  for (int64_t first = 0; first < x.rows; first += max_rows) {
    const int64_t rows = std::min(max_rows, x.rows - first);
    recorder_.Record({.kind = OpKind::kAllGatherColumns, .x = x.Rows(first, rows), .borders = borders_.data()}, x.rows);
  }
}

void CudaBackend::TransferRows(OpKind kind, Tensor x) {
  CHECK(x.dtype == DType::kF32 && x.stride == x.cols && stages_.started());
  const int64_t max_rows = StageLinks::kBytes / StorageBytes(x.dtype, x.cols);
  CHECK_GT(max_rows, 0);
  for (int64_t first = 0; first < x.rows; first += max_rows) {
    recorder_.Record({.kind = kind, .x = x.Rows(first, std::min(max_rows, x.rows - first))}, x.rows);
  }
}

}  // namespace cuda

int CountCudaDevices() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : 0;
}

std::vector<std::string> CudaDeviceIds() {
  std::vector<std::string> ids;
  for (int device = 0; device < CountCudaDevices(); ++device) {
    cudaDeviceProp properties = {};
    CHECK_CUDA(cudaGetDeviceProperties(&properties, device));
    std::string& id = ids.emplace_back("GPU");
    for (size_t i = 0; i < sizeof(properties.uuid.bytes); ++i) {
      const bool dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
      id += fmt::format("{}{:02x}", dash ? "-" : "", static_cast<unsigned char>(properties.uuid.bytes[i]));
    }
  }
  return ids;
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(const CudaBackendOptions& options, RankComms comms) {
  auto backend = std::make_unique<cuda::CudaBackend>(options);
  RETURN_IF_ERROR(backend->Start(std::move(comms)));
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace ringside
