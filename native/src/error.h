// The one exception type inside the library; capi.cpp turns it into a ks_status and a message.
#pragma once

#include "kestrel.h"
#include <stdexcept>
#include <string>

namespace ks {

class Error : public std::runtime_error {
  public:
    Error(ks_status status, const std::string &message) : std::runtime_error(message), status(status) {}
    ks_status status;
};

} // namespace ks
