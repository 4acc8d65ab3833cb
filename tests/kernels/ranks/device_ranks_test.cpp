// Rank operations on every available device: sums in rank order with the same bits everywhere, gathered columns, small
// and large, alone and in sequence in one graph; an absent rank fails the device.
#include <array>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "kernels/deferred_token.h"
#include "kernels/ranks/stream_comm.h"
#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

class DeviceRanksTest : public ::testing::TestWithParam<DeviceAndNumber> {
 protected:
  void SetUp() override {
    const auto& [device, ranks] = GetParam();
    backends_ = MakeTestRanks(device, {.tensor = static_cast<int>(ranks)});
    if (backends_.empty()) GTEST_SKIP() << "no " << device << " here";
    type_ = backends_.front()->activation_dtype();
  }
  /// Calls body(backend, rank) on each rank's thread.
  void OnAll(const std::function<void(Backend&, size_t)>& body) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < backends_.size(); ++r) {
      threads.emplace_back([&, r] {
        backends_[r]->MakeCurrent();
        body(*backends_[r], r);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static std::vector<float> Random(size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> out(count);
    for (float& x : out) x = std::normal_distribution<float>(0, 10)(random);
    return out;
  }

  std::vector<std::unique_ptr<Backend>> backends_;
  DType type_ = DType::kF32;
};
INSTANTIATE_TEST_SUITE_P(All, DeviceRanksTest,
                         ::testing::Combine(::testing::Values("cpu", "cuda_bf16", "cuda_f16"),
                                            ::testing::Values(int64_t{2}, int64_t{3}, int64_t{4})),
                         NameOf);

TEST_P(DeviceRanksTest, AddsOverAllRanks) {
  constexpr int kSteps = 5;  // of one shape, so that it becomes a graph, with several all-reduces in sequence
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{1, 64}, {3, 96}, {7, 4096}, {64, 4096}, {300, 512}, {300, 4104}}) {
    const auto count = static_cast<size_t>(rows * cols);
    std::vector<std::vector<float>> parts;
    for (size_t r = 0; r < backends_.size(); ++r) parts.push_back(Random(count, static_cast<unsigned>(r)));
    const std::vector<float> start = Random(count, 100);
    std::vector<float> sum(count), want = start;
    for (const auto& part : parts) {
      for (size_t i = 0; i < count; ++i) sum[i] += Rounded(type_, part[i]);
    }
    for (int i = 0; i < 2 * kSteps; ++i) {
      for (size_t k = 0; k < count; ++k) want[k] += sum[k];
    }
    OnAll([&](Backend& backend, size_t r) {
      const DeviceMatrix x(backend, DType::kF32, rows, cols, parts[r]), y(backend, DType::kF32, rows, cols, start);
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < 2; ++i) {
          // On the CPU the sum itself is returned in x.
          if (type_ == DType::kF32) backend.CopyToDevice(x.tensor().data, parts[r].data(), count * sizeof(float));
          backend.AllReduceAdd(x.tensor(), y.tensor());
        }
        backend.WaitFor(backend.Submit());
      }
      EXPECT_EQ(y.Get(), want) << rows << " x " << cols;
    });
  }
}

TEST_P(DeviceRanksTest, SumsInPlace) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 64}, {7, 4096}, {300, 512}}) {
    const auto count = static_cast<size_t>(rows * cols);
    std::vector<std::vector<float>> parts;
    for (size_t r = 0; r < backends_.size(); ++r) parts.push_back(Random(count, static_cast<unsigned>(r)));
    std::vector<float> sum(count);
    for (const auto& part : parts) {
      for (size_t i = 0; i < count; ++i) sum[i] += Rounded(type_, part[i]);
    }
    OnAll([&](Backend& backend, size_t r) {
      const DeviceMatrix x(backend, DType::kF32, rows, cols, parts[r]);
      backend.AllReduceInPlace(x.tensor());
      EXPECT_EQ(x.Get(), sum) << rows << " x " << cols;
    });
  }
}

