// The division of slabs, recurrent states included, over ranks and stages: every byte of a whole slab is saved by
// exactly one rank, what a rank loads is at its place, and no rank's slab outgrows its ratio of the whole one.
#include "engine/model/ranks/slab_part.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/slab_chunks.h"

namespace ringside {
namespace {

ModelSpec HybridSpec(const RecurrenceShape& recurrence, int64_t kv_heads) {
  ModelSpec spec;
  spec.layers = 5, spec.heads = 8, spec.kv_heads = kv_heads, spec.head_dim = 8, spec.hidden = 32, spec.ffn = 64;
  spec.vocab = 96;
  spec.recurrence = recurrence;
  spec.layer_traits.resize(5);
  for (const size_t layer : {0, 1, 3}) spec.layer_traits[layer].mixer = recurrence.mixer;
  return spec;
}

std::vector<ModelSpec> DividedSpecs() {
  const RecurrenceShape delta{
      .mixer = Mixer::kDeltaNet, .key_heads = 4, .value_heads = 8, .key_size = 6, .value_size = 16, .kernel = 4};
  RecurrenceShape alternating = delta, kda = delta, mamba = delta;
  alternating.alternates = true;
  kda.mixer = Mixer::kKda, kda.key_heads = 8;
  mamba.mixer = Mixer::kMamba2, mamba.key_heads = 1;
  const RecurrenceShape convolution{.mixer = Mixer::kConvolution, .kernel = 3, .width = 40};
  std::vector<ModelSpec> specs;
  for (const RecurrenceShape& sizes : {delta, alternating, kda, mamba, convolution})
    specs.push_back(HybridSpec(sizes, 4));
  ModelSpec varied = HybridSpec({}, 4);
  for (LayerTraits& layer : varied.layer_traits) layer.mixer = Mixer::kAttention;
  varied.layer_traits[2].kv_heads = 1, varied.layer_traits[2].head_dim = 16;
  varied.layer_traits[4].keys_of = 3;
  specs.push_back(varied);
  ModelSpec latent = HybridSpec({}, 1);
  latent.layer_traits.clear();
  latent.latent = {.rank = 16, .plain = 8, .value = 16};
  latent.rotary = 4, latent.head_dim = 20;
  specs.push_back(latent);
  return specs;
}

KvShape WholeShape(const ModelSpec& spec) {
  KvShape shape{.layers = spec.attention_layers(),
                .kv_heads = spec.kv_heads,
                .head_dim = spec.head_dim,
                .dtype = DType::kF32,
                .pinned_tiles = 1,
                .ring_tiles = 3,
                .state = spec.state(),
                .latent_dim = spec.latent.rank,
                .varied = spec.varied_layers()};
  shape.state.slots = spec.recurrent() ? 3 : 0;
  return shape;
}

/// Whole-slab runs as snapshots have them: all tiles, and the slots and the tail in parts of odd sizes.
std::vector<SlabRun> WholeRuns(const KvShape& shape, std::vector<std::byte>* host) {
  std::vector<SlabRun> runs;
  const auto add = [&](int64_t begin, int64_t end, int64_t part) {
    for (; begin < end; begin += part) {
      runs.push_back({.offset = begin, .bytes = std::min(part, end - begin), .host = host->data() + begin});
    }
  };
  for (int64_t slot = 0; slot < shape.state.slots; ++slot) {
    add(shape.state.BoundaryOffset(slot, 0), shape.state.BoundaryOffset(slot + 1, 0), 1000);
  }
  for (int64_t layer = 0; layer < shape.state.layers; ++layer) {
    add(shape.state.TailOffset(layer, 0), shape.state.TailOffset(layer, 0) + 64 * shape.state.tail_row_bytes, 3000);
  }
  add(shape.state.bytes(), shape.slab_bytes(), 2 * shape.tile_bytes());
  return runs;
}

constexpr RankLayout kDividedLayouts[] = {{2, 1}, {3, 1}, {4, 1}, {8, 1}, {1, 2}, {2, 2}, {1, 3}};

TEST(SlabPartTest, RanksSaveEveryByteOnceAndLoadWhatTheySaved) {
  for (const ModelSpec& spec : DividedSpecs()) {
    const KvShape whole = WholeShape(spec);
    for (const RankLayout& layout : kDividedLayouts) {
      const auto shards = MakeShards(spec, layout);
      ASSERT_TRUE(shards.ok()) << shards.status().ToString();
      std::vector<std::byte> host(static_cast<size_t>(whole.slab_bytes()));
      std::vector<int> saved(host.size());
      const std::vector<SlabRun> runs = WholeRuns(whole, &host);
      for (const Shard& shard : *shards) {
        const SlabPart part(shard, spec);
        const KvShape own = part.ShapeOf(whole);
        std::vector<int64_t> from(static_cast<size_t>(own.slab_bytes()), -1);  // where the rank loads a byte from
        for (const bool saves : {false, true}) {
          for (const SlabRun& run : runs) {
            for (const SlabRun& of_rank : part.RunsOf(whole, run, saves)) {
              ForEachChunk(own, of_rank, [&](int64_t offset, const std::byte* at, size_t bytes) {
                ASSERT_LE(offset + static_cast<int64_t>(bytes), own.slab_bytes());
                for (size_t i = 0; i < bytes; ++i) {
                  const int64_t place = at - host.data() + static_cast<int64_t>(i);
                  int64_t& loaded = from[static_cast<size_t>(offset) + i];
                  if (saves) {
                    EXPECT_EQ(loaded, place);
                    ++saved[static_cast<size_t>(place)];
                  } else {
                    EXPECT_EQ(loaded, -1);
                    loaded = place;
                  }
                }
              });
            }
          }
        }
        EXPECT_EQ(std::ranges::count(from.begin() + own.state.bytes(), from.end(), -1), 0) << "all of its tiles";
      }
      for (const SlabRun& run : runs) {  // what no rank has is padding
        std::fill_n(run.host, run.bytes, std::byte{1});
        SlabPart(shards->front(), spec).ClearPadding(whole, run);
      }
      int64_t wrong = 0;
      for (const SlabRun& run : runs) {
        for (int64_t i = run.offset; i < run.offset + run.bytes; ++i) {
          wrong += saved[static_cast<size_t>(i)] == static_cast<int>(host[static_cast<size_t>(i)]) ? 0 : 1;
        }
      }
      EXPECT_EQ(wrong, 0) << layout.tensor << " ranks, " << layout.stages << " stages";
    }
  }
}

TEST(SlabPartTest, EveryBeginningOfASlabFitsItsRatio) {
  for (const ModelSpec& spec : DividedSpecs()) {
    for (const RankLayout& layout : kDividedLayouts) {
      const auto shards = MakeShards(spec, layout);
      ASSERT_TRUE(shards.ok()) << shards.status().ToString();
      for (const Shard& shard : *shards) {
        const SlabPart part(shard, spec);
        EXPECT_LE(part.ratio().all, 128);
        KvShape whole = WholeShape(spec);
        for (whole.state.slots = spec.recurrent() ? 2 : 0; whole.state.slots < 40; whole.state.slots += 7) {
          const KvShape own = part.ShapeOf(whole);
          for (int64_t tile = 0; tile <= whole.pinned_tiles + whole.ring_tiles; ++tile) {
            EXPECT_LE(own.TileBegin(tile) * part.ratio().all, whole.TileBegin(tile) * part.ratio().own);
          }
        }
      }
    }
  }
}

TEST(SlabPartTest, EqualSharesTakeExactlyTheirPart) {
  ModelSpec spec = DividedSpecs().front();
  spec.recurrence = {
      .mixer = Mixer::kDeltaNet, .key_heads = 16, .value_heads = 32, .key_size = 128, .value_size = 128, .kernel = 4};
  const auto shards = MakeShards(spec, {.tensor = 2});
  ASSERT_TRUE(shards.ok()) << shards.status().ToString();
  for (const Shard& shard : *shards) {
    const SlabRatio ratio = SlabPart(shard, spec).ratio();
    EXPECT_EQ(ratio.own * 2, ratio.all);
  }
}

TEST(ShardTest, StagesKeepSharedKeysTogether) {
  ModelSpec spec;
  spec.layers = 6, spec.heads = 4, spec.kv_heads = 2, spec.head_dim = 16, spec.ffn = 64, spec.vocab = 96;
  spec.layer_traits.resize(6);
  spec.layer_traits[4].keys_of = 2, spec.layer_traits[5].keys_of = 1;
  const auto two = MakeShards(spec, {.stages = 2});
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(two->back().layers, (IndexRange{0, 1})) << "layer 5 reads keys of layer 1";
  EXPECT_EQ(two->front().Of(spec).Layer(4).keys_of, 0);
  EXPECT_EQ(MakeShards(spec, {.stages = 3}).status().message(),
            "6 layers, some of which share keys and values, cannot be shared by 3 stages");
}

TEST(ShardTest, RefusesPartsWithFewerHeadsThanRanks) {
  const RecurrenceShape kda{
      .mixer = Mixer::kKda, .key_heads = 4, .value_heads = 4, .key_size = 6, .value_size = 16, .kernel = 4};
  ModelSpec spec = HybridSpec(kda, 4);
  const auto message = [&](int ranks) { return MakeShards(spec, {.tensor = ranks}).status().message(); };
  EXPECT_EQ(message(4), "");
  EXPECT_EQ(message(8), "4 recurrent heads of a layer cannot be shared by 8 ranks");
  spec.recurrence.mixer = Mixer::kMamba2, spec.recurrence.value_heads = 8, spec.recurrent_groups = 2;
  EXPECT_EQ(message(2), "");
  EXPECT_EQ(message(3), "2 groups with a norm of a layer cannot be shared by 3 ranks");
  spec = HybridSpec({.mixer = Mixer::kConvolution, .kernel = 3, .width = 3}, 4);
  EXPECT_EQ(message(4), "3 channels of the convolution of a layer cannot be shared by 4 ranks");
  spec = HybridSpec({}, 4);
  spec.layer_traits.clear();
  spec.experts = 4, spec.experts_used = 2, spec.shared_ffn = 3;
  EXPECT_EQ(message(4), "3 columns of the MLP of a layer cannot be shared by 4 ranks");
}

// Blocks of 256 values are not split; smaller ones, or none, allow equal parts.
TEST(ShardTest, DividesColumnsEvenlyIfTheBlocksAllow) {
  const Shard second{.rank = 1, .ranks = 2};
  EXPECT_EQ(second.Columns(768), (IndexRange{384, 768}));
  EXPECT_EQ((Shard{.rank = 1, .ranks = 2, .block = 256}).Columns(768), (IndexRange{256, 768}));
  EXPECT_EQ((Shard{.rank = 1, .ranks = 2, .block = 256}).Columns(1024), (IndexRange{512, 1024}));
}

}  // namespace
}  // namespace ringside
