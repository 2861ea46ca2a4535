// Native tests, meant to run under AddressSanitizer and UndefinedBehaviorSanitizer (`make sanitize`).
//   kestrel_tests MODEL.gguf [MUTATIONS]
// Walks every call of the ABI on an interleaved-text model: sessions alone and batched, cancels, wrong arguments, the
// codec in pieces, own kernels and stock operations; then loads MUTATIONS damaged copies of the file.
#include "kestrel.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

extern "C" int check_abi(void);

namespace {

int failures = 0;

void expect(bool condition, const char *what) {
    if (condition) return;
    std::fprintf(stderr, "FAILED: %s (last error: %s)\n", what, ks_last_error());
    failures++;
}

struct Text {
    std::vector<int32_t> prompt;
    std::vector<std::vector<int32_t>> segments;
};

// Any ids do: what is tested is memory, not speech.
Text random_text(std::mt19937 &rng, int words) {
    std::uniform_int_distribution<int32_t> id(4, 40);
    Text text;
    auto word = [&] { return std::vector<int32_t>{id(rng), id(rng), id(rng)}; };
    text.prompt = {1, id(rng), id(rng), id(rng), 3};
    for (int i = 1; i < words; i++) {
        std::vector<int32_t> segment = word();
        segment.push_back(3);
        text.segments.push_back(segment);
    }
    return text;
}

ks_session *open_session(ks_model *model, const Text &text, uint64_t seed, int32_t max_frames, float temperature) {
    ks_model_info info;
    expect(ks_model_get_info(model, &info) == KS_OK, "info");
    std::vector<int32_t> matrix(size_t(1 + info.n_codebooks) * text.prompt.size(), 0);
    std::copy(text.prompt.begin(), text.prompt.end(), matrix.begin());
    ks_session_params params = {};
    params.prompt = matrix.data();
    params.n_columns = int32_t(text.prompt.size());
    params.seed = seed;
    expect(ks_model_sampling(model, &params.sampling) == KS_OK, "sampling defaults");
    params.sampling.temperature = params.sampling.fast_temperature = temperature;
    params.limits.max_frames = max_frames;
    params.limits.max_segment_frames = 10;
    params.first_chunk_frames = 2;
    params.max_chunk_frames = 8;
    params.decode = 1;
    ks_session *session = nullptr;
    expect(ks_session_open(model, &params, &session) == KS_OK, "open");
    for (const auto &segment : text.segments)
        expect(ks_session_push(session, segment.data(), int32_t(segment.size())) == KS_OK, "push");
    expect(ks_session_end_text(session) == KS_OK, "end of text");
    return session;
}

ks_session_status status_of(const ks_session *session) {
    ks_session_status status;
    expect(ks_session_get_status(session, &status) == KS_OK, "status");
    return status;
}

std::vector<float> drain(ks_session *session) {
    std::vector<float> pcm;
    float buffer[1000];
    int32_t n = 0;
    do {
        expect(ks_session_read(session, buffer, 1000, &n) == KS_OK, "read");
        pcm.insert(pcm.end(), buffer, buffer + n);
    } while (n > 0);
    return pcm;
}

std::vector<float> speak_alone(ks_model *model, const Text &text, uint64_t seed) {
    ks_session *session = open_session(model, text, seed, 24, 0.8f);
    std::vector<float> pcm;
    while (status_of(session).finish == KS_FINISH_NONE) {
        expect(ks_step(model, &session, 1) == KS_OK, "step");
        const std::vector<float> more = drain(session);
        pcm.insert(pcm.end(), more.begin(), more.end());
    }
    ks_session_close(session);
    return pcm;
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Joins, leaves and cancels beside each other must not change a sample of anybody else.
void test_batch(ks_model *model) {
    std::mt19937 rng(7);
    std::vector<Text> texts;
    std::vector<std::vector<float>> alone, together(3);
    for (uint64_t i = 0; i < 3; i++) {
        texts.push_back(random_text(rng, 3));
        alone.push_back(speak_alone(model, texts.back(), i));
        expect(!alone.back().empty(), "audio");
    }
    std::vector<ks_session *> sessions;
    for (uint64_t i = 0; i < 3; i++) sessions.push_back(open_session(model, texts[i], i, 24, 0.8f));
    ks_session *doomed = open_session(model, texts[0], 9, 24, 0.8f);
    for (int round = 0; round < 40; round++) {
        std::vector<ks_session *> set(sessions.begin(), sessions.end());
        if (round == 3) ks_session_cancel(doomed);
        if (round < 6) set.push_back(doomed);
        expect(ks_step(model, set.data(), int32_t(set.size())) == KS_OK, "batched step");
        for (size_t i = 0; i < 3; i++) {
            const std::vector<float> more = drain(sessions[i]);
            together[i].insert(together[i].end(), more.begin(), more.end());
        }
    }
    expect(status_of(doomed).finish == KS_FINISH_CANCELLED, "cancel");
    ks_session_close(doomed);
    for (size_t i = 0; i < 3; i++) {
        expect(same(alone[i], together[i]), "batched audio equals audio made alone");
        ks_session_close(sessions[i]);
    }
}

void test_decoder(ks_model *model) {
    ks_model_info info;
    ks_model_get_info(model, &info);
    const int frames = 21;
    std::mt19937 rng(3);
    std::vector<int32_t> codes(size_t(info.n_codebooks) * frames);
    for (int32_t &c : codes) c = int32_t(rng() % 2000) - 100; // outside the codebooks too: clamped
    std::vector<float> whole(size_t(frames) * size_t(info.frame_size)), pieces = whole;
    ks_decoder *decoder = nullptr;
    expect(ks_decoder_open(model, &decoder) == KS_OK, "decoder");
    expect(ks_decoder_run(decoder, codes.data(), frames, whole.data()) == KS_OK, "decode");
    expect(ks_decoder_run(decoder, codes.data(), 0, whole.data()) == KS_ERROR_ARGUMENT, "no frames");
    ks_decoder_close(decoder);
    expect(ks_decoder_open(model, &decoder) == KS_OK, "decoder again");
    const int sizes[] = {1, 3, 7, 2, 8};
    for (int first = 0, k = 0; first < frames; k++) {
        const int n = sizes[k % 5] < frames - first ? sizes[k % 5] : frames - first;
        std::vector<int32_t> part;
        for (int j = 0; j < info.n_codebooks; j++)
            for (int t = 0; t < n; t++) part.push_back(codes[size_t(j) * frames + size_t(first + t)]);
        expect(ks_decoder_run(decoder, part.data(), n, &pieces[size_t(first) * size_t(info.frame_size)]) == KS_OK,
               "piece");
        first += n;
    }
    ks_decoder_close(decoder);
    expect(same(whole, pieces), "decoding in pieces equals decoding at once");
}

void test_refusals(ks_model *model) {
    ks_model_info info;
    ks_model_get_info(model, &info);
    std::mt19937 rng(1);
    const Text text = random_text(rng, 1);
    std::vector<ks_session *> all;
    for (int i = 0; i < info.n_slots; i++) all.push_back(open_session(model, text, 1, 4, 0.0f));
    std::vector<int32_t> matrix(size_t(1 + info.n_codebooks), 0);
    ks_session_params params = {};
    params.prompt = matrix.data();
    params.n_columns = 1;
    params.sampling.top_p = params.sampling.ras_top_p = 1;
    params.limits.max_frames = 1;
    params.first_chunk_frames = params.max_chunk_frames = 1;
    ks_session *session = nullptr;
    expect(ks_session_open(model, &params, &session) == KS_ERROR_BUSY && !session, "busy");
    ks_session_close(all.back());
    all.pop_back();
    matrix[0] = info.n_vocab;
    expect(ks_session_open(model, &params, &session) == KS_ERROR_ARGUMENT, "id beyond the vocabulary");
    matrix[0] = 1;
    params.max_chunk_frames = 3;
    expect(ks_session_open(model, &params, &session) == KS_ERROR_ARGUMENT, "chunk size");
    ks_session *twice[] = {all[0], all[0]};
    expect(ks_step(model, twice, 2) == KS_ERROR_ARGUMENT, "session listed twice");
    const int32_t bad = -1;
    expect(ks_session_push(all[0], &bad, 1) == KS_ERROR_STATE, "push after the end of the text");
    int64_t n = 0;
    float value;
    expect(ks_session_state(all[0], KS_STATE_SSM, 999, nullptr, 0, &n) == KS_ERROR_ARGUMENT, "layer");
    expect(ks_session_state(all[0], KS_STATE_SSM, 0, &value, 1, &n) == KS_ERROR_ARGUMENT, "short buffer");
    const void *data = nullptr;
    expect(ks_model_metadata(model, "no.such.key", &data, &n) == KS_ERROR_MODEL, "absent key");
    // the remaining sessions are left open: ks_model_free must clean up after them
}

void test_model(const char *path, uint32_t plain_ops) {
    ks_load_params params;
    ks_load_params_default(&params);
    params.n_threads = 2;
    params.plain_ops = plain_ops;
    params.record = 1;
    params.max_positions = 256;
    ks_model *model = nullptr;
    expect(ks_model_load(path, &params, &model) == KS_OK, "load");
    if (!model) return;
    if (plain_ops == 0) { // stock operations promise neither batch nor chunk invariance
        test_batch(model);
        test_decoder(model);
    } else {
        std::mt19937 rng(5);
        expect(!speak_alone(model, random_text(rng, 3), 1).empty(), "audio from stock operations");
    }
    test_refusals(model);
    ks_model_free(model);
}

void fuzz(const char *path, int mutations) {
    std::ifstream file(path, std::ios::binary);
    const std::string original((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t infos = original.find("embed_tokens.weight");
    expect(infos != std::string::npos, "a table of tensors");
    const char *folder = std::getenv("TMPDIR");
    std::string name = (folder ? std::string(folder) + "/" : std::string()) + "kestrel-fuzz-XXXXXX";
    const int fd = mkstemp(name.data());
    expect(fd >= 0, "temporary file");
    if (fd < 0) return;
    close(fd);
    std::mt19937_64 rng(11);
    int loaded = 0;
    for (int i = 0; i < mutations; i++) {
        std::string bytes = original;
        const int edits = 1 + int(rng() % 8);
        for (int e = 0; e < edits; e++) {
            size_t first = 0, span = bytes.size(); // anywhere: mostly weights
            switch (rng() % 4) {
            case 0:
                span = 4096;
                break; // keys
            case 1:
            case 2: // the table of tensors
                first = infos;
                span = 4096;
                break;
            default:
                break;
            }
            bytes[(first + rng() % span) % bytes.size()] = char(rng());
        }
        if (rng() % 8 == 0) bytes.resize(rng() % bytes.size());
        std::ofstream(name, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
        ks_load_params params;
        ks_load_params_default(&params);
        params.n_slots = 1;
        params.n_threads = 1;
        params.max_positions = 64;
        ks_model *model = nullptr;
        if (ks_model_load(name.c_str(), &params, &model) == KS_OK) {
            loaded++;
            ks_model_free(model);
        } else {
            expect(ks_last_error()[0] != '\0' && !model, "an error message");
        }
    }
    std::remove(name.c_str());
    std::printf("fuzz: %d damaged files, %d still loaded\n", mutations, loaded);
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s MODEL.gguf [MUTATIONS]\n", argv[0]);
        return 2;
    }
    expect(check_abi() == 0, "C99 ABI");
    test_model(argv[1], 0);
    test_model(argv[1], KS_PLAIN_ALL);
    fuzz(argv[1], argc > 2 ? std::atoi(argv[2]) : 100);
    std::printf("%s\n", failures ? "native tests FAILED" : "native tests passed");
    return failures ? 1 : 0;
}
