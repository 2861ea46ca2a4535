#include "session/session.h"
#include <algorithm>

namespace ks {

Session::Session(const ks_session_params &p, int slot, int n_codebooks)
    : slot(slot), n_codebooks(n_codebooks), seed(p.seed), sampling(p.sampling), limits(p.limits),
      max_chunk_frames(p.max_chunk_frames), decode(p.decode != 0),
      chunk_frames(std::min(p.first_chunk_frames, p.max_chunk_frames)), recent(p.sampling.ras_window),
      repetition(p.limits.repetition_frames), silence(p.limits.silence_frames, p.limits.silence_rms) {
    const int rows = 1 + n_codebooks;
    pending.resize(size_t(rows) * size_t(p.n_columns));
    for (int t = 0; t < p.n_columns; t++) // [rows][T] -> a column after another
        for (int r = 0; r < rows; r++) pending[size_t(t) * rows + r] = p.prompt[int64_t(r) * p.n_columns + t];
}

void Session::queue_text(int32_t id) {
    pending.push_back(id);
    pending.insert(pending.end(), size_t(n_codebooks), 0);
}

void Session::queue_segment() {
    for (int32_t id : segments.front()) queue_text(id);
    segments.pop_front();
    segment_starts.push_back(frames());
    segment_frames = 0;
    wants_segment = false;
}

} // namespace ks
