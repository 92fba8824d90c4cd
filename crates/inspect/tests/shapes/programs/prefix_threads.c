/* problem: prefix_sum */
/* techniques: openmp */
#include <omp.h>
#include <stdlib.h>
void prefix_sum(int n, const int *in, int *out) {
  int *total = calloc(257, sizeof(int));
  if (!total) abort();
#pragma omp parallel
  {
    int me = omp_get_thread_num(), all = omp_get_num_threads();
    int from = (int)((long)n * me / all), to = (int)((long)n * (me + 1) / all);
    int sum = 0;
    for (int i = from; i < to; i++) {
      sum += in[i];
      out[i] = sum;
    }
    total[me + 1] = sum;
#pragma omp barrier
    int before = 0;
    for (int t = 0; t <= me; t++) before += total[t];
    for (int i = from; i < to; i++) out[i] += before;
  }
  free(total);
}
