# The COST of tests that are long, or that exclude many others, so that ctest starts them early. (In a clean checkout,
# ctest -j does not know how long tests take.)
set(KILTER_COST_FIRST 1000)
# The properties of tests that measure, or that keep both CPUs busy: one at a time, first, and beside at most one other.
# (./test runs three tests at a time on two CPUs, since many of them wait.)
set(KILTER_MEASURES RESOURCE_LOCK measured_cpus PROCESSORS 2 COST ${KILTER_COST_FIRST})
