// The data contract, against plain loops over the documents.
#include "runtime/data/Windows.h"
#include "runtime/data/Permutation.h"
#include "tests/runtime/data/TestData.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace sluice {
namespace {

using Ids = std::vector<int32_t>;

class Windows : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    test::TemporaryFolder folder; // mapped files outlive their names
    PackOptions options = test::packOptions(folder, test::seededText(1, 120));
    options.shardTokens = 700;
    ASSERT_OK(packDataset(options).status());
    dataset = new Dataset(Dataset::open(options.output).value());
  }
  static void TearDownTestSuite() {
    delete dataset;
    dataset = nullptr;
  }

  static WindowOptions options(int64_t seq, WindowMode mode = WindowMode::Concatenate) {
    WindowOptions result;
    result.mode = mode;
    result.seq = seq;
    result.documentSeed = 3;
    result.windowSeed = 4;
    return result;
  }
  static WindowStream stream(const WindowOptions &options) {
    return WindowStream::open(dataset->train(), dataset->tokenizer(), options).value();
  }
  static Ids document(uint64_t index) {
    DocumentView view = dataset->train().document(index);
    Ids ids(view.tokens);
    view.copy(0, ids.size(), ids.data());
    return ids;
  }
  static int32_t delimiter() { return dataset->tokenizer().delimiter(); }
  /// The documents of the train split in the order of a seed, each with its delimiter.
  static std::vector<Ids> ordered(uint64_t seed) {
    const uint64_t count = dataset->train().documents();
    Permutation permutation(count, seed, "data/documents");
    std::vector<Ids> result;
    for (uint64_t i = 0; i < count; ++i) {
      result.push_back(document(permutation[i]));
      result.back().push_back(delimiter());
    }
    return result;
  }
  static Ids joined(const std::vector<Ids> &documents) {
    Ids result;
    for (const Ids &ids : documents)
      result.insert(result.end(), ids.begin(), ids.end());
    return result;
  }
  /// Window `index` of a run: inputs, then targets.
  static std::pair<Ids, Ids> at(const WindowStream &stream, uint64_t index) {
    Ids tokens(static_cast<size_t>(stream.seq())), targets(tokens.size());
    stream.batch(index, 1, tokens.data(), targets.data());
    return {tokens, targets};
  }

  static Dataset *dataset;
};
Dataset *Windows::dataset = nullptr;

TEST_F(Windows, ConcatenateCutsTheJoinedDocuments) {
  Ids all = joined(ordered(3));
  for (int64_t seq : {1, 2, 7, 64, 333}) {
    WindowStream windows = stream(options(seq));
    size_t length = static_cast<size_t>(seq);
    ASSERT_EQ(windows.windows(), (all.size() - 1) / length);
    EXPECT_EQ(windows.tokensPerEpoch(), windows.windows() * length);
    EXPECT_EQ(windows.uniqueTokens(), all.size());
    EXPECT_EQ(windows.droppedTokens(), all.size() - 1 - windows.tokensPerEpoch());
    for (uint64_t index = 0; index < windows.windows(); ++index) {
      auto [tokens, targets] = at(windows, index);
      auto begin = all.begin() + static_cast<ptrdiff_t>(windows.window(index) * length);
      ASSERT_EQ(tokens, Ids(begin, begin + seq));
      ASSERT_EQ(targets, Ids(begin + 1, begin + seq + 1));
    }
  }
}

TEST_F(Windows, DocumentModePadsAndTruncates) {
  std::vector<Ids> documents = ordered(3);
  for (int64_t seq : {1, 2, 20, 40, 400}) {
    WindowStream windows = stream(options(seq, WindowMode::Document));
    ASSERT_EQ(windows.windows(), documents.size());
    uint64_t real = 0;
    for (uint64_t index = 0; index < windows.windows(); ++index) {
      const Ids &ids = documents[windows.window(index)];
      auto [tokens, targets] = at(windows, index);
      for (size_t i = 0; i < static_cast<size_t>(seq); ++i) {
        ASSERT_EQ(tokens[i], i < ids.size() ? ids[i] : delimiter());
        ASSERT_EQ(targets[i], i + 1 < ids.size() ? ids[i + 1] : ignoreIndex);
        real += targets[i] != ignoreIndex;
      }
    }
    EXPECT_EQ(windows.tokensPerEpoch(), real);
  }
}

