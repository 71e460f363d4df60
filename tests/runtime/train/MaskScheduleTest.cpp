// Updates of masks over a run: the published values of the cosine, the times of updates, gradual pruning.
#include "runtime/train/MaskSchedule.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(MaskSchedule, TheStudysCosine) {
  MaskScheduleOptions options;
  options.moves = true;
  const MaskSchedule schedule(options, 10000);
  for (auto [step, fraction] : {std::pair<int64_t, double>(100, 0.099977),
                                {2500, 0.086088},
                                {5000, 0.0525},
                                {7500, 0.018912},
                                {10000, 0.005}}) {
    EXPECT_TRUE(schedule.isDue(step));
    EXPECT_NEAR(static_cast<double>(schedule.amount(step)) * 1e-9, fraction, 5e-7) << step;
  }
  EXPECT_FALSE(schedule.isDue(0));
  EXPECT_FALSE(schedule.isDue(150));
  EXPECT_FALSE(schedule.isDue(10100));
  EXPECT_FALSE(schedule.needsDenseGradients(100));
}

TEST(MaskSchedule, EndsWhereItIsTold) {
  MaskScheduleOptions options;
  options.moves = true;
  options.byGradient = true;
  options.until = 0.75;
  const MaskSchedule schedule(options, 1000);
  EXPECT_TRUE(schedule.needsDenseGradients(700));
  EXPECT_FALSE(schedule.isDue(800));
  EXPECT_FALSE(MaskSchedule(MaskScheduleOptions(), 1000).isDue(100)); // static
}

TEST(MaskSchedule, LinearAndConstantShares) {
  MaskScheduleOptions options;
  options.moves = true, options.start = 0.3, options.end = 0.1, options.until = 0.5;
  options.shape = MaskScheduleOptions::Shape::Linear;
  EXPECT_EQ(MaskSchedule(options, 1000).amount(250), 200000000); // half of the way to step 500
  EXPECT_EQ(MaskSchedule(options, 1000).amount(500), 100000000);
  options.shape = MaskScheduleOptions::Shape::Constant;
  EXPECT_EQ(MaskSchedule(options, 1000).amount(400), 300000000);
}

TEST(MaskSchedule, GradualPruningIsCubic) {
  MaskScheduleOptions options;
  options.moves = true;
  const MaskSchedule schedule(options, 1000);
  EXPECT_EQ(schedule.removed(500), 875000000);
  EXPECT_EQ(schedule.removed(1000), 1000000000);
}

} // namespace
} // namespace sluice
