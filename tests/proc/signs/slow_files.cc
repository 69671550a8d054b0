// Preloaded into a process (LD_PRELOAD), a disk and a corpus that are slow, as a network file system may be:
//
//   TROUPE_SLOW_PAGE_MS   each page of a mapped file that is read, this long; and again after a while, as if memory had been short
//   TROUPE_SLOW_FSYNC_MS  each fsync, this long
// What is read and written stays right.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstdio>
#include <ctime>

namespace {

constexpr std::size_t kPage_bytes = 4096;
constexpr int kForgotten_ms = 5;  // after so long pages are slow again
constexpr std::size_t kFilesMost = 16;

struct File {
  std::uintptr_t begin = 0, end = 0;
};
// Written before the count that says so; a process that maps more has those at their usual pace.
File files[kFilesMost];
std::atomic<std::size_t> file_count{0};
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // nobody unmaps what is being protected

long milliseconds_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

void pass(long milliseconds) {
  timespec left{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

long page_ms = 0;

void page_is_read(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (std::size_t i = 0; i < file_count.load(std::memory_order_acquire); ++i) {
    if (address < files[i].begin || address >= files[i].end) continue;
    const int before = errno;
    pass(page_ms);
    mprotect(reinterpret_cast<void*>(address / kPage_bytes * kPage_bytes), kPage_bytes, PROT_READ);
    errno = before;
    return;
  }
  std::signal(signal, SIG_DFL);  // a real one: it comes again
}

void* forget(void*) {
  for (;;) {
    pass(kForgotten_ms);
    pthread_mutex_lock(&mutex);
    for (std::size_t i = 0; i < file_count.load(std::memory_order_acquire); ++i) {
      if (files[i].end > files[i].begin) mprotect(reinterpret_cast<void*>(files[i].begin), files[i].end - files[i].begin, PROT_NONE);
    }
    pthread_mutex_unlock(&mutex);
  }
}

void make_slow(void* start, std::size_t size) {
  pthread_mutex_lock(&mutex);
  const std::size_t at = file_count.load();
  if (at == 0) {
    struct sigaction reads {};
    reads.sa_sigaction = page_is_read;
    reads.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &reads, nullptr);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    pthread_create(&thread, nullptr, forget, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (at < kFilesMost) {
    files[at] = {reinterpret_cast<std::uintptr_t>(start), reinterpret_cast<std::uintptr_t>(start) + size};
    file_count.store(at + 1, std::memory_order_release);
  }
  pthread_mutex_unlock(&mutex);
}

bool is_corpus(int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path);
  return size > 4 && path[size - 4] == '.' && path[size - 3] == 'b' && path[size - 2] == 'i' && path[size - 1] == 'n';
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" void* mmap(void* start, std::size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  static const auto real = next<void* (*)(void*, std::size_t, int, int, int, off_t)>("mmap");
  void* mapped = real(start, size, protection, flags, descriptor, offset);
  if (mapped == MAP_FAILED || descriptor < 0 || protection != PROT_READ || (flags & MAP_SHARED) == 0) return mapped;
  page_ms = milliseconds_of("TROUPE_SLOW_PAGE_MS");
  if (page_ms > 0 && is_corpus(descriptor)) make_slow(mapped, size);
  return mapped;
}

extern "C" int munmap(void* start, std::size_t size) noexcept {
  static const auto real = next<int (*)(void*, std::size_t)>("munmap");
  pthread_mutex_lock(&mutex);
  for (std::size_t i = 0; i < file_count.load(); ++i) {
    if (files[i].begin == reinterpret_cast<std::uintptr_t>(start)) files[i].end = files[i].begin;
  }
  const int result = real(start, size);
  pthread_mutex_unlock(&mutex);
  return result;
}

extern "C" int fsync(int descriptor) {
  static const auto real = next<int (*)(int)>("fsync");
  pass(milliseconds_of("TROUPE_SLOW_FSYNC_MS"));
  return real(descriptor);
}