TEST_F(Windows, EveryEpochVisitsEveryWindowOnceInAFreshOrder) {
  for (WindowMode mode : {WindowMode::Concatenate, WindowMode::Document}) {
    WindowStream windows = stream(options(16, mode));
    std::set<std::vector<uint64_t>> orders;
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<uint64_t> order;
      order.reserve(windows.windows());
      for (uint64_t i = 0; i < windows.windows(); ++i)
        order.push_back(windows.window(epoch * windows.windows() + i));
      EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
      orders.insert(order);
      std::sort(order.begin(), order.end());
      std::vector<uint64_t> all(windows.windows());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all);
    }
    EXPECT_EQ(orders.size(), 4u);
  }
}

TEST_F(Windows, WithoutReshufflingEpochsRepeat) {
  WindowOptions fixed = options(16);
  fixed.reshuffle = false;
  WindowStream windows = stream(fixed);
  for (uint64_t i = 0; i < windows.windows(); ++i)
    EXPECT_EQ(windows.window(i), windows.window(i + 3 * windows.windows()));
}

TEST_F(Windows, SeedsAreSeparate) {
  WindowOptions base = options(16), order = base, documents = base;
  order.windowSeed = 5;
  documents.documentSeed = 5;
  auto windowOrder = [](const WindowStream &stream) {
    std::vector<uint64_t> result;
    result.reserve(stream.windows());
    for (uint64_t i = 0; i < stream.windows(); ++i)
      result.push_back(stream.window(i));
    return result;
  };
  EXPECT_NE(windowOrder(stream(base)), windowOrder(stream(order)));
  EXPECT_EQ(stream(base).contentHash(), stream(order).contentHash()); // the same windows
  EXPECT_EQ(windowOrder(stream(base)), windowOrder(stream(documents)));
  EXPECT_NE(stream(base).contentHash(), stream(documents).contentHash());
}

TEST_F(Windows, AnySplitIntoBatchesAndAnySeekGiveTheSameWindows) {
  // A run of two and a half epochs in batches that cross epochs, against each window alone.
  WindowStream windows = stream(options(16));
  const uint64_t total = windows.windows() * 5 / 2;
  EXPECT_DOUBLE_EQ(windows.epoch(windows.windows() * 5), 5.0);
  EXPECT_NEAR(windows.epoch(total), 2.5, 1.0 / static_cast<double>(windows.windows()));
  Ids tokens(16 * total), targets(16 * total);
  windows.batch(0, total, tokens.data(), targets.data());
  for (uint64_t size : {1, 3, 8}) {
    WindowStream resumed = stream(options(16)); // a fresh process
    Ids partTokens(16 * size), partTargets(16 * size);
    for (uint64_t first = 0; first + size <= total; first += size) {
      resumed.batch(first, size, partTokens.data(), partTargets.data());
      auto offset = static_cast<ptrdiff_t>(16 * first);
      ASSERT_TRUE(std::equal(partTokens.begin(), partTokens.end(), tokens.begin() + offset));
      ASSERT_TRUE(std::equal(partTargets.begin(), partTargets.end(), targets.begin() + offset));
    }
  }
}

