/* Collectives of an MPI, measured when told to: the peer of `troupe bench comm`. fp32, in place, as ours.
 *
 *   mpicc -O2 -o mpi_collectives mpi_collectives.c && mpirun -n 2 ./mpi_collectives
 *
 * Rank 0 says {"ready": ...} once, then reads lines "KIND BYTES REPETITIONS" and answers each with a line of JSON; the end of the
 * input ends it. KIND is all_reduce, all_gather or reduce_scatter; BYTES are those of the whole vector. A barrier and one repetition
 * go before; the time is that of one repetition on the slowest rank. Between orders all ranks sleep: MPI itself would spin, and what is
 * measured meanwhile would pay for it. */
#define _DEFAULT_SOURCE /* madvise, nanosleep */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { kAllReduce, kAllGather, kReduceScatter, kKinds, kQuit };
static const char* const kNames[kKinds] = {"all_reduce", "all_gather", "reduce_scatter"};

struct order {
  long long kind, bytes, repetitions;
};

static void run(const struct order* order, float* values, int ranks) {
  const int elements = (int)(order->bytes / (long long)sizeof(float));
  if (order->kind == kAllReduce) {
    MPI_Allreduce(MPI_IN_PLACE, values, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (order->kind == kAllGather) {
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, elements / ranks, MPI_FLOAT, MPI_COMM_WORLD);
  } else {
    MPI_Reduce_scatter_block(MPI_IN_PLACE, values, elements / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

/* Seconds of one repetition. */
static double measure(const struct order* order, float* values, int ranks) {
  run(order, values, ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (long long i = 0; i < order->repetitions; ++i) run(order, values, ranks);
  const double mine = (MPI_Wtime() - begin) / (double)order->repetitions;
  double slowest = mine;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

/* Rank 0: the next line, told to the others. */
static struct order read_order(int ranks) {
  struct order order = {kQuit, 0, 0};
  char line[256], kind[64];
  if (fgets(line, sizeof line, stdin) != NULL && sscanf(line, "%63s %lld %lld", kind, &order.bytes, &order.repetitions) == 3) {
    for (int i = 0; i < kKinds; ++i) {
      if (strcmp(kind, kNames[i]) == 0 && order.bytes > 0 && order.repetitions > 0) order.kind = i;
    }
  }
  for (int rank = 1; rank < ranks; ++rank) MPI_Send(&order, sizeof order, MPI_BYTE, rank, 0, MPI_COMM_WORLD);
  return order;
}

/* The others: asleep until rank 0 has told. */
static struct order await_order(void) {
  /* A look wakes a core and empties its caches: one a millisecond cost what was measured meanwhile 5 %. */
  const struct timespec nap = {0, 20000000};
  struct order order;
  int there = 0;
  for (;;) {
    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (there) break;
    nanosleep(&nap, NULL);
  }
  MPI_Recv(&order, sizeof order, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return order;
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0, length = 0;
  long long capacity = 0;
  float* values = NULL;
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n\"\\")] = '\0';
  if (rank == 0) {
    printf("{\"ready\": \"%s\", \"ranks\": %d}\n", version, ranks);
    fflush(stdout);
  }
  for (;;) {
    const struct order order = rank == 0 ? read_order(ranks) : await_order();
    if (order.kind == kQuit) break;
    if (order.bytes > capacity) {
      const long long huge_page = 2 << 20;
      free(values);
      capacity = (order.bytes + huge_page - 1) / huge_page * huge_page;
      values = aligned_alloc((size_t)huge_page, (size_t)capacity);
      if (values == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
      madvise(values, (size_t)capacity, MADV_HUGEPAGE); /* as ours */
      memset(values, 0, (size_t)capacity); /* zeros, which sums keep; and every page is there */
    }
    const double seconds = measure(&order, values, ranks);
    if (rank == 0) {
      printf("{\"kind\": \"%s\", \"bytes\": %lld, \"repetitions\": %lld, \"seconds\": %.9g}\n", kNames[order.kind], order.bytes,
             order.repetitions, seconds);
      fflush(stdout);
    }
  }
  free(values);
  MPI_Finalize();
  return 0;
}
