/* problem: floyd_warshall */
/* techniques: cache_blocking */
#include <string.h>
enum { T = 32 };
static inline int lower(int a, int b) { return a < b ? a : b; }
static void tile(int n, int *d, int rows, int columns, int through) {
  int ie = lower(rows + T, n), je = lower(columns + T, n), ke = lower(through + T, n);
  for (int k = through; k < ke; k++) {
    const int *row = d + k * n;
    for (int i = rows; i < ie; i++) {
      int *x = d + i * n, first = x[k];
      for (int j = columns; j < je; j++) {
        int way = first + row[j];
        if (way < x[j]) x[j] = way;
      }
    }
  }
}
void floyd_warshall(int n, const int *weight, int *length) {
  memcpy(length, weight, sizeof *length * n * n);
  for (int i = 0; i < n; i++) length[i * n + i] = 0;
  for (int k = 0; k < n; k += T) {
    tile(n, length, k, k, k);
    for (int j = 0; j < n; j += T)
      if (j != k) tile(n, length, k, j, k);
    for (int i = 0; i < n; i += T) {
      if (i == k) continue;
      tile(n, length, i, k, k);
      for (int j = 0; j < n; j += T)
        if (j != k) tile(n, length, i, j, k);
    }
  }
}
