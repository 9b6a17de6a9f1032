# The project's version (CMakeLists.txt) must be the one of the public header, which programs read without CMake.
#
# KILTER_SOVERSION names the binary interface of the shared libraries, and KILTER_COMPATIBILITY is the rule by which
# find_package(kilter VERSION) accepts this version. Before 1.0, each minor version may change the interface; from 1.0
# on, only each major version.
set(header ${CMAKE_CURRENT_SOURCE_DIR}/include/kilter/version.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
foreach(part MAJOR MINOR PATCH STRING)
  set(expected ${PROJECT_VERSION_${part}})
  if(part STREQUAL "STRING")
    set(expected "\"${PROJECT_VERSION}\"")
  endif()
  file(STRINGS ${header} line REGEX "^#define KILTER_VERSION_${part} ")
  if(NOT line STREQUAL "#define KILTER_VERSION_${part} ${expected}")
    message(FATAL_ERROR "include/kilter/version.h: expected '#define KILTER_VERSION_${part} ${expected}' for version "
                        "${PROJECT_VERSION} of CMakeLists.txt, found '${line}'; change both files together")
  endif()
endforeach()
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(KILTER_SOVERSION 0.${PROJECT_VERSION_MINOR})
  set(KILTER_COMPATIBILITY SameMinorVersion)
else()
  set(KILTER_SOVERSION ${PROJECT_VERSION_MAJOR})
  set(KILTER_COMPATIBILITY SameMajorVersion)
endif()
