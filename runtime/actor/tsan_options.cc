// Read by the thread sanitizer at the start of every program that links runtime/actor: Debian's CAF is not instrumented.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
