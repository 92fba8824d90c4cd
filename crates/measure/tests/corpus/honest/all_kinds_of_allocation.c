// honest: memory from every function that gives some
#include <stdlib.h>
#include <string.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  size_t bytes = sizeof(double) * n;
  double *a = aligned_alloc(64, bytes), *b = realloc(malloc(8), bytes), *c = calloc(n, sizeof(double));
  void *d = 0;
  if (!a || !b || !c || posix_memalign(&d, 64, bytes)) abort();
  for (int i = 0; i < n; i++) {
    memcpy(a, A + i * n, bytes);
    for (int k = 0; k < n; k++) {
      memcpy(b, B + k * n, bytes);
      for (int j = 0; j < n; j++) c[j] += a[k] * b[j];
    }
    memcpy(C + i * n, c, bytes);
    memset(c, 0, bytes);
  }
  free(a), free(b), free(c), free(d);
}