TEST_F(Windows, UniqueTokensAreANestedPrefix) {
  Ids all = joined(ordered(3));
  for (uint64_t budget : {uint64_t{17}, uint64_t{100}, uint64_t{101}, uint64_t{500}, uint64_t{all.size()}}) {
    WindowOptions cut = options(16);
    cut.uniqueTokens = budget;
    WindowStream windows = stream(cut);
    EXPECT_EQ(windows.uniqueTokens(), budget);
    ASSERT_EQ(windows.windows(), (budget - 1) / 16);
    for (uint64_t index = 0; index < windows.windows(); ++index) {
      auto begin = all.begin() + static_cast<ptrdiff_t>(16 * windows.window(index));
      ASSERT_EQ(at(windows, index).second, Ids(begin + 1, begin + 17));
    }
  }
  WindowOptions tooMany = options(16);
  tooMany.uniqueTokens = all.size() + 1;
  auto refused = WindowStream::open(dataset->train(), dataset->tokenizer(), tooMany);
  EXPECT_EQ(exitCode(refused.status()), ExitCode::Usage);
  EXPECT_HAS(test::message(refused.status()), concat("at most ", all.size()));
}

TEST_F(Windows, UniqueWindowsAreTheFirstOfAll) {
  const std::vector<Ids> documents = ordered(3);
  WindowOptions cut = options(16, WindowMode::Document);
  cut.uniqueWindows = 2;
  const WindowStream two = stream(cut);
  EXPECT_EQ(two.windows(), 2u);
  EXPECT_EQ(two.uniqueTokens(), documents[0].size() + documents[1].size());
  cut.uniqueWindows = documents.size();
  EXPECT_EQ(stream(cut).windows(), documents.size());
  ++cut.uniqueWindows;
  auto refused = WindowStream::open(dataset->train(), dataset->tokenizer(), cut);
  EXPECT_EQ(exitCode(refused.status()), ExitCode::Usage);
  EXPECT_HAS(test::message(refused.status()), concat("unique_windows: expected at most ", documents.size()));

  const Ids all = joined(documents);
  WindowOptions joint = options(16);
  joint.uniqueWindows = 3;
  const WindowStream three = stream(joint);
  ASSERT_EQ(three.windows(), 3u);
  for (uint64_t index = 0; index < 3; ++index) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(16 * three.window(index));
    ASSERT_EQ(at(three, index).second, Ids(begin + 1, begin + 17));
  }
  joint.uniqueWindows = (all.size() - 1) / 16;
  EXPECT_EQ(stream(joint).windows(), joint.uniqueWindows);
  ++joint.uniqueWindows;
  EXPECT_EQ(exitCode(WindowStream::open(dataset->train(), dataset->tokenizer(), joint).status()),
            ExitCode::Usage);
  joint.uniqueWindows = 1, joint.uniqueTokens = 100;
  EXPECT_HAS(test::message(WindowStream::open(dataset->train(), dataset->tokenizer(), joint).status()),
             "either unique_tokens or unique_windows");
}

TEST_F(Windows, UniqueTokensCutTheLastDocument) {
  std::vector<Ids> documents = ordered(3);
  for (size_t extra : {1, 2, 3}) { // tokens of the second document
    WindowOptions cut = options(400, WindowMode::Document);
    cut.uniqueTokens = documents[0].size() + extra;
    WindowStream windows = stream(cut);
    EXPECT_EQ(windows.uniqueTokens(), cut.uniqueTokens);
    // A single token has nothing to predict.
    ASSERT_EQ(windows.windows(), extra == 1 ? 1u : 2u);
    EXPECT_EQ(windows.tokensPerEpoch(), documents[0].size() - 1 + (extra - 1));
    for (uint64_t index = 0; index < windows.windows(); ++index) {
      if (windows.window(index) == 0)
        continue;
      auto [tokens, targets] = at(windows, index);
      for (size_t i = 0; i < 400; ++i) {
        ASSERT_EQ(tokens[i], i < extra ? documents[1][i] : delimiter());
        ASSERT_EQ(targets[i], i + 1 < extra ? documents[1][i + 1] : ignoreIndex);
      }
    }
  }
}

