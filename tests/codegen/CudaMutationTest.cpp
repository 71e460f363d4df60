// The checks of the simulated driver against our own kernels: every barrier of the library is removed in
// turn and the removal is found, at a line beside it; other bugs are planted and found likewise. A barrier
// that could go unnoticed would be redundant, or a check blind.
#include "codegen/cuda/Images.h"
#include "codegen/cuda/LibraryUnits.h"
#include "codegen/cuda/Sources.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/ModuleArchive.h"
#include "tests/runtime/device/RoutingReference.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <sstream>

namespace sluice::test {

const bool takesLargeShapes = false;

namespace {

Device *current = nullptr;

template <typename Function> Function *simulatorFunction(const char *name) {
  static void *library = ::dlopen(SLUICE_CUDASIM_LIBRARY, RTLD_NOW);
  return reinterpret_cast<Function *>(::dlsym(library, name));
}

} // namespace

StatusOr<Device *> testDevice(int) {
  return current;
}

Status checkTestDevice() {
  return absl::OkStatus();
}

namespace {

std::string sourceOf(const std::string &name) {
  for (const cuda::SourceFile &file : cuda::librarySources())
    if (name == file.name)
      return std::string(file.text);
  ADD_FAILURE() << "no file " << name;
  return "";
}

/// The `occurrence`-th place of `text` in `source`, from 0.
size_t placeOf(const std::string &source, const std::string &text, int occurrence) {
  size_t at = source.find(text);
  for (; occurrence > 0 && at != std::string::npos; --occurrence)
    at = source.find(text, at + 1);
  return at;
}

int lineOf(const std::string &source, size_t at) {
  return 1 + static_cast<int>(std::count(source.begin(), source.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

using Workload = std::function<void(CommandRunner &)>;

// Workloads: one command each, large enough that the kernels loop and several blocks and warps take part.

void product(CommandRunner &runner) {
  runner.add("gemm",
             {runner.floats({67, 35}, Floats(67 * 35, 1)), runner.floats({35, 70}, Floats(35 * 70, 1))},
             {runner.output({67, 70})});
}
void routing(CommandRunner &runner) {
  const Floats logits = randomFloats(300 * 3, 1);
  runner.add(
      "route", {runner.floats({300, 3}, logits)},
      {runner.output({3 * 600 + 4}, ElementType::I32), runner.output({300, 2}), runner.output({300, 3})},
      {flag("top_k", 2), flag("score", 0), flag("renormalize", 1), real("epsilon", 0), real("scale", 1)});
}
void head(CommandRunner &runner) {
  const int64_t tokens = 3, width = 5, vocabulary = 300;
  runner.add("linear_cross_entropy_gradient",
             {runner.floats({tokens, width}, randomFloats(tokens * width, 1)),
              runner.floats({vocabulary, width}, randomFloats(vocabulary * width, 2)),
              runner.integers({tokens}, {3, 290, 150}), runner.floats({1}, {1})},
             {runner.output({1}), runner.output({tokens, width}), runner.output({vocabulary, width})},
             {flag("ignore_index", -100)});
}
void routerLoss(CommandRunner &runner) {
  runner.add(
      "router_z",
      {runner.floats({70, 3}, randomFloats(210, 1)), runner.integers({70}, std::vector<int32_t>(70, 1))},
      {runner.output({1})}, {flag("ignore_index", -100)});
}
void embeddingGradient(CommandRunner &runner) {
  const int64_t uses = 1400; // two blocks of the sort, several rounds in the first
  std::vector<int32_t> ids;
  ids.reserve(uses);
  for (int i = 0; i < uses; ++i)
    ids.push_back(i * i % 300);
  runner.add("embedding_gradient",
             {runner.integers({uses}, ids), runner.floats({uses, 3}, randomFloats(3 * uses, 1))},
             {runner.output({300, 3})});
}
void embeddingFarOutside(CommandRunner &runner) {
  runner.add("embedding", {runner.integers({2}, {1, 1 << 24}), runner.floats({3, 3}, Floats(9))},
             {runner.output({2, 3})});
}
void embedding(CommandRunner &runner) {
  runner.add("embedding", {runner.integers({2}, {1, 2}), runner.floats({3, 3}, Floats(9))},
             {runner.output({2, 3})});
}
void optimizer(CommandRunner &runner) {
  const int64_t n = 9000; // three blocks
  const Operand w = runner.floats({n}, Floats(n, 1)), m = runner.floats({n}, Floats(n)),
                v = runner.floats({n}, Floats(n)), g = runner.floats({n}, Floats(n, 1)),
                one = runner.floats({1}, {1});
  runner.add("adamw", {w, m, v, g, one, one, one, one}, {w, m, v, g},
             {real("beta1", 0.9), real("beta2", 0.9), real("epsilon", 1e-8), real("weight_decay", 0),
              real("clip", 0)});
}
void norm(CommandRunner &runner) {
  runner.add("global_norm", {runner.floats({9001}, Floats(9001, 1))}, {runner.output({1})});
}
void grouped(CommandRunner &runner) {
  const RoutingReference r = routingFromIds(assignment("random", 80, 1, 3), 1, 3);
  runner.add("grouped_gemm",
             {runner.floats({80, 17}, Floats(80 * 17, 1)), runner.floats({3, 5, 17}, Floats(3 * 5 * 17, 1)),
              runner.integers(r.shape(), r.buffer)},
             {runner.output({80, 5})}, {flag("top_k", 1)});
}
void expertsUp(CommandRunner &runner) {
  const RoutingReference r = routingFromIds(assignment("random", 80, 2, 3), 2, 3);
  const Operand w = runner.floats({3, 5, 17}, Floats(3 * 5 * 17, 1));
  runner.add("experts_up",
             {runner.floats({80, 17}, Floats(80 * 17, 1)), runner.integers(r.shape(), r.buffer), w, w},
             {runner.output({160, 5}), runner.output({160, 5}), runner.output({160, 5})}, {flag("top_k", 2)});
}
void sinks(CommandRunner &runner) {
  const Operand x = runner.floats({1, 70, 2}, Floats(140, 1)), lse = runner.floats({1, 1, 70}, Floats(70, 4)),
                sink = runner.floats({1}, {1});
  runner.add(
      "attention_backward", {x, x, x, x, lse, x, sink},
      {runner.output({1, 70, 2}), runner.output({1, 70, 2}), runner.output({1, 70, 2}), runner.output({1})},
      {flag("heads", 1), flag("kv_heads", 1), flag("head_dim", 2), flag("causal", 1), real("scale", 1.0),
       flag("sinks", 1)});
}
void attention(CommandRunner &runner) {
  const int64_t sequence = 70, width = 2 * 5;
  const Operand x = runner.floats({1, sequence, width}, randomFloats(sequence * width, 1));
  runner.add(
      "attention_forward", {x, x, x}, {runner.output({1, sequence, width}), runner.output({1, 2, sequence})},
      {flag("heads", 2), flag("kv_heads", 2), flag("head_dim", 5), flag("causal", 1), real("scale", 1.0)});
}

/// Two drops, by sign, and growth.
void maskUpdate(CommandRunner &runner) {
  constexpr int64_t n = 600;
  std::vector<uint8_t> bits(80);
  std::fill(bits.begin(), bits.begin() + 25, uint8_t{255}); // the first 200
  Floats w(n);
  for (size_t i = 0; i < 200; ++i)
    w[i] = i % 2 == 0 ? 1.0f + static_cast<float>(i) : -1.0f - static_cast<float>(i);
  const Operand mask = runner.bytes(bits), weight = runner.floats({n}, w), m = runner.floats({n}, w),
                v = runner.floats({n}, w), seed = runner.longs({1}, {5}), step = runner.longs({1}, {3}),
                amount = runner.longs({1}, {300000000});
  runner.add("update_mask", {mask, weight, m, v, seed, step, amount}, {mask, weight, m, v},
             {text("stream", "w.mask"), text("drop", "signed"), text("grow", "random"),
              text("pattern", "unstructured"), text("shape", "20,30"), flag("kept", 200), flag("target", 200),
              flag("has_age", 0), real("restart", 0)});
}

/// The gradient of 24 x 24 blocks under a mask that keeps every second of them.
void blocks(CommandRunner &runner) {
  constexpr int64_t side = 24 * 16;
  std::vector<uint8_t> bits(side * side / 8);
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] = i / 2 % 2 == 0 ? 255 : 0;
  const Floats ones(3 * side, 1);
  runner.add("masked_weight_gradient",
             {runner.floats({3, side}, ones), runner.floats({3, side}, ones), runner.bytes(bits)},
             {runner.output({side, side})},
             {flag("kept", side * side / 2), flag("skip_at_most", 0), text("pattern", "block:16x16")});
}

/// A line of the library, by what stands in it.
struct Place {
  const char *file, *text;
};

struct Mutation {
  const char *name;
  const char *file;                // where the text is replaced
  const char *from;                // this text
  int occurrence;                  // of the file's
  const char *to;                  // by this one
  const char *unit;                // the library's unit that is compiled with it
  Workload workload;               // runs the kernel
  const char *check;               // that finds it
  int near = 8;                    // lines between the replaced text and the finding, at most
  std::optional<Place> shows = {}; // where the bug shows, if not beside the replaced text
};

/// The unit with `file` changed; headers that change are put in their place, with their own line numbers.
std::string mutate(const Mutation &mutation, int &line) {
  std::string text = sourceOf(mutation.file);
  const size_t at = placeOf(text, mutation.from, mutation.occurrence);
  EXPECT_NE(at, std::string::npos) << mutation.from;
  if (at == std::string::npos)
    return "";
  line = lineOf(text, at);
  text.replace(at, std::strlen(mutation.from), mutation.to);
  if (std::string(mutation.file) == mutation.unit)
    return text;
  std::string unit = sourceOf(mutation.unit);
  const std::string include = "#include \"" + std::string(mutation.file) + "\"\n", once = "#pragma once\n";
  const size_t place = unit.find(include);
  EXPECT_NE(place, std::string::npos) << include;
  text.replace(text.find(once), once.size(), "\n");
  const int after = lineOf(unit, place) + 1;
  return unit.replace(
      place, include.size(),
      concat("#line 1 \"", mutation.file, "\"\n", text, "\n#line ", after, " \"", mutation.unit, "\"\n"));
}

class Mutations : public testing::Test {
protected:
  static void SetUpTestSuite() {
    ::setenv("SLUICE_CUBLASLT", "none", 1); // our own products are to be tested
    StatusOr<std::vector<cuda::CudaImage>> images = cuda::compileImages({}, {"cuda:sm_80"});
    ASSERT_TRUE(images.ok()) << images.status();
    library = images->back().image;
    ASSERT_EQ(images->back().target, "cuda:compute_80");
  }

  /// Runs the workload with the unit's kernels replaced; returns the findings.
  static std::string findings(const std::string &source, const std::string &unit, const Workload &workload) {
    simulatorFunction<void()>("cudasimReset")();
    EXPECT_EQ(simulatorFunction<int(const char *)>("cudasimConfigure")("check=all;seed=0;memory=268435456"),
              0);
    simulatorFunction<void()>("cudasimClearFindings")();
    StatusOr<std::unique_ptr<Device>> device = createCudaDevice(SLUICE_CUDASIM_LIBRARY, 0, "cuda-sim");
    EXPECT_TRUE(device.ok()) << device.status();
    if (!device.ok())
      return "";
    EXPECT_TRUE((*device)->loadKernels({"cuda:compute_80", library}).ok());
    if (!source.empty()) {
      StatusOr<std::shared_ptr<const cuda::Nvrtc>> nvrtc = cuda::Nvrtc::open();
      EXPECT_TRUE(nvrtc.ok());
      StatusOr<std::string> ptx = (*nvrtc)->compile({unit, source}, "compute_80");
      EXPECT_TRUE(ptx.ok()) << ptx.status();
      if (!ptx.ok())
        return "";
      const std::string archive = cuda::writeModuleArchive({{cuda::kernelsOf(source), *ptx}});
      const Status loaded = (*device)->loadKernels({"cuda:compute_80", archive});
      EXPECT_TRUE(loaded.ok()) << loaded;
    }
    current = device->get();
    CommandRunner runner;
    workload(runner);
    runner.runWith(1).IgnoreError(); // some bugs end the launch, others do not
    return simulatorFunction<const char *()>("cudasimFindings")();
  }

  static void expectFound(const Mutation &mutation) {
    SCOPED_TRACE(mutation.name);
    int line = 0;
    const std::string source = mutate(mutation, line);
    const std::string found = findings(source, mutation.unit, mutation.workload);
    std::istringstream lines(found);
    static const std::regex place(R"(^(\w+): kernel '\w+' at ([\w.]+):(\d+) )");
    const std::string file = mutation.shows ? mutation.shows->file : mutation.file;
    if (mutation.shows) {
      const std::string text = sourceOf(file);
      const size_t at = placeOf(text, mutation.shows->text, 0);
      ASSERT_NE(at, std::string::npos) << mutation.shows->text;
      line = lineOf(text, at);
    }
    bool named = false;
    std::smatch match;
    for (std::string text; std::getline(lines, text);)
      named |= std::regex_search(text, match, place) && match[1] == mutation.check && match[2] == file &&
               std::abs(std::stoi(match[3]) - line) <= mutation.near;
    EXPECT_TRUE(named) << "expected a " << mutation.check << " finding near " << file << ":" << line
                       << ", found: " << found;
  }

  static std::string library;
};

std::string Mutations::library;

const char *const barrier = "__syncthreads();";
const Place storesTile = {"Tile.cuh", "*place = accumulate"},
            storesRow = {"Attention.cu", "row[lane() + 32 * i] = factor * part[i]"},
            readsToken = {"Experts.cu", "tokens.token[line] < 0 ? 0.0f : x"};

const std::vector<Mutation> barriers = {
    {"step's numbers", "Optimizer.cu", barrier, 0, "", "Optimizer.cu", optimizer, "race", 24},
    {"digits cleared", "Mask.cuh", barrier, 0, "", "Masks.cu", maskUpdate, "race", 12},
    {"digits counted", "Mask.cuh", barrier, 1, "", "Masks.cu", maskUpdate, "race", 12},
    {"digit chosen", "Mask.cuh", barrier, 2, "", "Masks.cu", maskUpdate, "race", 16},
    {"equals counted", "Mask.cuh", barrier, 3, "", "Masks.cu", maskUpdate, "race", 12},
    {"target's logit", "Losses.cu", barrier, 0, "", "Losses.cu", head, "race"},
    {"histogram cleared", "LookupGradient.cu", barrier, 0, "", "LookupGradient.cu", embeddingGradient,
     "race"},
    {"digits counted", "LookupGradient.cu", barrier, 1, "", "LookupGradient.cu", embeddingGradient, "race"},
    {"pieces summed", "LookupGradient.cu", barrier, 2, "", "LookupGradient.cu", embeddingGradient, "race"},
    {"warps cleared", "LookupGradient.cu", barrier, 3, "", "LookupGradient.cu", embeddingGradient, "race",
     20},
    {"warps counted", "LookupGradient.cu", barrier, 4, "", "LookupGradient.cu", embeddingGradient, "race"},
    {"places found", "LookupGradient.cu", barrier, 5, "", "LookupGradient.cu", embeddingGradient, "race", 12},
    {"round ended", "LookupGradient.cu", barrier, 6, "", "LookupGradient.cu", embeddingGradient, "race", 20},
    {"rows used", "Attention.cu", barrier, 0, "", "Attention.cu", attention, "race", 12},
    {"rows loaded", "Attention.cu", barrier, 1, "", "Attention.cu", attention, "race", 12},
    {"tokens looked up", "Experts.cu", barrier, 0, "", "Experts.cu", expertsUp, "race", 8, readsToken},
    {"counts written", "Route.cu", barrier, 0, "", "Route.cu", routing, "race", 12},
    {"counts read", "Route.cu", barrier, 1, "", "Route.cu", routing, "race", 16},
    {"tiles written", "Tile.cuh", barrier, 0, "", "Products.cu", product, "race"},
    {"tiles read", "Tile.cuh", barrier, 1, "", "Products.cu", product, "race", 16},
    {"parts read", "Reduce.cuh", barrier, 0, "", "Losses.cu", routerLoss, "race"},
    {"parts written", "Reduce.cuh", barrier, 1, "", "Losses.cu", routerLoss, "race"},
};

TEST_F(Mutations, EveryBarrierOfTheLibraryIsNeeded) {
  std::map<std::string, int> covered;
  for (const Mutation &mutation : barriers) {
    expectFound(mutation);
    ++covered[mutation.file];
  }
  for (const cuda::SourceFile &file : cuda::librarySources()) {
    const std::string text(file.text);
    int count = 0;
    while (placeOf(text, barrier, count) != std::string::npos)
      ++count;
    EXPECT_EQ(covered[file.name], count) << file.name << ": a barrier that no mutation removes";
    EXPECT_EQ(text.find("__syncwarp"), std::string::npos) << file.name << ": a barrier of another kind";
  }
}

TEST_F(Mutations, CleanKernelsGiveNoFinding) {
  for (const Workload &workload :
       {product, routing, head, routerLoss, embeddingGradient, embedding, embeddingFarOutside, optimizer,
        norm, grouped, expertsUp, attention, sinks, maskUpdate, blocks})
    EXPECT_EQ(findings("", "", workload), "");
}

TEST_F(Mutations, PlantedBugsAreFound) {
  const std::vector<Mutation> bugs = {
      // Stores of several blocks to one place.
      {"columns beyond the row", "Products.cu", "n - firstColumn,\n            bias", 0,
       "tileSize,\n            bias", "Products.cu", product, "race", 8, storesTile},
      {"one loss for all tokens", "Losses.cu", "losses[token] =", 0, "losses[0] =", "Losses.cu", head,
       "race"},
      {"one part for all blocks", "Optimizer.cu", "parts[blockIdx.x] =", 0, "parts[0] =", "Optimizer.cu",
       norm, "race"},
      {"no end of a block's piece", "Optimizer.cu", "min(tensors.entry[own].count, begin + piece)", 1,
       "tensors.entry[own].count", "Optimizer.cu", optimizer, "race"},
      {"every use owns its row", "LookupGradient.cu",
       "if (first > 0 && sortedIds[first - 1] == id)\n    return;", 0, "", "LookupGradient.cu",
       embeddingGradient, "race"},
      {"rows of another expert", "Grouped.cuh", "out, rows, endColumn", 0, "out, rowCount, endColumn",
       "Experts.cu", grouped, "race", 8, storesTile},
      {"tile without its beginning", "Grouped.cuh", "y + (int64)tile.begin * out + firstColumn", 0,
       "y + firstColumn", "Experts.cu", grouped, "race", 8, storesTile},
      {"one list for all lines", "MaskBlocks.cu", "places + index * shape.lineLength()", 0, "places",
       "MaskBlocks.cu", blocks, "race", 16},
      {"a tile of a block without its row", "Grouped.cuh", "dw + (int64)firstRow * in + firstColumn", 0,
       "dw + firstColumn", "MaskBlocks.cu", blocks, "race", 8, storesTile},
      {"rows of every head", "Attention.cu", "head(blockIdx.y)", 0, "head(0)", "Attention.cu", attention,
       "race", 8, storesRow},
      {"rows of a block alike", "Attention.cu", "s(first + (int)(threadIdx.x / 32))", 0, "s(first)",
       "Attention.cu", attention, "race", 8, storesRow},
      {"dsinks of one head", "Attention.cu", "if (threadIdx.x == 0)\n    dsinks[head]", 0, "dsinks[head]",
       "Attention.cu", sinks, "race"},
      // Stores of several threads of a block.
      {"every thread is the first", "Losses.cu", "if (threadIdx.x == 0)\n    *sum", 0, "*sum", "Losses.cu",
       head, "race"},
      {"a count without an atomic", "LookupGradient.cu", "atomicAdd(&histogram[keys.digit(i)], 1)", 0,
       "++histogram[keys.digit(i)]", "LookupGradient.cu", embeddingGradient, "race"},
      {"ranks of a warp alone", "LookupGradient.cu", "to += warps[earlier][digit]", 0, "to += 0",
       "LookupGradient.cu", embeddingGradient, "race"},
      {"rows without those of earlier warps", "Route.cu", "next + before +", 0, "next +", "Route.cu", routing,
       "race"},
      // Memory.
      {"too few parts", "Reduce.cuh", "T parts[32]", 0, "T parts[2]", "Losses.cu", routerLoss, "memory"},
      {"a shallow tile", "Tile.cuh", "value[tileDepth][lines + 4]", 0, "value[tileDepth / 2][lines + 4]",
       "Products.cu", product, "memory", 16},
      {"an id that is followed", "Move.cu", "valid ? table[(int64)id * width + column] : 0u", 0,
       "table[(int64)id * width + column]", "Move.cu", embeddingFarOutside, "memory"},
      {"words of the wrong width", "Move.cu", "valid ? table[(int64)id * width + column] : 0u", 0,
       "valid ? (uint32)*(const double *)(table + (int64)id * width + column) : 0u", "Move.cu", embedding,
       "memory"},
      // What nothing wrote.
      {"parts of warps that are not there", "Reduce.cuh",
       "lane() < blockDim.x / 32 ? parts[lane()] : Operation::template identity<T>()", 0, "parts[lane()]",
       "Losses.cu", routerLoss, "init"},
      {"half a tile", "Tile.cuh", "part < lines * tileDepth / tileThreads", 0,
       "part < lines * tileDepth / tileThreads / 2", "Products.cu", product, "init", 30},
      // Barriers and masks.
      {"a barrier for half of the block", "Losses.cu", barrier, 0, "if (threadIdx.x < 100) __syncthreads();",
       "Losses.cu", head, "barrier"},
      {"a mask of half a warp", "Reduce.cuh", "0xffffffffu", 0, "0x0000ffffu", "Losses.cu", routerLoss,
       "barrier"},
      {"a ballot of half a warp", "Route.cu", "0xffffffffu", 0, "0x0000ffffu", "Route.cu", routing,
       "barrier"},
      {"a count of half a line", "MaskBlocks.cu", "0xffffffffu", 0, "0x0000ffffu", "MaskBlocks.cu", blocks,
       "barrier"},
  };
  for (const Mutation &bug : bugs)
    expectFound(bug);
  EXPECT_GE(bugs.size(), 15u);
}

} // namespace
} // namespace sluice::test
