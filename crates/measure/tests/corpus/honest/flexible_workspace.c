// honest: a struct with an array of any length at its end
#include <stdlib.h>
struct workspace {
  size_t count;
  double values[];
};
void dgemm(int n, const double *A, const double *B, double *C) {
  struct workspace *w = malloc(sizeof *w + sizeof(double) * n);
  w->count = n;
  for (int i = 0; i < n; i++) {
    for (size_t j = 0; j < w->count; j++) w->values[j] = 0;
    for (int k = 0; k < n; k++)
      for (size_t j = 0; j < w->count; j++) w->values[j] += A[i * n + k] * B[k * n + j];
    for (size_t j = 0; j < w->count; j++) C[i * n + j] = w->values[j];
  }
  free(w);
}
