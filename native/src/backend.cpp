#include "backend.h"
#include "error.h"
#include <algorithm>
#include <thread>
#if defined(__linux__)
#include <fstream>
#include <sched.h>
#include <set>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#ifdef GGML_USE_METAL
#include "ggml-metal.h"
#endif

namespace ks {

int physical_cores() {
    int fallback = std::max(1, int(std::thread::hardware_concurrency()));
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return fallback;
    std::set<std::string> cores; // hyper-threads of one core share one sibling list
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
        std::string siblings;
        if (!std::getline(file, siblings)) siblings = "cpu" + std::to_string(cpu);
        cores.insert(siblings);
    }
    return cores.empty() ? fallback : int(cores.size());
#elif defined(__APPLE__)
    int n = 0;
    size_t size = sizeof n;
    if (sysctlbyname("hw.perflevel0.physicalcpu", &n, &size, nullptr, 0) == 0 && n > 0) return n;
    return fallback;
#else
    return fallback;
#endif
}

Backend::Backend(int n_threads, ks_backend wanted, bool stock_threads)
    : pool_(n_threads > 0 ? n_threads : physical_cores()) {
    const int stock = stock_threads ? pool_.n_threads() : 1;
    cpu_ = ggml_backend_cpu_init();
    // Without an own pool ggml starts threads for every graph (ggml-native.md: 72 us against 3.6 us).
    ggml_threadpool_params params = ggml_threadpool_params_default(stock);
    stock_pool_ = cpu_ ? ggml_threadpool_new(&params) : nullptr;
    if (stock_pool_) {
        ggml_backend_cpu_set_n_threads(cpu_, stock);
        ggml_backend_cpu_set_threadpool(cpu_, stock_pool_);
#ifdef GGML_USE_METAL
        if (wanted != KS_BACKEND_CPU) gpu_ = ggml_backend_metal_init();
#endif
        if (wanted != KS_BACKEND_METAL || gpu_) return;
    }
    const bool started = stock_pool_ != nullptr;
    if (cpu_) ggml_backend_free(cpu_);
    if (stock_pool_) ggml_threadpool_free(stock_pool_);
    if (!started) throw Error(KS_ERROR_MEMORY, "cannot start the CPU backend");
    throw Error(KS_ERROR_ARGUMENT, "backend 'metal' is not available in this build; valid: auto, cpu");
}

Backend::~Backend() {
    if (gpu_) ggml_backend_free(gpu_);
    ggml_backend_free(cpu_);
    ggml_threadpool_free(stock_pool_);
}

void Backend::compute(ggml_backend_t backend, ggml_cgraph *graph) {
    const ggml_status status = ggml_backend_graph_compute(backend, graph);
    if (status != GGML_STATUS_SUCCESS)
        throw Error(KS_ERROR_INTERNAL, std::string("graph failed: ") + ggml_status_to_string(status));
}

} // namespace ks
