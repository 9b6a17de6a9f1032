/* Which code this processor can run, and how many CPUs there are. */
#include "model.h"

#if defined(__x86_64__)
#include <cpuid.h>

#define STATE_TILES 0x60000u

/* The register state that the system saves (XCR0); 0 if it does not use XSAVE. */
static uint64_t saved_state(void) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || (c & (1u << 27)) == 0) return 0;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (uint64_t)d << 32 | a;
}

/* Whether Linux lets this process use tile registers. A process that uses them unasked is killed. */
static int tiles_permitted(void) { return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18L) == 0; }

static int has_feature(const struct feature *f) {
  uint32_t r[4] = {0, 0, 0, 0};
  if (!__get_cpuid_count(f->leaf, f->subleaf, &r[0], &r[1], &r[2], &r[3]) || (r[f->reg] >> f->bit & 1) == 0) return 0;
  if ((saved_state() & f->state) != f->state) return 0;
  return f->state != STATE_TILES || tiles_permitted();
}

#elif defined(__aarch64__)
#include <sys/auxv.h>
#include <sys/prctl.h>

static int has_feature(const struct feature *f) {
  const int vector = prctl(PR_SVE_GET_VL);
  const int32_t bytes = vector < 0 ? 0 : vector & PR_SVE_VL_LEN_MASK;
  return (getauxval(AT_HWCAP) & f->hwcap) == f->hwcap && (getauxval(AT_HWCAP2) & f->hwcap2) == f->hwcap2 &&
         (f->sve_bytes == 0 || f->sve_bytes == bytes);
}

#else
#error "the kernels are for x86-64 or AArch64 Linux"
#endif

/* Fails with the names of all features that the processor lacks. */
static int check_processor(const struct model *m) {
  char lacks[256] = "";
  size_t length = 0;
  for (int32_t i = 0; i < m->feature_count; ++i) {
    if (has_feature(&m->features[i])) continue;
    const int more = snprintf(lacks + length, sizeof lacks - length, "%s%s", length > 0 ? ", " : "", m->features[i].name);
    if (more > 0 && (size_t)more < sizeof lacks - length) length += (size_t)more;
  }
  if (length == 0) return 0;
  return fail("'%s' was compiled for target %s and needs CPU features that this machine lacks: %s; compile it for this "
              "machine", m->name, m->target, lacks);
}

/* Lowers `most` to the quota in a cgroup's cpu.max, "QUOTA PERIOD" or "max PERIOD" in microseconds. */
static void apply_quota(const char *folder, int *most) {
  char path[512];
  long long quota = 0, period = 0;
  if (snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder) >= (int)sizeof path) return;
  FILE *file = fopen(path, "re");
  if (file == NULL) return;
  if (fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
    const long long cpus = (quota + period - 1) / period;
    if (cpus < *most) *most = (int)cpus;
  }
  fclose(file);
}

/* The CPUs that this process may use: those of its affinity mask, or fewer by the quotas of its cgroups (version 2). */
static int usable_cpus(void) {
  cpu_set_t set;
  int most = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  char line[384];
  FILE *file = fopen("/proc/self/cgroup", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "0::/", 4) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    char *folder = line + 3;
    for (char *end = folder + strlen(folder); end != NULL; end = strrchr(folder, '/')) {
      *end = '\0';
      apply_quota(folder, &most);
    }
  }
  if (file != NULL) fclose(file);
  return most < 1 ? 1 : most;
}

/* The floating-point environment of the kernels: round to nearest, subnormals kept, no traps. */
#if defined(__x86_64__)
struct float_environment {
  uint32_t mxcsr;
};
static struct float_environment set_float_environment(void) {
  const struct float_environment saved = {__builtin_ia32_stmxcsr()};
  __builtin_ia32_ldmxcsr(0x1f80);
  return saved;
}
static void restore_float_environment(struct float_environment saved) { __builtin_ia32_ldmxcsr(saved.mxcsr); }
#else
struct float_environment {
  uint64_t fpcr;
};
static struct float_environment set_float_environment(void) {
  struct float_environment saved;
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved.fpcr));
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
  return saved;
}
static void restore_float_environment(struct float_environment saved) {
  __asm__ volatile("msr fpcr, %0" : : "r"(saved.fpcr) : "memory");
}
#endif