// Ranks have unequal columns of a row; the last rank has those of the first one, too, and does not count them.
TEST_P(DeviceRanksTest, NormalisesRowsOfAllRanks) {
  constexpr int64_t kWidth = 32;
  const size_t last = backends_.size() - 1;
  const auto columns = [&](size_t r) { return kWidth * (r == last ? 1 : static_cast<int64_t>(r) + 1); };
  for (const int64_t rows : {1, 5, 200}) {
    std::vector<std::vector<float>> parts;
    int64_t all = 0;
    for (size_t r = 0; r < last; ++r) {
      parts.push_back(Random(static_cast<size_t>(rows * columns(r)), static_cast<unsigned>(r)));
      all += columns(r);
    }
    parts.push_back(parts.front());
    for (auto& part : parts) {
      for (float& x : part) x = Rounded(type_, x);
    }
    std::vector<double> squares(static_cast<size_t>(rows));
    for (size_t r = 0; r < last; ++r) {
      for (size_t i = 0; i < parts[r].size(); ++i) {
        squares[i / static_cast<size_t>(columns(r))] += double{parts[r][i]} * double{parts[r][i]};
      }
    }
    OnAll([&](Backend& backend, size_t r) {
      const std::vector<float> weight = Random(static_cast<size_t>(columns(r)), 7);
      const DeviceFloats factors(backend, weight);
      const DeviceMatrix x(backend, type_, rows, columns(r), parts[r]);
      backend.RmsNormOfRanks(x.tensor(), all, r != last, factors.data(), 1e-5f);
      const std::vector<float> got = x.Get();
      for (size_t i = 0; i < got.size(); ++i) {
        const size_t row = i / weight.size();
        const double want = double{parts[r][i]} * double{weight[i % weight.size()]} /
                            std::sqrt(squares[row] / static_cast<double>(all) + 1e-5);
        EXPECT_NEAR(got[i], want, 2 * Rounding(type_) * (std::abs(want) + 1e-3)) << r << ", element " << i;
      }
    });
  }
}

// With few rows the norm is fused into the all-reduce. If ranks share a device, allocation, freeing and kernel loading
// wait for kernels that wait for another rank: all three must happen before the first all-reduce.
TEST_P(DeviceRanksTest, NormalisesSumsOverRanks) {
  constexpr int kSteps = 4;
  struct Case {
    int64_t rows, cols;
    std::vector<float> start, weight, bias;
    std::vector<std::vector<float>> parts;  // per rank
  };
  struct Placed {
    DeviceMatrix x, y, z, of_y, of_z;
    DeviceFloats weight, bias;
  };
  std::vector<Case> cases;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 64},
                                   {3, 96},
                                   {33, 576},
                                   {2, 4096},
                                   {128, 2048},
                                   {5, 8192},
                                   {2, 16384},
                                   {300, 512}}) {
    const auto count = static_cast<size_t>(rows * cols), width = static_cast<size_t>(cols);
    Case& made = cases.emplace_back(Case{rows, cols, Random(count, 100), Random(width, 101), Random(width, 102), {}});
    for (size_t r = 0; r < backends_.size(); ++r) made.parts.push_back(Random(count, static_cast<unsigned>(r)));
  }
  std::vector<std::vector<Placed>> placed(backends_.size());
  for (size_t r = 0; r < backends_.size(); ++r) {
    Backend& backend = *backends_[r];
    backend.MakeCurrent();
    for (const Case& c : cases) {
      const auto matrix = [&](DType type, const std::vector<float>& values) {
        return DeviceMatrix(backend, type, c.rows, c.cols, values);
      };
      placed[r].push_back({matrix(DType::kF32, c.parts[r]), matrix(DType::kF32, c.start), matrix(DType::kF32, c.start),
                           matrix(type_, c.start), matrix(type_, c.start), DeviceFloats(backend, c.weight),
                           DeviceFloats(backend, c.bias)});
      const Placed& own = placed[r].back();
      backend.RmsNorm(own.y.tensor(), own.weight.data(), 1e-5f, own.of_y.tensor());
      backend.WaitFor(backend.Submit());
    }
  }
  OnAll([&](Backend& backend, size_t r) {
    for (size_t k = 0; k < cases.size(); ++k) {
      const Placed& own = placed[r][k];
      const auto add = [&](const DeviceMatrix& to) {
        const std::vector<float>& part = cases[k].parts[r];
        // On the CPU the sum itself is returned in x.
        if (type_ == DType::kF32) backend.CopyToDevice(own.x.tensor().data, part.data(), part.size() * sizeof(float));
        backend.AllReduceAdd(own.x.tensor(), to.tensor());
      };
      for (int step = 0; step < kSteps; ++step) {
        for (int i = 0; i < 2; ++i) {
          add(own.y);
          backend.LayerNorm(own.y.tensor(), own.weight.data(), own.bias.data(), 1e-5f, own.of_y.tensor());
          add(own.z);
          backend.RmsNorm(own.z.tensor(), own.weight.data(), 1e-5f, own.of_z.tensor());
        }
        backend.WaitFor(backend.Submit());
      }
    }
  });
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& c = cases[k];
    std::vector<float> want = c.start;
    for (size_t i = 0; i < want.size(); ++i) {
      float sum = 0;
      for (const auto& part : c.parts) sum += Rounded(type_, part[i]);
      for (int step = 0; step < 2 * kSteps; ++step) want[i] += sum;
    }
    const std::vector<double> layer = Normed(want, c.rows, c.weight, &c.bias),
                              rms = Normed(want, c.rows, c.weight, nullptr);
    for (size_t r = 0; r < backends_.size(); ++r) {
      backends_[r]->MakeCurrent();
      const Placed& own = placed[r][k];
      EXPECT_EQ(own.y.Get(), want) << c.rows << " x " << c.cols;
      EXPECT_EQ(own.z.Get(), want) << c.rows << " x " << c.cols;
      const std::vector<float> got_layer = own.of_y.Get(), got_rms = own.of_z.Get();
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got_layer[i], layer[i], Rounding(type_) * std::fabs(layer[i]) + 1e-4) << c.rows << " x " << c.cols;
        ASSERT_NEAR(got_rms[i], rms[i], Rounding(type_) * std::fabs(rms[i]) + 1e-4) << c.rows << " x " << c.cols;
      }
    }
  }
}

