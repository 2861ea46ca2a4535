/* Compiled as strict C99: kestrel.h must stay usable from plain C. */
#include "kestrel.h"

int check_abi(void);

int check_abi(void) {
    ks_load_params params;
    ks_model *model = NULL;
    ks_load_params_default(&params);
    if (params.n_slots != 4 || params.n_threads != 0 || params.plain_ops != 0) return 1;
    if (ks_version()[0] == '\0') return 2;
    if (ks_model_load(NULL, &params, &model) != KS_ERROR_ARGUMENT || model != NULL) return 3;
    if (ks_last_error()[0] == '\0') return 4;
    if (ks_model_load("no-such-file.gguf", &params, &model) != KS_ERROR_FILE || model != NULL) return 5;
    params.n_slots = 0;
    if (ks_model_load("no-such-file.gguf", &params, &model) != KS_ERROR_ARGUMENT) return 6;
    ks_model_free(NULL);
    ks_session_close(NULL);
    ks_decoder_close(NULL);
    ks_session_cancel(NULL);
    return 0;
}
