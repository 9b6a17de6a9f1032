// Attributes of reference steps as runtime kernels read them.
#include "exec/kernels/call_attributes.h"

#include <gtest/gtest.h>

#include <limits>

namespace kilter {
namespace {

TEST(CallAttributes, AreReadByName) {
  const auto attrs =
      read_attributes(R"({"axis":["int",-2],"half":["float",0.5],"inf":["float","7f800000"],"mode":["string","avg"],)"
                      R"("perm": ["ints", [2, 0,1]],"none":["ints",[]],"scales":["floats",[1.5,"ff800000"]]})");
  ASSERT_TRUE(attrs);
  EXPECT_EQ(attrs->size(), 7U);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(std::get<int64_t>(attrs->at("axis")), -2);
  EXPECT_EQ(std::get<float>(attrs->at("half")), 0.5F);
  EXPECT_EQ(std::get<float>(attrs->at("inf")), kInfinity);
  EXPECT_EQ(std::get<std::string>(attrs->at("mode")), "avg");
  EXPECT_EQ(std::get<std::vector<int64_t>>(attrs->at("perm")), (std::vector<int64_t>{2, 0, 1}));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(attrs->at("none")).empty());
  EXPECT_EQ(std::get<std::vector<float>>(attrs->at("scales")), (std::vector<float>{1.5F, -kInfinity}));
  EXPECT_TRUE(read_attributes("{}")->empty());
}

TEST(CallAttributes, MalformedTextsAreRejected) {
  for (const char* text :
       {"", "{", "[]", "null", R"({"a":1})", R"({"a":["int"]})", R"({"a":["int",1)", R"({"a":["int",1]}x)",
        R"({"a":["int",1]"b":["int",1]})", R"({"a":["int",99999999999999999999]})", R"({"a":["float","7f8000000"]})",
        R"({"a":["string","\n"]})", R"({"a":["string",[195,40]]})", R"({"a":["tensor",{}]})", R"({"a":["ints",[1 2]]})",
        R"({"a":["ints",[1,)"})
    EXPECT_FALSE(read_attributes(text)) << text;
}

TEST(KernelCall, AttributeOfWrongTypeIsAnError) {
  const KernelAttrs attrs{{"axis", 1.0F}};
  const KernelCall call{"TopK", "best", 11, attrs};
  EXPECT_THROW(call.int_attr("axis", 0), std::exception);
  EXPECT_EQ(call.int_attr("k", 3), 3);
}

}  // namespace
}  // namespace kilter
