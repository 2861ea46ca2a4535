// The compute threads of our own kernels. A kernel is cut into chunks that whoever is free takes, the caller included:
// a thread that has lost its core delays at most the chunk it holds. ggml's own threads share every node equally and
// spin until the last one is through, which on a busy machine costs a scheduler quantum a node (measured here on two
// cores with a load of 7: codec RTF 0.02 with one thread, 2.3 with two such threads).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace ks {

class ThreadPool {
  public:
    explicit ThreadPool(int n_threads); // n_threads - 1 are started; the caller of run is the other one
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    using Task = void (*)(int chunk, int n_chunks, void *user);
    // Calls task once for each chunk and returns when all are done. One caller at a time; tasks must not throw.
    void run(Task task, int n_chunks, void *user);
    int n_threads() const { return int(threads_.size()) + 1; }
    // Inside a task: index of the thread that runs it, 0 = the caller of run.
    static int worker();

  private:
    void work(int index);
    void take_chunks();

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stop_ = false;
    std::atomic<uint64_t> generation_{0}; // counts runs, so that a thread sees each once
    bool open_ = false;                   // a run is on and may be joined
    std::atomic<int> inside_{0};          // threads that joined the current run
    Task task_ = nullptr;
    void *user_ = nullptr;
    int n_chunks_ = 0;
    std::atomic<int> next_{0};
};

} // namespace ks