TEST_P(DeviceRanksTest, GathersColumnsOfAllRanks) {
  for (const int64_t rows : {1, 5, 130}) {
    std::vector<int64_t> borders{0};
    for (size_t r = 0; r < backends_.size(); ++r) borders.push_back(borders.back() + 96 + 32 * static_cast<int64_t>(r));
    const int64_t cols = borders.back();
    const std::vector<float> all = Random(static_cast<size_t>(rows * cols), 7);
    OnAll([&](Backend& backend, size_t r) {
      std::vector<float> own(all.size(), -1);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t c = borders[r]; c < borders[r + 1]; ++c) {
          own[static_cast<size_t>(row * cols + c)] = all[static_cast<size_t>(row * cols + c)];
        }
      }
      for (int step = 0; step < 3; ++step) {
        const DeviceMatrix x(backend, DType::kF32, rows, cols, own);
        backend.AllGatherColumns(x.tensor(), borders);
        backend.WaitFor(backend.Submit());
        EXPECT_EQ(x.Get(), all) << rows << " rows, rank " << r;
      }
    });
  }
}

// Rows are passed from stage to stage, several at a time; the tokens sampled by the last are sent to the first.
// Parameterized by the number of stages. If stages shared a device, allocation and freeing would wait for kernels that
// wait for another stage: so each has its own device, and all memory is allocated before the first row is sent.
class DeviceStagesTest : public ::testing::TestWithParam<DeviceAndNumber> {
 protected:
  static constexpr int kSteps = 6;
  static constexpr std::array<int64_t, 4> kRows = {1, 5, 130, 9000};

  /// A stage's rows to send and receive, and its logits.
  struct Stage {
    std::vector<DeviceMatrix> rows;    // of every step, kRows
    std::vector<DeviceMatrix> logits;  // of every step
    Weight embedding;
    std::unique_ptr<DeviceMatrix> embedded;
  };

  static std::vector<float> Sent(int64_t rows, int step) {
    std::vector<float> sent(static_cast<size_t>(rows * 512));
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<float>(i) + static_cast<float>(step) / 32;
    return sent;
  }

