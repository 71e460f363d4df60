// The rows of 2506.12119's tables from N, the activation rate and the number of chosen experts.
#include "frontends/twin/ExpertsFor.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

struct Row {
  double rate; // percent, the router counted
  int experts, topK, expertFfn;
  double tokens; // at the table's C
};

ExpertsRequest requestOf(const std::string &text) {
  StatusOr<ExpertsRequest> request = parseExpertsRequest(text);
  EXPECT_TRUE(request.ok()) << text << ": " << request.status();
  return request.value_or(ExpertsRequest{});
}

/// `compute` 0: the row's tokens are not compared.
void expectRow(const std::string &shape, const Row &row, double compute) {
  ExpertsRequest request = requestOf(concat(shape, ",active-rate=", row.rate, "%,top-k=", row.topK));
  std::vector<ExpertsCandidate> found = solveExperts(request, 5);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(static_cast<int>(found[0].shape.experts), row.experts) << row.rate;
  EXPECT_EQ(static_cast<int>(found[0].shape.expertFfn), row.expertFfn) << row.rate;
  EXPECT_EQ(static_cast<int>(found[0].shape.sharedFfn), row.topK * row.expertFfn) << row.rate;
  // The printed tokens spend C to within the rounding of both.
  if (compute > 0)
    EXPECT_NEAR(static_cast<double>(found[0].trainingPerToken) * row.tokens / compute, 1, 0.012) << row.rate;
}

TEST(ExpertsFor, TwoBillionRowsOfTable10) {
  // Experts a multiple of 32 wide; N is 2.15e9 in the table and 2150.6M exactly. Tokens are not compared
  // here: away from the optimum row (below) the table's D lies up to 2.4 % above what its own sizes spend.
  for (const Row &row :
       {Row{8.74, 89, 1, 352, 5.41e11}, Row{10.82, 88, 2, 352, 4.68e11}, Row{15.04, 86, 4, 352, 3.75e11},
        Row{17.11, 85, 5, 352, 3.39e11}, Row{18.06, 93, 6, 320, 3.25e11}, Row{19.12, 84, 6, 352, 3.09e11},
        Row{19.94, 92, 7, 320, 2.99e11}, Row{34.96, 84, 15, 320, 1.80e11}, Row{50.80, 84, 26, 288, 1.29e11}})
    expectRow("N=2.1506B,width=1408,layers=16,ffn=3904,tolerance=1%", row, 0);
}

TEST(ExpertsFor, SevenBillionRowsOfTable12) {
  for (const Row &row :
       {Row{8.97, 83, 1, 512, 6.05e11}, Row{11.19, 82, 2, 512, 5.11e11}, Row{13.41, 81, 3, 512, 4.43e11},
        Row{15.63, 80, 4, 512, 3.90e11}, Row{20.07, 78, 6, 512, 3.16e11}, Row{26.18, 86, 10, 448, 2.50e11},
        Row{30.07, 84, 12, 448, 2.21e11}, Row{53.38, 84, 28, 384, 1.30e11}})
    expectRow("N=6.5138B,width=2048,layers=24,ffn=5464,tolerance=1%", row, 2.86e21);
}

TEST(ExpertsFor, EightWideExpertsOfTable10AreAmongTheCandidates) {
  for (const Row &row :
       {Row{27.46, 8, 1, 3528, 2.23e11}, Row{44.11, 8, 2, 3176, 1.47e11}, Row{57.73, 8, 3, 2888, 1.14e11}}) {
    ExpertsRequest request =
        requestOf(concat("N=2.15B,width=1408,layers=16,ffn=3904,multiple-of=8,experts=8,",
                         "active-rate=", row.rate, "%,top-k=", row.topK));
    bool found = false;
    for (const ExpertsCandidate &candidate : solveExperts(request, 100))
      found |= static_cast<int>(candidate.shape.expertFfn) == row.expertFfn;
    EXPECT_TRUE(found) << row.expertFfn;
  }
}

TEST(ExpertsFor, TheStudysShapeTokensAndEpochs) {
  // Width 88 a layer, mu near 22: the 2B models' own 1408 and 16.
  ExpertsRequest request = requestOf("N=2.1506B,active-rate=19.94%,top-k=7,C=9.36e20,unique=65B");
  std::vector<ExpertsCandidate> found = solveExperts(request, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(static_cast<int>(found[0].shape.width), 1408);
  EXPECT_EQ(static_cast<int>(found[0].shape.layers), 16);
  EXPECT_EQ(static_cast<int>(found[0].shape.heads), 11);
  EXPECT_EQ(static_cast<int>(found[0].shape.experts), 92);
  EXPECT_NEAR(found[0].mu, 22.5, 0.06) << "22.50 to 22.56 for the 2B rows";
  EXPECT_NEAR(found[0].beta, 3.18, 0.005);
  EXPECT_NEAR(static_cast<double>(found[0].tokens), 2.99e11, 0.005e11);
  EXPECT_NEAR(found[0].epochs, static_cast<double>(found[0].tokens) / 65e9, 1e-9);
  // Granularity: how many experts are as wide as a dense MLP.
  ExpertsRequest fine =
      requestOf("N=6.5138B,active-rate=20.07%,granularity=10.67,width=2048,layers=24,ffn=5464");
  found = solveExperts(fine, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(static_cast<int>(found[0].shape.expertFfn), 512);
  EXPECT_EQ(static_cast<int>(found[0].shape.topK), 6);
  EXPECT_EQ(static_cast<int>(found[0].shape.experts), 78);
  // 3.16e11 tokens over 68B unique ones.
  fine.compute = Count(286) * 10'000'000'000'000'000'000ull, fine.unique = 68'000'000'000;
  EXPECT_NEAR(solveExperts(fine, 1)[0].epochs, 3.16e11 / 68e9, 0.005e11 / 68e9); // D to its printed digits
}

TEST(ExpertsFor, WithoutTheRouterTheRateIsTables9And11) {
  ExpertsRequest request =
      requestOf("N=6.5138B,active-rate=20.03%,router-counted=no,top-k=6,width=2048,layers=24,ffn=5464");
  std::vector<ExpertsCandidate> found = solveExperts(request, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(static_cast<int>(found[0].shape.experts), 78);
  EXPECT_NEAR(100 * found[0].activeRate, 20.03, 0.005);
}

TEST(ExpertsFor, WrongRequestsAreNamed) {
  for (auto [text, part] : {std::pair{"N=2B", "active-rate"}, std::pair{"N=2B,active-rate=20%", "how fine"},
                            std::pair{"N=2B,active-rate=20%,topk=7", "did you mean 'top-k'"},
                            std::pair{"N=x,active-rate=20%,top-k=7", "found 'x'"},
                            std::pair{"N=2B,active-rate=120%,top-k=7", "found '120%'"},
                            std::pair{"N=2B,active-rate=20%,top-k=0", "at least 1"},
                            std::pair{"N=2B,active-rate=20%,top-k=2,width=100", "multiple of head-dim"},
                            std::pair{"N=2B,active-rate=20%,top-k=2,layers=1", "dense-layers"},
                            std::pair{"N=2B,active-rate=20%,top-k=2,unique=1B", "expected C="},
                            std::pair{"N=2B,active-rate=20%,top-k=2,shared=maybe", "yes or no"},
                            std::pair{"N=2B,active-rate=20%,top-k", "top-k=VALUE"}}) {
    Status status = parseExpertsRequest(text).status();
    EXPECT_EQ(exitCode(status), ExitCode::Usage) << text;
    EXPECT_NE(std::string(status.message()).find(part), std::string::npos) << status;
  }
}

} // namespace
} // namespace sluice
