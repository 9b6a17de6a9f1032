# libkilter: the C++ interface and the C interface with the compiler, in one shared library that exports only what
# kilter.h, compiler.h and runtime.h declare. The C interface of libkilter_runtime is compiled again here, so that a
# program links one library.
file(GLOB kilter_cxx_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/exec/c_abi/*.cpp
     ${CMAKE_CURRENT_SOURCE_DIR}/api/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/api/c_abi/*.cpp)
list(FILTER kilter_cxx_sources EXCLUDE REGEX "/fmt\\.cpp$")
set(kilter_cxx_exports ${CMAKE_CURRENT_SOURCE_DIR}/api/exports.map)
add_library(kilter_cxx SHARED ${kilter_cxx_sources})
add_library(kilter::kilter ALIAS kilter_cxx)
target_link_libraries(kilter_cxx PRIVATE kilter_tuner kilter_options)
target_include_directories(kilter_cxx INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
target_compile_features(kilter_cxx INTERFACE cxx_std_20)
target_link_options(kilter_cxx PRIVATE -Wl,--as-needed -Wl,--gc-sections -Wl,--version-script=${kilter_cxx_exports})
set_target_properties(kilter_cxx PROPERTIES
  OUTPUT_NAME kilter EXPORT_NAME kilter LINK_DEPENDS ${kilter_cxx_exports} VERSION ${PROJECT_VERSION} SOVERSION ${KILTER_SOVERSION})
kilter_precompile(kilter_cxx REUSE kilter_base)
