# One library a folder: kilter_library(NAME FOLDER links...). Sources are all *.cpp of the folder (not of its subfolders).
add_library(kilter_options INTERFACE)
target_compile_options(kilter_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
target_include_directories(kilter_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)

set(KILTER_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")
if(KILTER_SANITIZE)
  add_compile_options(-fsanitize=${KILTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KILTER_SANITIZE})
endif()

find_program(KILTER_CCACHE ccache)
if(KILTER_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KILTER_CCACHE})
endif()

function(kilter_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC ${ARGN} PRIVATE kilter_options)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
endfunction()
