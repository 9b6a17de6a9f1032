/* Weights in a file of their own. */
#include "model.h"

#ifdef WITH_FILE_WEIGHTS

static uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static uint64_t hash_combine(uint64_t seed, uint64_t value) {
  return mix_bits(seed ^ (value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2)));
}

/* hash_bytes() of Kilter: four lanes of multiply and rotate over 8-byte words. It detects damage, not malice. */
static uint64_t hash_bytes(const unsigned char *bytes, size_t count) {
  const uint64_t seed = 0xcbf29ce484222325u;
  uint64_t lanes[4] = {seed, mix_bits(seed + 1), mix_bits(seed + 2), mix_bits(seed + 3)};
  uint64_t hash = hash_combine(seed, count);
  for (size_t at = 0; at < count; at += 8) {
    const size_t left = count - at < 8 ? count - at : 8;
    uint64_t word = 0, *lane = &lanes[left < 8 ? 3 : at / 8 % 4];
    memcpy(&word, bytes + at, left); /* little-endian, as the supported processors are */
    word = (*lane ^ word) * 0x9e3779b97f4a7c15u;
    *lane = word << 29 | word >> 35;
  }
  for (int i = 0; i < 4; ++i) hash = hash_combine(hash, lanes[i]);
  return hash;
}

static int map_weights(struct instance *net, const char *path) {
  const struct model *m = net->model;
  if (m->weight_bytes == 0) {
    place_buffers(net);
    return 0;
  }
  const int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (path == NULL) return fail("the path of the weights is a null pointer");
  if (fd < 0) return fail("%s: %s", path, strerror(errno));
  struct stat about;
  const int known = fstat(fd, &about) == 0;
  void *memory = MAP_FAILED;
  if (known && about.st_size == m->weight_bytes)
    memory = mmap(NULL, (size_t)m->weight_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (known && about.st_size != m->weight_bytes)
    return fail("%s is %lld bytes; the weights of '%s' are %" PRId64, path, (long long)about.st_size, m->name,
                m->weight_bytes);
  if (memory == MAP_FAILED) return fail("%s: %s", path, strerror(errno));
  net->weights = memory;
  net->mapped_bytes = (size_t)m->weight_bytes;
  if (hash_bytes(net->weights, net->mapped_bytes) != m->weight_hash)
    return fail("%s: this file does not contain the weights of '%s'; copy the file again or compile the network again",
                path, m->name);
  place_buffers(net);
  return 0;
}

static struct instance *instance_create_from(const struct model *m, const unsigned char *code, const char *path,
                                             int threads) {
  struct instance *net = instance_create(m, code, NULL, threads);
  if (net == NULL || map_weights(net, path) == 0) return net;
  instance_free(net);
  return NULL;
}
#endif