TEST_F(Windows, TargetsCoverTheDocumentsBytesAndCharacters) {
  const SplitTotals &totals = dataset->train().totals();
  auto sum = [](const WindowStream &windows) {
    TargetCount all;
    for (uint64_t index = 0; index < windows.windows(); ++index) {
      Ids targets = at(windows, index).second;
      TargetCount part = windows.countTargets(targets.data(), targets.size());
      all.targets += part.targets;
      all.bytes += part.bytes;
      all.characters += part.characters;
    }
    EXPECT_EQ(all.targets, windows.tokensPerEpoch());
    return all;
  };
  auto length = [&](int32_t id) { return dataset->tokenizer().lengths()[static_cast<size_t>(id)]; };
  std::vector<Ids> documents = ordered(3);
  // seq 1 drops no tail: all but the stream's first token is covered.
  TargetCount joinedSum = sum(stream(options(1)));
  EXPECT_EQ(joinedSum.bytes + length(documents[0][0]).bytes, totals.bytes);
  EXPECT_EQ(joinedSum.characters + length(documents[0][0]).characters, totals.characters);
  // Documents that fit: all but the first token of each.
  TargetCount each = sum(stream(options(1000, WindowMode::Document)));
  for (const Ids &ids : documents) {
    each.bytes += length(ids[0]).bytes;
    each.characters += length(ids[0]).characters;
  }
  EXPECT_EQ(each.bytes, totals.bytes);
  EXPECT_EQ(each.characters, totals.characters);
  EXPECT_GT(totals.bytes, totals.characters); // the text has accents
}

TEST_F(Windows, EvaluationKeepsTheStoredOrder) {
  auto fixed =
      WindowStream::openFixed(dataset->validation(), dataset->tokenizer(), WindowMode::Concatenate, 16);
  ASSERT_OK(fixed.status());
  Ids all;
  for (uint64_t i = 0; i < dataset->validation().documents(); ++i) {
    DocumentView view = dataset->validation().document(i);
    for (uint64_t token = 0; token < view.tokens; ++token)
      all.push_back(view[token]);
    all.push_back(delimiter());
  }
  ASSERT_EQ(fixed->windows(), (all.size() - 1) / 16);
  for (uint64_t index = 0; index < fixed->windows(); ++index) {
    EXPECT_EQ(fixed->window(index), index);
    auto begin = all.begin() + static_cast<ptrdiff_t>(16 * index);
    ASSERT_EQ(at(*fixed, index), std::make_pair(Ids(begin, begin + 16), Ids(begin + 1, begin + 17)));
    EXPECT_EQ(at(*fixed, index + fixed->windows()), at(*fixed, index));
  }
  EXPECT_EQ(fixed->contentHash().size(), 64u);
  for (auto [mode, seq] :
       {std::pair<WindowMode, int64_t>{WindowMode::Concatenate, 8}, {WindowMode::Document, 16}})
    EXPECT_NE(WindowStream::openFixed(dataset->validation(), dataset->tokenizer(), mode, seq)->contentHash(),
              fixed->contentHash());
}

TEST_F(Windows, TooLittleDataIsAnErrorWithTheNumbers) {
  uint64_t available = joined(ordered(3)).size();
  WindowOptions tight = options(static_cast<int64_t>(available) - 1);
  EXPECT_EQ(stream(tight).windows(), 1u);
  tight.seq += 1;
  auto refused = WindowStream::open(dataset->train(), dataset->tokenizer(), tight);
  EXPECT_EQ(exitCode(refused.status()), ExitCode::Usage);
  EXPECT_HAS(test::message(refused.status()), concat("seq + 1 = ", available + 1));
  EXPECT_HAS(test::message(refused.status()), concat("found ", available));
  tight.seq = 0;
  EXPECT_EQ(exitCode(WindowStream::open(dataset->train(), dataset->tokenizer(), tight).status()),
            ExitCode::Usage);
  WindowOptions one = options(16, WindowMode::Document);
  one.uniqueTokens = 1;
  EXPECT_EQ(exitCode(WindowStream::open(dataset->train(), dataset->tokenizer(), one).status()),
            ExitCode::Usage);
}

} // namespace
} // namespace sluice
