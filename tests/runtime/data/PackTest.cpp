// Packing: what comes out is what went in, split by content, published in one step.
#include "runtime/data/Pack.h"
#include "runtime/support/File.h"
#include "tests/runtime/data/TestData.h"

#include <algorithm>
#include <map>

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts(const Split &split, const Tokenizer &tokenizer) {
  std::vector<std::string> result;
  for (uint64_t i = 0; i < split.documents(); ++i) {
    DocumentView document = split.document(i);
    std::vector<int32_t> ids(document.tokens);
    document.copy(0, ids.size(), ids.data());
    result.push_back(tokenizer.decode(ids).value());
    EXPECT_EQ(result.back().size(), document.bytes);
  }
  return result;
}

std::vector<std::string> paragraphs(const std::string &text) {
  std::vector<std::string> result;
  for (size_t at = 0; at < text.size();) { // seededText ends each with ".\n\n"
    size_t end = text.find("\n\n", at);
    result.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return result;
}

/// Every file of a folder by name.
std::map<std::string, std::string> contents(const std::string &folder) {
  std::map<std::string, std::string> files;
  for (const auto &entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = readFile(entry.path().string()).value();
  return files;
}

TEST(Pack, EveryDocumentIsInItsSplitInOrder) {
  test::TemporaryFolder folder;
  std::string text = test::seededText(1, 100);
  auto summary = packDataset(test::packOptions(folder, text));
  ASSERT_OK(summary.status());
  auto dataset = Dataset::open(folder / "data");
  ASSERT_OK(dataset.status());
  std::vector<std::string> train, validation;
  for (const std::string &paragraph : paragraphs(text))
    (isValidationDocument(paragraph, 0.2) ? validation : train).push_back(paragraph);
  EXPECT_EQ(texts(dataset->train(), dataset->tokenizer()), train);
  EXPECT_EQ(texts(dataset->validation(), dataset->tokenizer()), validation);
  EXPECT_EQ(summary->train.documents, train.size());
  EXPECT_EQ(summary->validation.documents, validation.size());
  uint64_t bytes = 0;
  for (const std::string &document : train)
    bytes += document.size();
  EXPECT_EQ(summary->train.bytes, bytes);
  EXPECT_EQ(dataset->train().totals().bytes, bytes);
  EXPECT_EQ(dataset->hash(), summary->datasetHash);
  EXPECT_EQ(dataset->tokenizer().vocabulary(), 320);
  EXPECT_EQ(dataset->description().documents, "paragraph");
}

TEST(Pack, SmallShardsThreadsAndRepeatsGiveTheSameDocuments) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 100));
  ASSERT_OK(packDataset(options).status());
  auto first = contents(options.output);
  options.output = folder / "again";
  options.threads = 3;
  ASSERT_OK(packDataset(options).status());
  EXPECT_EQ(contents(options.output), first);
  options.output = folder / "small";
  options.shardTokens = 200;
  ASSERT_OK(packDataset(options).status());
  auto whole = Dataset::open(folder / "data"), parted = Dataset::open(folder / "small");
  ASSERT_OK(parted.status());
  EXPECT_GT(contents(options.output).size(), first.size() + 5);
  EXPECT_EQ(texts(parted->train(), parted->tokenizer()), texts(whole->train(), whole->tokenizer()));
}

TEST(Pack, TheSplitDependsOnTheTextAlone) {
  std::string text = test::seededText(2, 400);
  int validation = 0;
  for (const std::string &paragraph : paragraphs(text)) {
    bool inValidation = isValidationDocument(paragraph, 0.05);
    validation += inValidation;
    if (inValidation) { // a larger fraction keeps what was held out
      EXPECT_TRUE(isValidationDocument(paragraph, 0.1));
    }
  }
  // 400 documents at 5 %: mean 20, standard deviation 4.4; five deviations either way.
  EXPECT_GT(validation, 0);
  EXPECT_LT(validation, 42);
  EXPECT_FALSE(isValidationDocument("x", 0.0));
  // Frozen by the definition, xxHash3 with seed 0 below fraction * 2^64: XXH3_64bits("") =
  // 0x2D06800538D394C2.
  EXPECT_FALSE(isValidationDocument("", 0.17587));
  EXPECT_TRUE(isValidationDocument("", 0.17589));
}

TEST(Pack, EqualDocumentsFallOnTheSameSide) {
  test::TemporaryFolder folder;
  std::string text = test::seededText(1, 60);
  ASSERT_OK(packDataset(test::packOptions(folder, text + text)).status());
  auto dataset = Dataset::open(folder / "data");
  ASSERT_OK(dataset.status());
  auto train = texts(dataset->train(), dataset->tokenizer());
  for (const std::string &document : texts(dataset->validation(), dataset->tokenizer()))
    EXPECT_EQ(std::count(train.begin(), train.end(), document), 0);
}

TEST(Pack, TheTokenizerSeesTrainingDocumentsOnly) {
  test::TemporaryFolder folder;
  std::string text = test::seededText(1, 60);
  PackOptions options = test::packOptions(folder, text);
  ASSERT_OK(packDataset(options).status());
  std::string train;
  for (const std::string &paragraph : paragraphs(text))
    if (!isValidationDocument(paragraph, 0.2))
      train += paragraph + "\n\n";
  auto tokenizer = Tokenizer::train(
      [&](const Tokenizer::TextVisitor &visit) {
        for (const std::string &paragraph : paragraphs(train))
          visit(paragraph);
      },
      320);
  EXPECT_EQ(tokenizer->hash(), Dataset::open(options.output)->tokenizer().hash());
}

