// Working memory of the custom nodes: one block a compute thread, sized while graphs are built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ks {

class Scratch {
  public:
    explicit Scratch(int n_threads) : blocks_(size_t(n_threads)) {}

    // Every block holds at least n floats from now on. Never while a graph runs.
    void reserve(size_t n) {
        if (n <= floats_) return;
        floats_ = n;
        for (auto &block : blocks_) block.assign(n + 16, 0.0f);
    }
    // Block of compute thread `worker` (ThreadPool::worker), aligned to a cache line.
    float *of(int worker) {
        const auto address = reinterpret_cast<uintptr_t>(blocks_[size_t(worker)].data());
        return reinterpret_cast<float *>((address + 63) & ~uintptr_t(63));
    }
    size_t bytes() const { return blocks_.size() * floats_ * sizeof(float); }

  private:
    size_t floats_ = 0;
    std::vector<std::vector<float>> blocks_;
};

} // namespace ks
