// Random lifetimes: blocks that are alive together never share bytes, and the arena is never far above what
// must live.
#include "passes/PlanOffsets.h"

#include "gtest/gtest.h"

#include <random>

namespace sluice {
namespace {

TEST(PlaceBlocks, NeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    int64_t commands = 1 + random() % 60;
    std::vector<LiveBlock> blocks(random() % 80);
    for (LiveBlock &block : blocks) {
      block.bytes = 64 * static_cast<int64_t>(random() % 40);
      block.first = static_cast<int64_t>(random()) % commands;
      block.last = std::min(commands - 1, block.first + static_cast<int64_t>(random() % 12));
    }
    int64_t size = placeBlocks(blocks), atOnce = 0, sum = 0;
    for (const LiveBlock &block : blocks) {
      EXPECT_EQ(block.offset % 64, 0);
      EXPECT_LE(block.offset + block.bytes, size);
      sum += block.bytes;
    }
    for (size_t a = 0; a < blocks.size(); ++a)
      for (size_t b = a + 1; b < blocks.size(); ++b)
        if (blocks[a].livesWith(blocks[b]) && blocks[a].bytes > 0 && blocks[b].bytes > 0) {
          EXPECT_TRUE(blocks[a].offset + blocks[a].bytes <= blocks[b].offset ||
                      blocks[b].offset + blocks[b].bytes <= blocks[a].offset)
              << "round " << round << ", blocks " << a << " and " << b;
        }
    for (int64_t command = 0; command < commands; ++command) {
      int64_t alive = 0;
      for (const LiveBlock &block : blocks)
        alive += block.first <= command && command <= block.last ? block.bytes : 0;
      atOnce = std::max(atOnce, alive);
    }
    EXPECT_GE(size, atOnce);
    EXPECT_LE(size, sum);
  }
}

// A chain of equal values, each dying as the next is made, needs two places.
TEST(PlaceBlocks, ChainReusesMemory) {
  std::vector<LiveBlock> blocks;
  for (int64_t i = 0; i < 20; ++i)
    blocks.push_back({640, i, i + 1, 0});
  EXPECT_EQ(placeBlocks(blocks), 1280);
}

// A block that starts after another died takes its place between those that live on.
TEST(PlaceBlocks, ReusesTheMemoryOfTheDead) {
  std::vector<LiveBlock> blocks = {{1024, 0, 9, 0}, {512, 0, 3, 0}, {256, 0, 9, 0}, {128, 4, 9, 0}};
  EXPECT_EQ(placeBlocks(blocks), 1792);
  EXPECT_EQ(blocks[3].offset, 1024);
}

} // namespace
} // namespace sluice
