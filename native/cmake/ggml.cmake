# Sets GGML_SOURCE_DIR to an unpacked ggml 0.20.2.
#   -DGGML_SOURCE_DIR=<dir>  or  environment KESTREL_GGML_SOURCE : a local source folder, used as it is
#   environment KESTREL_GGML_CACHE                               : folder that keeps the download between builds
# Otherwise the sdist pinned in ggml.pin.txt is fetched through pip, which refuses it if the hash differs.
set(GGML_SOURCE_DIR "$ENV{KESTREL_GGML_SOURCE}" CACHE PATH "unpacked ggml source (skips the download)")

if(NOT GGML_SOURCE_DIR)
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/ggml.pin.txt" pin REGEX "^libggml-python==")
  string(REGEX MATCH "==([^ ]+) +--hash=sha256:([0-9a-f]+)" _ "${pin}")
  set(version "${CMAKE_MATCH_1}")
  set(sha256 "${CMAKE_MATCH_2}")
  if(DEFINED ENV{KESTREL_GGML_CACHE})
    set(cache "$ENV{KESTREL_GGML_CACHE}")
  else()
    set(cache "${CMAKE_BINARY_DIR}/ggml-source")
  endif()
  file(MAKE_DIRECTORY "${cache}")
  set(sdist "${cache}/libggml_python-${version}.tar.gz")
  set(have "")
  if(EXISTS "${sdist}")
    file(SHA256 "${sdist}" have)
  endif()
  if(NOT have STREQUAL sha256)
    find_package(Python REQUIRED COMPONENTS Interpreter)
    # pip runs the sdist's metadata hook even for a download; --no-build-isolation keeps it from building tools first,
    # so scikit-build-core and setuptools-scm must be importable (they are build requirements of this project).
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation
              --require-hashes --no-binary libggml-python -d "${cache}" -r "${CMAKE_CURRENT_LIST_DIR}/ggml.pin.txt"
      COMMAND_ERROR_IS_FATAL ANY)
    file(SHA256 "${sdist}" have)
    if(NOT have STREQUAL sha256)
      message(FATAL_ERROR "the ggml download has the wrong hash: ${have}")
    endif()
  endif()
  set(root "${cache}/libggml_python-${version}")
  if(NOT EXISTS "${root}/ggml/CMakeLists.txt")
    file(ARCHIVE_EXTRACT INPUT "${sdist}" DESTINATION "${cache}" PATTERNS
      */ggml/CMakeLists.txt */ggml/LICENSE */ggml/AUTHORS */ggml/ggml.pc.in */ggml/cmake/* */ggml/include/* */ggml/src/*)
  endif()
  set(GGML_SOURCE_DIR "${root}/ggml")
endif()

set(BUILD_SHARED_LIBS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(GGML_OPENMP OFF CACHE BOOL "" FORCE)      # no libgomp to ship; the engine owns a persistent pool
set(GGML_LLAMAFILE ON CACHE BOOL "" FORCE)    # off by default, and plain mul_mat needs it to be fast
set(GGML_CCACHE OFF CACHE BOOL "" FORCE)
set(GGML_BUILD_TESTS OFF CACHE BOOL "" FORCE)
set(GGML_BUILD_EXAMPLES OFF CACHE BOOL "" FORCE)
set(GGML_METAL_EMBED_LIBRARY ON CACHE BOOL "" FORCE)
if(NOT APPLE)
  set(GGML_METAL OFF CACHE BOOL "" FORCE)
endif()

# KESTREL_CPU=native: this machine's instructions. x86-64-v3: any AVX2 machine. baseline: what the compiler assumes.
# ggml turns GGML_NATIVE and the AVX defaults off when SOURCE_DATE_EPOCH is set, so every flag is given explicitly.
set(KESTREL_CPU "$ENV{KESTREL_CPU}" CACHE STRING "native, x86-64-v3 or baseline")
if(NOT KESTREL_CPU)
  set(KESTREL_CPU native)
endif()
if(KESTREL_CPU STREQUAL "native")
  set(GGML_NATIVE ON CACHE BOOL "" FORCE)
  set(KESTREL_ARCH_FLAGS -march=native)
  if(APPLE)
    set(KESTREL_ARCH_FLAGS -mcpu=native)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(KESTREL_ARCH_FLAGS -mcpu=native)
  endif()
elseif(KESTREL_CPU STREQUAL "x86-64-v3")
  set(GGML_NATIVE OFF CACHE BOOL "" FORCE)
  foreach(flag SSE42 AVX AVX2 FMA F16C BMI2)
    set(GGML_${flag} ON CACHE BOOL "" FORCE)
  endforeach()
  set(KESTREL_ARCH_FLAGS -march=x86-64-v3)
elseif(KESTREL_CPU STREQUAL "baseline")
  set(GGML_NATIVE OFF CACHE BOOL "" FORCE)
  set(KESTREL_ARCH_FLAGS "")
else()
  message(FATAL_ERROR "KESTREL_CPU is '${KESTREL_CPU}'; valid: native, x86-64-v3, baseline")
endif()

add_subdirectory("${GGML_SOURCE_DIR}" ggml EXCLUDE_FROM_ALL)
# ggml_abort is turned into an exception (capi.cpp); it must be able to pass through ggml's C frames.
foreach(target ggml-base ggml-cpu ggml)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:-fexceptions> -w)
    if(KESTREL_SANITIZE) # upstream reads unchecked enum values before it checks them; addresses stay checked
      target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
    endif()
  endif()
endforeach()
