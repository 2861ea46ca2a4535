// Where graphs run: one CPU backend with a persistent thread pool, and Metal for the codec where it is built in.
#pragma once

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "kestrel.h"

namespace ks {

class Backend {
  public:
    // n_threads 0 = physical cores this process may use; the AR stages use at most ar_threads of them.
    // Throws Error if Metal is asked for but not built in.
    Backend(int n_threads, ks_backend wanted, int ar_threads = 1);
    ~Backend();
    Backend(const Backend &) = delete;
    Backend &operator=(const Backend &) = delete;

    ggml_backend_t cpu() const { return cpu_.backend; }
    ggml_backend_t ar() const { return ar_.backend; }                   // the AR stages, always on the CPU
    ggml_backend_t codec() const { return gpu_ ? gpu_ : cpu_.backend; } // backend of the codec
    bool codec_on_gpu() const { return gpu_ != nullptr; }
    int n_threads() const { return n_threads_; }

    // Runs a graph to its end; throws Error(KS_ERROR_INTERNAL) if the backend reports a failure.
    static void compute(ggml_backend_t backend, ggml_cgraph *graph);

  private:
    struct Cpu { // a CPU backend with threads of its own that outlive every graph
        ggml_backend_t backend = nullptr;
        ggml_threadpool_t pool = nullptr;
        explicit Cpu(int n_threads);
        ~Cpu();
    };
    int n_threads_;
    Cpu cpu_, ar_;
    ggml_backend_t gpu_ = nullptr;
};

// Physical cores this process may run on.
int physical_cores();

} // namespace ks
