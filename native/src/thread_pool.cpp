#include "thread_pool.h"

namespace ks {

namespace {

thread_local int current_worker = 0;

// How long a thread looks for the next kernel before it sleeps: longer than the gap between two kernels of one graph,
// short enough that an idle server uses no core.
constexpr int LOOKS = 3000;

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

} // namespace

int ThreadPool::worker() {
    return current_worker;
}

ThreadPool::ThreadPool(int n_threads) {
    for (int i = 1; i < n_threads; i++) threads_.emplace_back(&ThreadPool::work, this, i);
}

ThreadPool::~ThreadPool() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
        generation_++;
    }
    wake_.notify_all();
    for (std::thread &t : threads_) t.join();
}

void ThreadPool::take_chunks() {
    for (int chunk; (chunk = next_.fetch_add(1, std::memory_order_relaxed)) < n_chunks_;)
        task_(chunk, n_chunks_, user_);
}

void ThreadPool::run(Task task, int n_chunks, void *user) {
    if (threads_.empty() || n_chunks <= 1) {
        for (int chunk = 0; chunk < n_chunks; chunk++) task(chunk, n_chunks, user);
        return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        task_ = task;
        user_ = user;
        n_chunks_ = n_chunks;
        next_.store(0, std::memory_order_relaxed);
        open_ = true;
        generation_++;
    }
    wake_.notify_all();
    take_chunks();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        open_ = false; // nobody joins any more; those inside hold the last chunks
    }
    for (int looks = 0; inside_.load(std::memory_order_acquire) > 0; looks++) {
        if (looks < LOOKS)
            pause();
        else
            std::this_thread::yield(); // perhaps it waits for this very core
    }
}

void ThreadPool::work(int index) {
    current_worker = index;
    uint64_t seen = 0;
    for (;;) {
        for (int looks = 0; looks < LOOKS && generation_.load(std::memory_order_acquire) == seen; looks++) pause();
        {
            std::unique_lock<std::mutex> lock(mutex_);
            wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
            seen = generation_.load(std::memory_order_relaxed);
            if (stop_) return;
            if (!open_) continue;
            inside_.fetch_add(1, std::memory_order_relaxed);
        }
        take_chunks();
        inside_.fetch_sub(1, std::memory_order_release);
    }
}

} // namespace ks