  static Stage Make(Backend& backend, bool first) {
    Stage made;
    for (int step = 0; step < kSteps; ++step) {
      for (const int64_t rows : kRows) {
        made.rows.emplace_back(backend, DType::kF32, rows, 512,
                               first ? Sent(rows, step) : std::vector<float>(static_cast<size_t>(rows * 512)));
      }
      std::vector<float> logits(2 * 7);
      logits[static_cast<size_t>(step % 7)] = logits[static_cast<size_t>(7 + (step + 3) % 7)] = 9;
      made.logits.emplace_back(backend, DType::kF32, 2, 7, logits);
    }
    std::vector<float> table(7 * 8);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i / 8);
    HostTensor host{DType::kF32, 7, 8, std::as_bytes(std::span(table))};
    host.table = true;
    made.embedding = std::move(backend.LoadWeight(host).value());
    made.embedded = std::make_unique<DeviceMatrix>(backend, DType::kF32, 2, 8, std::vector<float>(16));
    backend.Synchronize();
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceStagesTest,
                         ::testing::Combine(::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_nccl"),
                                            ::testing::Values(2, 3)),
                         NameOf);

TEST_P(DeviceStagesTest, RowsAndTokensArriveAsSent) {
  const auto& [device, number] = GetParam();
  const int stages = static_cast<int>(number);
  if (device.ends_with("_nccl") && !HasNccl()) GTEST_SKIP() << "no NCCL here";
  if (device != "cpu" && CountCudaDevices() < stages) GTEST_SKIP() << "no " << device << " for each stage here";
  const RankLayout layout{.tensor = 1, .stages = stages};
  const auto backends = MakeTestRanks(device, layout);
  std::vector<Stage> all;
  for (int rank = 0; rank < stages; ++rank) {
    backends[static_cast<size_t>(rank)]->MakeCurrent();
    all.push_back(Make(*backends[static_cast<size_t>(rank)], layout.stage(rank) == 0));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < stages; ++rank) {
    threads.emplace_back([&, rank] {
      Backend& backend = *backends[static_cast<size_t>(rank)];
      const Stage& own = all[static_cast<size_t>(rank)];
      backend.MakeCurrent();
      const int stage = layout.stage(rank);
      for (int step = 0; step < kSteps; ++step) {
        for (size_t i = 0; i < kRows.size(); ++i) {
          const DeviceMatrix& x = own.rows[static_cast<size_t>(step) * kRows.size() + i];
          if (stage > 0) backend.ReceiveRows(x.tensor());
          if (stage + 1 < stages) backend.SendRows(x.tensor());
          EXPECT_EQ(x.Get(), Sent(kRows[i], step)) << kRows[i] << " rows in stage " << stage;
        }
        if (stage == stages - 1) {
          SampledToken chosen[2];
          const RowSamplingParams greedy[2] = {{.top_k = 1}, {.top_k = 1}};
          backend.SampleTokens(own.logits[static_cast<size_t>(step)].tensor(), greedy, chosen);
          backend.WaitFor(backend.Submit());
          backend.SendSampledTokens(2);
          backend.Synchronize();  // otherwise it would wait for later work
        } else if (stage == 0) {
          backend.ReceiveSampledTokens(2);
          const int32_t awaited[] = {DeferredToken(1), DeferredToken(0)};
          backend.Embed(own.embedding, awaited, 1, own.embedded->tensor());
          EXPECT_EQ(own.embedded->Get().front(), static_cast<float>((step + 3) % 7));
          EXPECT_EQ(own.embedded->Get().back(), static_cast<float>(step % 7));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < stages; ++rank) {
    backends[static_cast<size_t>(rank)]->MakeCurrent();
    all[static_cast<size_t>(rank)] = {};
  }
}

// The token that every rank would sample from all logits, alone; rows in several chunks, equal logits in other ranks'
// columns, and rows without a usable logit, in one rank's columns or in all.
TEST_P(DeviceRanksTest, MaximumOverAllRanks) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t rows : {1, 7, 130}) {
    std::vector<int64_t> borders{0};
    for (size_t r = 0; r < backends_.size(); ++r) {
      borders.push_back(borders.back() + 1000 + 33 * static_cast<int64_t>(r));
    }
    const int64_t cols = borders.back();
    std::vector<float> all = Random(static_cast<size_t>(rows * cols), 8);
    const auto at = [&](int64_t row, int64_t col) -> float& { return all[static_cast<size_t>(row * cols + col)]; };
    for (int64_t row = 0; row < rows; ++row) {
      if (row % 3 == 1) at(row, 7) = at(row, 500) = at(row, cols - 1) = 1000;
      if (row == 2) at(row, cols - 2) = std::numeric_limits<float>::quiet_NaN();
      if (row == 3) at(row, 4) = kInfinity;
      if (row == 4 || row == 5) std::fill_n(&at(row, 0), cols, -kInfinity);
      if (row == 5) at(row, cols - 3) = -7;
      if (row == 6) at(row, 3) = -kInfinity;
    }
    const std::vector<RowSamplingParams> greedy(static_cast<size_t>(rows), RowSamplingParams{.temperature = 0});
    std::vector<SampledToken> want(greedy.size());
    backends_.front()->MakeCurrent();
    const DeviceMatrix whole(*backends_.front(), DType::kF32, rows, cols, all);
    backends_.front()->SampleTokens(whole.tensor(), greedy, want);
    backends_.front()->Synchronize();
    OnAll([&](Backend& backend, size_t r) {
      const DeviceMatrix x(backend, DType::kF32, rows, cols, all);
      const Tensor own = x.tensor().Columns(borders[r], borders[r + 1] - borders[r]);
      for (int step = 0; step < 3; ++step) {
        std::vector<SampledToken> got(greedy.size());
        backend.SampleGreedy(own, borders[r], got);
        backend.WaitFor(backend.Submit());
        for (size_t row = 0; row < got.size(); ++row) {
          EXPECT_EQ(got[row].outcome, want[row].outcome) << "row " << row << ", rank " << r;
          EXPECT_EQ(got[row].id, want[row].id) << "row " << row << ", rank " << r;
          EXPECT_EQ(got[row].tops, 0);
        }
      }
    });
  }
}

/// Two ranks on two devices that communicate through NCCL; empty without two devices or NCCL.
std::vector<std::unique_ptr<Backend>> MakeNcclRanks(std::chrono::milliseconds timeout = std::chrono::minutes(2)) {
  if (CountCudaDevices() < 2 || !HasNccl()) return {};
  return MakeTestRanks("cuda_bf16", {.tensor = 2}, timeout, AllReduce::kNccl);
}

// In any summation order: with two ranks there is only one, and the sum is rounded to the type used for transfer.
TEST(DeviceRanksNcclTest, AllReduceGatherAndMax) {
  const auto backends = MakeNcclRanks();
  if (backends.empty()) GTEST_SKIP() << "no two devices, or no NCCL";
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 64}, {7, 4096}, {2048, 4096}, {3000, 8192}}) {
    const auto count = static_cast<size_t>(rows * cols);
    std::vector<std::vector<float>> parts(2, std::vector<float>(count)), sums(2), columns(2);
    for (size_t r = 0; r < 2; ++r) {
      for (size_t i = 0; i < count; ++i) parts[r][i] = static_cast<float>((i * 37 + r * 11) % 255) - 127;  // exact
    }
    std::vector<SampledToken> chosen(static_cast<size_t>(2 * rows));
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r, rows = rows, cols = cols] {
        Backend& backend = *backends[r];
        backend.MakeCurrent();
        const DeviceMatrix x(backend, DType::kF32, rows, cols, parts[r]);
        const DeviceMatrix y(backend, DType::kF32, rows, cols, std::vector<float>(count, 0.5f));
        for (int step = 0; step < 3; ++step) {  // the third is a graph
          backend.AllReduceAdd(x.tensor(), y.tensor());
          backend.WaitFor(backend.Submit());
        }
        sums[r] = y.Get();
        if (cols > 4096) return;  // a backend's column ranges cannot change
        const DeviceMatrix z(backend, DType::kF32, rows, 64,
                             std::vector<float>(static_cast<size_t>(rows * 64), 1.0f + r));
        const std::vector<int64_t> of_z{0, 24, 64};
        backend.AllGatherColumns(z.tensor(), of_z);
        const auto first = static_cast<int64_t>(r) * cols / 2;
        backend.SampleGreedy(x.tensor().Columns(first, cols / 2), first,
                             std::span(chosen).subspan(r * static_cast<size_t>(rows), static_cast<size_t>(rows)));
        backend.WaitFor(backend.Submit());
        columns[r] = z.Get();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sums[0], sums[1]);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sums[0][i], 0.5f + 3 * Rounded(DType::kBF16, parts[0][i] + parts[1][i])) << rows << " x " << cols;
    }
    for (size_t i = 0; i < columns[0].size(); ++i) {
      ASSERT_EQ(columns[0][i], i % 64 < 24 ? 1 : 2);
      ASSERT_EQ(columns[1][i], i % 64 < 24 ? 1 : 2);
    }
    for (size_t row = 0; cols <= 4096 && row < static_cast<size_t>(rows); ++row) {
      EXPECT_EQ(chosen[row].outcome, SampledToken::Outcome::kChosen);
      EXPECT_EQ(chosen[row].id, chosen[static_cast<size_t>(rows) + row].id);
    }
    EXPECT_TRUE(backends[0]->status().ok()) << backends[0]->status().ToString();
  }
}

