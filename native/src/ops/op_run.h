// One operation on its own, for tests (ks_op_run). Shapes are those of the operation's header.
#pragma once

#include "kestrel.h"
#include <cstdint>

namespace ks {

// Runs the operation `name` on the CPU. plain: its stock ggml twin. n_threads 0 = physical cores.
// Throws Error(KS_ERROR_ARGUMENT) that says what is valid for an unknown name, a wrong count, type or shape.
void op_run(const char *name, const ks_array *inputs, int n_inputs, const int32_t *options, int n_options, bool plain,
            int n_threads, float *out, int64_t n_out);

} // namespace ks
