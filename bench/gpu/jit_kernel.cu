// An fp16 product with a 64x64 tile (cp.async in two stages, ldmatrix, mma.sync): text of typical size for the driver's
// assembler.
#include <cuda_fp16.h>

constexpr int TILE = 64, DEPTH = 32, PITCH = DEPTH + 8;

__device__ void copy_tile(half (*tile)[PITCH], const half* from, int stride) {
    for (int i = threadIdx.x; i < TILE * DEPTH / 8; i += 128) {
        int row = i / (DEPTH / 8), column = i % (DEPTH / 8) * 8;
        unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[row][column]));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from + row * stride + column));
    }
}

__device__ void load_matrices(unsigned* into, const half* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3]) : "r"(at));
}

// C[m][n] = A[m][k] B[n][k], for sizes divisible by the tiles.
extern "C" __global__ void product_64x64(const half* a, const half* b, half* c, int n, int k) {
    __shared__ half tiles_a[2][TILE][PITCH], tiles_b[2][TILE][PITCH];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    a += blockIdx.y * TILE * k;
    b += blockIdx.x * TILE * k;
    float sums[8][4] = {};
    copy_tile(tiles_a[0], a, k);
    copy_tile(tiles_b[0], b, k);
    asm volatile("cp.async.commit_group;");
    for (int at = 0, stage = 0; at < k; at += DEPTH, stage ^= 1) {
        if (at + DEPTH < k) {
            copy_tile(tiles_a[stage ^ 1], a + at + DEPTH, k);
            copy_tile(tiles_b[stage ^ 1], b + at + DEPTH, k);
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
#pragma unroll
        for (int depth = 0; depth < DEPTH; depth += 16) {
            unsigned left[4], right[4];
            load_matrices(left, &tiles_a[stage][warp * 16 + lane % 16][depth + lane / 16 * 8]);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                load_matrices(right, &tiles_b[stage][j * 16 + lane % 16][depth + lane / 16 * 8]);
#pragma unroll
                for (int half_tile = 0; half_tile < 2; ++half_tile) {
                    float* sum = sums[j * 2 + half_tile];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[half_tile]), "r"(right[half_tile + 2]));
                }
            }
        }
        __syncthreads();
    }
    half* out = c + (blockIdx.y * TILE + warp * 16 + lane / 4) * n + blockIdx.x * TILE + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        *reinterpret_cast<half2*>(out + j * 8) = __floats2half2_rn(fmaxf(sums[j][0], 0), fmaxf(sums[j][1], 0));
        *reinterpret_cast<half2*>(out + 8 * n + j * 8) = __floats2half2_rn(fmaxf(sums[j][2], 0), fmaxf(sums[j][3], 0));
    }
}
