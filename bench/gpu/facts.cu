// Prints facts about launches, clocks and memory of a CUDA machine, one JSON object per line: {"key": value}.
// usage: facts [FILE.ptx ...]; each PTX file is assembled by the driver, and the time for that is reported.
#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

#define CHECK(call)                                                                          \
    do {                                                                                     \
        cudaError_t code_ = (call);                                                          \
        if (code_ != cudaSuccess) {                                                          \
            throw std::runtime_error(std::string(#call ": ") + cudaGetErrorString(code_));    \
        }                                                                                    \
    } while (false)

double now_us() {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(const char* key, double value) {
    std::printf("{\"%s\": %.6g}\n", key, value);
    std::fflush(stdout);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

__global__ void empty() {}

// An empty kernel that lets its successor start early and waits for its own predecessor.
__global__ void empty_early() {
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
}

// A small layer: every thread reads and writes one value that the previous kernel wrote.
__global__ void step(const float* from, float* to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i] * 0.5f + 1.0f;
}

__global__ void step_early(const float* from, float* to) {
    cudaTriggerProgrammaticLaunchCompletion();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cudaGridDependencySynchronize();
    to[i] = from[i] * 0.5f + 1.0f;
}

__global__ void barriers(int count) {
    auto grid = cooperative_groups::this_grid();
    for (int i = 0; i < count; ++i) {
        grid.sync();
    }
}

__global__ void read_all(const float4* data, size_t count, float* sink) {
    float sum = 0;
    size_t stride = size_t(gridDim.x) * blockDim.x;
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        float4 a = __ldcg(data + i), b = __ldcg(data + i + stride), c = __ldcg(data + i + 2 * stride), d = __ldcg(data + i + 3 * stride);
        sum += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w + c.x + c.y + c.z + c.w + d.x + d.y + d.z + d.w;
    }
    if (sum == 12345.678f) {
        *sink = sum;
    }
}

__global__ void fma_peak(float* sink, int rounds) {
    float sums[16];
    float a = threadIdx.x * 1e-9f + 0.999f;
    for (int i = 0; i < 16; ++i) {
        sums[i] = i + threadIdx.x;
    }
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            sums[i] = fmaf(sums[i], a, 1.0f);
        }
    }
    float total = 0;
    for (float sum : sums) {
        total += sum;
    }
    if (total == 12345.678f) {
        *sink = total;
    }
}

// Uses registers only: 8 independent accumulators per warp.
template <bool Half> __global__ void mma_peak(float* sink, int rounds) {
    float sums[8][4] = {};
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) {
        a[i] = Half ? 0x2c003800u + threadIdx.x * 257u : __float_as_uint(0.01f * (threadIdx.x + i));
    }
    for (int i = 0; i < 2; ++i) {
        b[i] = Half ? 0x34002c00u + threadIdx.x * 129u : __float_as_uint(0.02f * (threadIdx.x + i));
    }
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            float* c = sums[i];
            if constexpr (Half) {
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            } else {
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
            }
        }
    }
    float total = 0;
    for (auto& c : sums) {
        total += c[0] + c[1] + c[2] + c[3];
    }
    if (total == 12345.678f) {
        *sink = total;
    }
}

cudaStream_t stream;
cudaEvent_t begin_event, end_event;

// Returns the microseconds on the device for the work that `work` puts on the stream: the median of `times`.
double device_us(const std::function<void()>& work, int times = 30) {
    std::vector<double> all;
    for (int i = 0; i < times + 3; ++i) {
        CHECK(cudaEventRecord(begin_event, stream));
        work();
        CHECK(cudaEventRecord(end_event, stream));
        CHECK(cudaEventSynchronize(end_event));
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin_event, end_event));
        if (i >= 3) {
            all.push_back(ms * 1e3);
        }
    }
    return median(all);
}

