#include "runtime/device/cudasim/program/ControlFlow.h"

#include <algorithm>

namespace sluice::cudasim {

namespace {

/// Straight runs of ops; the last entry is the virtual end.
struct Blocks {
  std::vector<uint32_t> first; // op that begins the block
  std::vector<uint32_t> last;  // op that ends it
  std::vector<std::vector<uint32_t>> next, previous;
  uint32_t end = 0;
};

Blocks cutIntoBlocks(const std::vector<Op> &ops) {
  std::vector<bool> leads(ops.size() + 1, false);
  leads[0] = true;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind == OpKind::Branch)
      leads[ops[i].target] = true;
    if (ops[i].kind == OpKind::Branch || ops[i].kind == OpKind::Exit || ops[i].kind == OpKind::Trap)
      leads[i + 1] = true;
  }
  Blocks blocks;
  std::vector<uint32_t> blockOf(ops.size());
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (leads[i])
      blocks.first.push_back(i);
    blockOf[i] = static_cast<uint32_t>(blocks.first.size()) - 1;
  }
  const uint32_t count = static_cast<uint32_t>(blocks.first.size());
  blocks.end = count;
  blocks.last.resize(count);
  blocks.next.resize(count + 1);
  blocks.previous.resize(count + 1);
  for (uint32_t block = 0; block < count; ++block) {
    const uint32_t last =
        (block + 1 < count ? blocks.first[block + 1] : static_cast<uint32_t>(ops.size())) - 1;
    blocks.last[block] = last;
    const Op &op = ops[last];
    const bool guarded = op.guard != kNoRow;
    const auto link = [&](uint32_t to) {
      blocks.next[block].push_back(to);
      blocks.previous[to].push_back(block);
    };
    if (op.kind == OpKind::Branch)
      link(blockOf[op.target]);
    if (op.kind == OpKind::Exit || op.kind == OpKind::Trap)
      link(blocks.end);
    const bool stops = op.kind == OpKind::Branch || op.kind == OpKind::Exit || op.kind == OpKind::Trap;
    if ((!stops || guarded) && last + 1 < ops.size())
      link(blockOf[last + 1]);
  }
  return blocks;
}

/// Post-order of the reversed graph from its end, without recursion.
std::vector<uint32_t> reversedPostOrder(const Blocks &blocks) {
  std::vector<uint32_t> order;
  std::vector<bool> seen(blocks.end + 1, false);
  std::vector<std::pair<uint32_t, size_t>> stack = {{blocks.end, 0}};
  seen[blocks.end] = true;
  while (!stack.empty()) {
    auto &[block, edge] = stack.back();
    if (edge < blocks.previous[block].size()) {
      const uint32_t to = blocks.previous[block][edge++];
      if (!seen[to]) {
        seen[to] = true;
        stack.push_back({to, 0});
      }
    } else {
      order.push_back(block);
      stack.pop_back();
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

} // namespace

void findJoins(std::vector<Op> &ops) {
  const Blocks blocks = cutIntoBlocks(ops);
  const std::vector<uint32_t> order = reversedPostOrder(blocks);
  std::vector<uint32_t> rank(blocks.end + 1, kNoOp), dominator(blocks.end + 1, kNoOp);
  for (uint32_t i = 0; i < order.size(); ++i)
    rank[order[i]] = i;
  dominator[blocks.end] = blocks.end;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t block : order) {
      if (block == blocks.end)
        continue;
      uint32_t found = kNoOp;
      for (uint32_t next : blocks.next[block]) {
        if (dominator[next] == kNoOp)
          continue;
        if (found == kNoOp) {
          found = next;
          continue;
        }
        uint32_t other = next;
        while (found != other) {
          while (rank[found] > rank[other])
            found = dominator[found];
          while (rank[other] > rank[found])
            other = dominator[other];
        }
      }
      if (found != dominator[block]) {
        dominator[block] = found;
        changed = true;
      }
    }
  }
  for (uint32_t block = 0; block < blocks.end; ++block) {
    Op &op = ops[blocks.last[block]];
    if (op.kind != OpKind::Branch || op.guard == kNoRow)
      continue;
    const uint32_t join = dominator[block];
    op.join = join == kNoOp || join == blocks.end ? kNoOp : blocks.first[join];
  }
}

} // namespace sluice::cudasim
