// Where graphs run: the CPU, and Metal for the codec where it is built in.
#pragma once

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "kestrel.h"
#include "thread_pool.h"

namespace ks {

class Backend {
  public:
    // n_threads 0 = physical cores this process may use. Our own kernels are spread over them by pool(); stock ggml
    // operations run on the calling thread, or with stock_threads on as many threads of ggml's own.
    // Throws Error if Metal is asked for but not built in.
    Backend(int n_threads, ks_backend wanted, bool stock_threads = false);
    ~Backend();
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;

    ggml_backend_t cpu() const { return cpu_; }
    ggml_backend_t codec() const { return gpu_ ? gpu_ : cpu_; } // backend of the codec; the AR stages use cpu()
    bool codec_on_gpu() const { return gpu_ != nullptr; }
    int n_threads() const { return pool_.n_threads(); }
    ThreadPool &pool() { return pool_; }

    // Runs a graph to its end; throws Error(KS_ERROR_INTERNAL) if the backend reports a failure.
    static void compute(ggml_backend_t backend, ggml_cgraph *graph);

  private:
    ThreadPool pool_;
    ggml_backend_t cpu_ = nullptr;
    ggml_backend_t gpu_ = nullptr;
    ggml_threadpool_t stock_pool_ = nullptr;
};

// Physical cores this process may run on.
int physical_cores();

} // namespace ks
