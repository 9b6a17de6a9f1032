/* The version of Kilter that these headers belong to, for C and C++. The build checks that it is the version of the
 * project. The version of the library that is loaded: kilter_runtime_version() in runtime.h. */
#ifndef KILTER_VERSION_H_
#define KILTER_VERSION_H_

#define KILTER_VERSION_MAJOR 0
#define KILTER_VERSION_MINOR 1
#define KILTER_VERSION_PATCH 0
#define KILTER_VERSION_STRING "0.1.0"

#endif /* KILTER_VERSION_H_ */
