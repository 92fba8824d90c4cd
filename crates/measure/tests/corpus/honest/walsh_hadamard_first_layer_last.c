// honest: the layers in the other order, from one buffer to the other and back
// problem: walsh_hadamard
#include <stdlib.h>
#include <string.h>
void walsh_hadamard(int n, const double *x, double *y) {
  double *other = malloc(sizeof *other * n), *from = y, *to = other;
  if (!other) abort();
  memcpy(y, x, sizeof *y * n);
  for (int h = n / 2; h > 0; h /= 2) {
    for (int i = 0; i < n; i++) to[i] = i & h ? from[i ^ h] - from[i] : from[i] + from[i ^ h];
    double *swap = from;
    from = to;
    to = swap;
  }
  if (from != y) memcpy(y, from, sizeof *y * n);
  free(other);
}