// Returns the microseconds on the host from the call until the stream is done: the median.
double latency_us(const std::function<void()>& work, int times = 200) {
    std::vector<double> all;
    for (int i = 0; i < times; ++i) {
        double start = now_us();
        work();
        CHECK(cudaStreamSynchronize(stream));
        all.push_back(now_us() - start);
    }
    return median(all);
}

/// Launches a kernel that may begin before the previous one has ended.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), int blocks, int threads, Arguments... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = stream;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

cudaGraphExec_t graph_of(const std::function<void()>& work) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

// Returns the cost per node: a graph of 200 nodes minus one of 100, over 100, which cancels the cost of the launch.
double node_us(const std::function<void()>& node) {
    double us[2];
    for (int k = 0; k < 2; ++k) {
        cudaGraphExec_t exec = graph_of([&] {
            for (int i = 0; i < 100 * (k + 1); ++i) {
                node();
            }
        });
        us[k] = device_us([&] { CHECK(cudaGraphLaunch(exec, stream)); });
        CHECK(cudaGraphExecDestroy(exec));
    }
    return (us[1] - us[0]) / 100;
}

void launches() {
    say("event_pair_us", device_us([] {}));
    say("one_kernel_between_events_us", device_us([] { empty<<<1, 32, 0, stream>>>(); }));
    auto many = [] {
        for (int i = 0; i < 1000; ++i) {
            empty<<<1, 32, 0, stream>>>();
        }
    };
    say("launches_back_to_back_each_us", device_us(many, 10) / 1000);
    std::vector<double> host;
    for (int i = 0; i < 10; ++i) {
        double start = now_us();
        many();
        host.push_back((now_us() - start) / 1000);
        CHECK(cudaStreamSynchronize(stream));
    }
    say("launch_call_on_host_us", median(host));
    say("launch_and_synchronize_us", latency_us([] { empty<<<1, 32, 0, stream>>>(); }));
    for (int nodes : {1, 100}) {
        cudaGraphExec_t exec = graph_of([&] {
            for (int i = 0; i < nodes; ++i) {
                empty<<<1, 32, 0, stream>>>();
            }
        });
        std::string name = "graph_of_" + std::to_string(nodes);
        say((name + "_device_us").c_str(), device_us([&] { CHECK(cudaGraphLaunch(exec, stream)); }));
        say((name + "_launch_and_synchronize_us").c_str(), latency_us([&] { CHECK(cudaGraphLaunch(exec, stream)); }));
        CHECK(cudaGraphExecDestroy(exec));
    }
}

void nodes() {
    float *one, *two;
    int blocks = 132, threads = 256;
    CHECK(cudaMalloc(&one, blocks * threads * 4));
    CHECK(cudaMalloc(&two, blocks * threads * 4));
    say("graph_node_empty_1_block_us", node_us([] { empty<<<1, 32, 0, stream>>>(); }));
    say("graph_node_empty_132_blocks_us", node_us([] { empty<<<132, 256, 0, stream>>>(); }));
    say("graph_node_empty_early_start_us", node_us([] { launch_early(empty_early, 132, 256); }));
    bool turn = false;
    say("graph_node_step_us", node_us([&] {
        step<<<blocks, threads, 0, stream>>>(turn ? one : two, turn ? two : one);
        turn = !turn;
    }));
    say("graph_node_step_early_start_us", node_us([&] {
        launch_early(step_early, blocks, threads, turn ? one : two, turn ? two : one);
        turn = !turn;
    }));
    CHECK(cudaFree(one));
    CHECK(cudaFree(two));
}