TEST(DeviceRanksNcclTest, MissingRankFailsTheDevice) {
  auto backends = MakeNcclRanks(std::chrono::seconds(3));
  if (backends.empty()) GTEST_SKIP() << "no two devices, or no NCCL";
  backends[0]->MakeCurrent();
  {
    const DeviceMatrix x(*backends[0], DType::kF32, 2, 64, std::vector<float>(128)),
        y(*backends[0], DType::kF32, 2, 64, std::vector<float>(128));
    for (int i = 0; i < 20; ++i) backends[0]->AllReduceAdd(x.tensor(), y.tensor());
    backends[0]->WaitFor(backends[0]->Submit());
    EXPECT_EQ(backends[0]->status().code(), StatusCode::kUnavailable);
  }
}

TEST(DeviceRanksNcclTest, RefusesOneDevice) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no device";
  const auto made = MakeRanks({.tensor = 2}, std::chrono::minutes(2), [](int, RankComms comms) {
    return MakeCudaBackend({.memory_bytes = size_t{768} << 20, .all_reduce = AllReduce::kNccl}, std::move(comms));
  });
  EXPECT_EQ(made.status().code(), StatusCode::kUnavailable);
}

TEST(DeviceRanksFailureTest, MissingRankFailsTheDevice) {
  for (const std::string device : {"cpu", "cuda_bf16"}) {
    auto backends = MakeTestRanks(device, {.tensor = 2}, std::chrono::seconds(3));
    if (backends.empty()) continue;
    EXPECT_TRUE(backends[0]->status().ok());
    backends[0]->MakeCurrent();
    const DeviceMatrix x(*backends[0], DType::kF32, 2, 64, std::vector<float>(128)),
        y(*backends[0], DType::kF32, 2, 64, std::vector<float>(128));
    for (int i = 0; i < 20; ++i) backends[0]->AllReduceAdd(x.tensor(), y.tensor());  // waits once, not for each
    backends[0]->WaitFor(backends[0]->Submit());
    EXPECT_EQ(backends[0]->status().code(), StatusCode::kUnavailable) << device;
  }
}

TEST(DeviceRanksFailureTest, StalledStageFailsTheDevice) {
  for (const bool sends : {false, true}) {
    for (const std::string device : {"cpu", "cuda_bf16", "cuda_bf16_nccl"}) {
      if (sends && device == "cpu") continue;  // sent data stay there until received
      if (device.ends_with("_nccl") && (CountCudaDevices() < 2 || !HasNccl())) continue;
      auto backends = MakeTestRanks(device, {.tensor = 1, .stages = 2}, std::chrono::seconds(3));
      if (backends.empty()) continue;
      Backend& backend = *backends[sends ? 1 : 0];  // rank 0 has the last stage
      backend.MakeCurrent();
      const DeviceMatrix x(backend, DType::kF32, 2, 64, std::vector<float>(128));
      for (int i = 0; i < 20; ++i) sends ? backend.SendRows(x.tensor()) : backend.ReceiveRows(x.tensor());
      backend.WaitFor(backend.Submit());
      EXPECT_EQ(backend.status().code(), StatusCode::kUnavailable) << device;
    }
  }
}

}  // namespace
}  // namespace ringside::testing
