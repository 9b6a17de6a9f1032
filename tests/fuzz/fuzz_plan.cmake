kilter_fuzz(plan SOURCES fuzz_plan.cpp ${CMAKE_CURRENT_SOURCE_DIR}/../exec/test_plans.cpp LINK kilter_exec)
target_include_directories(fuzz_plan PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../exec)