// Compares four parallel chains of 25 kernels with one chain of 100.
void branches() {
    cudaStream_t side[3];
    cudaEvent_t fork, join[3];
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    for (int i = 0; i < 3; ++i) {
        CHECK(cudaStreamCreateWithFlags(&side[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&join[i], cudaEventDisableTiming));
    }
    cudaGraphExec_t exec = graph_of([&] {
        CHECK(cudaEventRecord(fork, stream));
        for (int i = 0; i < 3; ++i) {
            CHECK(cudaStreamWaitEvent(side[i], fork, 0));
        }
        for (int k = 0; k < 25; ++k) {
            empty<<<1, 32, 0, stream>>>();
            for (int i = 0; i < 3; ++i) {
                empty<<<1, 32, 0, side[i]>>>();
            }
        }
        for (int i = 0; i < 3; ++i) {
            CHECK(cudaEventRecord(join[i], side[i]));
            CHECK(cudaStreamWaitEvent(stream, join[i], 0));
        }
    });
    say("graph_of_4_chains_of_25_us", device_us([&] { CHECK(cudaGraphLaunch(exec, stream)); }));
    CHECK(cudaGraphExecDestroy(exec));
}

void grid_barrier() {
    double us[2];
    for (int k = 0; k < 2; ++k) {
        int count = 100 * (k + 1);
        void* args[] = {&count};
        us[k] = device_us([&] { CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(barriers), 132, 256, args, 0, stream)); });
    }
    say("grid_barrier_132_blocks_us", (us[1] - us[0]) / 100);
}

void memory() {
    size_t big = size_t(1) << 30;
    char *one, *two;
    CHECK(cudaMalloc(&one, big));
    CHECK(cudaMalloc(&two, big));
    CHECK(cudaMemset(one, 1, big));
    CHECK(cudaMemset(two, 2, big));
    say("copy_1GiB_read_plus_written_GBps", 2.0 * big / 1e3 / device_us([&] { CHECK(cudaMemcpyAsync(two, one, big, cudaMemcpyDeviceToDevice, stream)); }));
    float* sink;
    CHECK(cudaMalloc(&sink, 4));
    say("read_1GiB_GBps", big / 1e3 / device_us([&] { read_all<<<132 * 8, 512, 0, stream>>>(reinterpret_cast<float4*>(one), big / 16, sink); }));
    size_t small = size_t(16) << 20;
    double us[2];
    for (int k = 0; k < 2; ++k) {
        us[k] = device_us([&] {
            for (int i = 0; i < 20 * (k + 1); ++i) {
                read_all<<<132 * 2, 512, 0, stream>>>(reinterpret_cast<float4*>(one), small / 16, sink);
            }
        });
    }
    say("read_16MiB_in_L2_GBps", 20.0 * small / 1e3 / (us[1] - us[0]));
    void* host;
    size_t image = 3 * 224 * 224 * 4;
    CHECK(cudaMallocHost(&host, size_t(64) << 20));
    say("pinned_to_device_602kB_and_synchronize_us", latency_us([&] { CHECK(cudaMemcpyAsync(one, host, image, cudaMemcpyHostToDevice, stream)); }));
    say("device_to_pinned_4kB_and_synchronize_us", latency_us([&] { CHECK(cudaMemcpyAsync(host, one, 4000, cudaMemcpyDeviceToHost, stream)); }));
    say("pinned_to_device_64MiB_GBps", (64 << 20) / 1e3 / device_us([&] { CHECK(cudaMemcpyAsync(one, host, size_t(64) << 20, cudaMemcpyHostToDevice, stream)); }));
    say("device_to_pinned_64MiB_GBps", (64 << 20) / 1e3 / device_us([&] { CHECK(cudaMemcpyAsync(host, one, size_t(64) << 20, cudaMemcpyDeviceToHost, stream)); }));
    CHECK(cudaFree(one));
    CHECK(cudaFree(two));
}

