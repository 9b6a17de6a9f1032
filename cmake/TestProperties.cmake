# The COST of tests that are long, or that exclude many others, so that ctest starts them early. (In a clean checkout,
# ctest -j does not know how long tests take.)
set(KILTER_COST_FIRST 1000)
# The properties of tests that measure, or that keep both CPUs busy: one at a time, and first, so that others run beside
# them. (A third test at a time would disturb them, and with PROCESSORS 2 they would wait until all others have ended.)
set(KILTER_MEASURES RESOURCE_LOCK measured_cpus COST ${KILTER_COST_FIRST})
