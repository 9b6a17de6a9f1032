// Random networks of all kinds of nodes: storage, fusion, layouts and templates together.
#include "random_net.h"

#include <gtest/gtest.h>

#include "sweep.h"

namespace kilter {
namespace {

void make_short(SweepNet& net) { draw_nodes(net, net.draw.between(1, 5)); }
void make_long(SweepNet& net) { draw_nodes(net, net.draw.between(6, 14)); }

class RandomNet : public testing::TestWithParam<NetKind> {};

TEST_P(RandomNet, SweepAgreesWithTheReference) { sweep(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Kinds, RandomNet,
                         testing::Values(NetKind{"Short", make_short, 60}, NetKind{"Long", make_long, 40}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace kilter