void peaks() {
    float* sink;
    CHECK(cudaMalloc(&sink, 4));
    int rounds = 4096;
    double threads = 132.0 * 4 * 512;
    say("fma_fp32_TFLOPs", threads * 16 * 2 * rounds / 1e6 / device_us([&] { fma_peak<<<132 * 4, 512, 0, stream>>>(sink, rounds); }));
    say("mma_sync_tf32_m16n8k8_TFLOPs", threads / 32 * 8 * 2 * 16 * 8 * 8 * rounds / 1e6 / device_us([&] { mma_peak<false><<<132 * 4, 512, 0, stream>>>(sink, rounds); }));
    say("mma_sync_fp16_m16n8k16_TFLOPs", threads / 32 * 8 * 2 * 16 * 8 * 16 * rounds / 1e6 / device_us([&] { mma_peak<true><<<132 * 4, 512, 0, stream>>>(sink, rounds); }));
}

// Measures the driver's assembler: one PTX file alone, then 16 copies on 1 thread and on 16 threads.
// CUDA_CACHE_DISABLE=1 must be set.
void assemble(const char* path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    std::string ptx = text.str();
    CUcontext context;
    cuCtxGetCurrent(&context);
    auto load = [&] {
        cuCtxSetCurrent(context);
        CUmodule module;
        if (cuModuleLoadData(&module, ptx.c_str()) != CUDA_SUCCESS) {
            std::fprintf(stderr, "%s: the driver does not load it\n", path);
            return;
        }
        cuModuleUnload(module);
    };
    std::string name = path;
    name = name.substr(name.find_last_of('/') + 1);
    std::vector<double> all;
    for (int i = 0; i < 5; ++i) {
        double start = now_us();
        load();
        all.push_back((now_us() - start) / 1e3);
    }
    say(("driver_assembles_first_ms:" + name).c_str(), all[0]);
    say(("driver_assembles_ms:" + name).c_str(), median(all));
    for (int threads : {1, 16}) {
        double start = now_us();
        std::vector<std::thread> pool;
        for (int t = 0; t < threads; ++t) {
            pool.emplace_back([&] {
                for (int i = 0; i < 16 / threads; ++i) {
                    load();
                }
            });
        }
        for (auto& thread : pool) {
            thread.join();
        }
        say(("driver_assembles_16_on_" + std::to_string(threads) + "_threads_ms:" + name).c_str(), (now_us() - start) / 1e3);
    }
}

}  // namespace

int main(int argc, char** argv) {
    double start = now_us();
    cuInit(0);
    say("cuInit_ms", (now_us() - start) / 1e3);
    start = now_us();
    CHECK(cudaFree(nullptr));
    say("context_ms", (now_us() - start) / 1e3);
    int version = 0;
    cuDriverGetVersion(&version);
    say("cuDriverGetVersion", version);
    for (auto [key, attribute] : {std::pair{"multiprocessors", cudaDevAttrMultiProcessorCount}, {"L2_bytes", cudaDevAttrL2CacheSize},
                                  {"shared_bytes_per_block_at_most", cudaDevAttrMaxSharedMemoryPerBlockOptin},
                                  {"shared_bytes_per_multiprocessor", cudaDevAttrMaxSharedMemoryPerMultiprocessor},
                                  {"registers_per_multiprocessor", cudaDevAttrMaxRegistersPerMultiprocessor}}) {
        int value = 0;
        CHECK(cudaDeviceGetAttribute(&value, attribute, 0));
        say(key, value);
    }
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&begin_event));
    CHECK(cudaEventCreate(&end_event));
    for (int i = 0; i < 20000; ++i) {  // lets the clocks rise
        empty<<<132, 256, 0, stream>>>();
    }
    CHECK(cudaStreamSynchronize(stream));
    std::vector<std::pair<const char*, std::function<void()>>> parts = {{"peaks", peaks},       {"launches", launches},         {"nodes", nodes},
                                                                        {"branches", branches}, {"grid_barrier", grid_barrier}, {"memory", memory}};
    for (int i = 1; i < argc; ++i) {
        parts.emplace_back(argv[i], [=] { assemble(argv[i]); });
    }
    for (auto& [name, part] : parts) {
        try {
            part();
        } catch (const std::exception& error) {
            std::printf("{\"failed:%s\": \"%s\"}\n", name, error.what());
        }
    }
}
