kilter_fuzz(targets SOURCES fuzz_targets.cpp ${CMAKE_CURRENT_SOURCE_DIR}/../exec/test_plans.cpp LINK kilter_vm)
target_include_directories(fuzz_targets PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/../exec)