TEST(Pack, TakesAnExistingTokenizer) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 60));
  auto first = packDataset(options);
  ASSERT_OK(first.status());
  options.inputs = {folder.write("other.txt", test::seededText(2, 60))};
  options.tokenizerFile = folder / "data/tokenizer.model";
  options.output = folder / "other";
  auto second = packDataset(options);
  ASSERT_OK(second.status());
  EXPECT_EQ(second->tokenizerHash, first->tokenizerHash);
  EXPECT_NE(second->datasetHash, first->datasetHash);
}

TEST(Pack, AnEmptySplitIsAnErrorWithTheNumber) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 40));
  options.documents = *DocumentRule::parse("file");
  auto one = packDataset(options);
  EXPECT_EQ(exitCode(one.status()), ExitCode::Usage);
  EXPECT_HAS(test::message(one.status()), "split is empty: all 1 documents");
  EXPECT_HAS(test::message(one.status()), "--documents paragraph or line");
  options.inputs = {folder.write("blank.txt", " \n\n")};
  EXPECT_HAS(test::message(packDataset(options).status()), "found none");
  EXPECT_FALSE(fs::exists(options.output));
}

TEST(Pack, AnExistingOutputIsKeptUnlessReplaced) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 60));
  auto first = packDataset(options);
  ASSERT_OK(first.status());
  auto before = contents(options.output);
  options.inputs = {folder.write("other.txt", test::seededText(2, 60))};
  EXPECT_EQ(exitCode(packDataset(options).status()), ExitCode::Usage);
  EXPECT_EQ(contents(options.output), before);
  options.replace = true;
  auto second = packDataset(options);
  ASSERT_OK(second.status());
  EXPECT_EQ(Dataset::open(options.output)->hash(), second->datasetHash);
  for (const auto &entry : fs::directory_iterator(folder.path))
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos);
  // A folder that holds something else is never replaced.
  fs::create_directory(folder / "mine");
  folder.write("mine/letter.txt", "dear");
  options.output = folder / "mine";
  EXPECT_EQ(exitCode(packDataset(options).status()), ExitCode::Usage);
  EXPECT_TRUE(fs::exists(folder / "mine/letter.txt"));
}

TEST(Pack, AFailedPackLeavesNothing) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 60), 100000);
  EXPECT_EQ(exitCode(packDataset(options).status()), ExitCode::Usage);
  EXPECT_EQ(contents(folder.path).size(), 1u); // the input
  options.validationFraction = 1.5;
  EXPECT_EQ(exitCode(packDataset(options).status()), ExitCode::Usage);
}

TEST(Dataset, DamageIsFound) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 60));
  ASSERT_OK(packDataset(options).status());
  auto opened = [&] { return Dataset::open(options.output).status(); };
  for (const auto &[name, bytes] : contents(options.output)) {
    // Cuts and inverted bytes at a stride that reaches every part: exit code 3, never a crash.
    for (size_t at = 0; at < bytes.size(); at += std::max<size_t>(1, bytes.size() / 61)) {
      folder.write("data/" + name, std::string_view(bytes).substr(0, at));
      ASSERT_EQ(exitCode(opened()), ExitCode::BadInput) << name << " cut at " << at;
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(~damaged[at]); // no byte of a valid UTF-8 text stays valid
      folder.write("data/" + name, damaged);
      ASSERT_EQ(exitCode(opened()), ExitCode::BadInput) << name << " inverted at " << at;
    }
    fs::remove(options.output + "/" + name);
    EXPECT_FALSE(opened().ok()) << name << " missing";
    folder.write("data/" + name, bytes);
  }
  ASSERT_OK(opened());
}

TEST(Dataset, PartsOfAnotherDatasetAreFound) {
  test::TemporaryFolder folder;
  PackOptions options = test::packOptions(folder, test::seededText(1, 60));
  ASSERT_OK(packDataset(options).status());
  PackOptions other = test::packOptions(folder, test::seededText(2, 60));
  other.output = folder / "other";
  ASSERT_OK(packDataset(other).status());
  auto mine = contents(options.output), foreign = contents(other.output);
  for (const auto &[name, bytes] : foreign) {
    folder.write("data/" + name, bytes);
    Status status = Dataset::open(options.output).status();
    EXPECT_EQ(exitCode(status), ExitCode::BadInput) << name;
    EXPECT_EQ(test::message(status).find('\n'), std::string::npos);
    folder.write("data/" + name, mine[name]);
  }
  EXPECT_EQ(Dataset::open(folder / "nowhere").status().code(), absl::StatusCode::kNotFound);
}

TEST(Dataset, LengthsMustMatchTheTokens) {
  test::TemporaryFolder folder;
  ASSERT_OK(packDataset(test::packOptions(folder, test::seededText(1, 60))).status());
  auto dataset = Dataset::open(folder / "data");
  const Tokenizer &tokenizer = dataset->tokenizer();
  ShardWriter writer(static_cast<uint64_t>(tokenizer.vocabulary()), tokenizer.delimiter(), tokenizer.hash());
  auto ids = tokenizer.encode("the old mill").value();
  writer.add(ids.data(), ids.size(), 11, 11); // it has 12
  auto hash = writer.write(folder / "data/train-00000.shard");
  SplitTotals totals{1, ids.size(), 11, 11};
  folder.write("data/dataset.json", Dataset::describe({}, tokenizer, totals, {{"train-00000.shard", *hash}},
                                                      totals, {{"train-00000.shard", *hash}}));
  Status status = Dataset::open(folder / "data").status();
  EXPECT_EQ(exitCode(status), ExitCode::BadInput);
  EXPECT_HAS(test::message(status), "cover 12 bytes");
}

} // namespace
} // namespace sluice
