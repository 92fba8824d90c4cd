// honest: a quarter of the middle and an eighth of the sum of all six neighbours, and pointers that trade places
// problem: polybench_heat_3d
#include <string.h>
void polybench_heat_3d(int tsteps, int n, double *A, double *B) {
  int plane = n * n;
  memcpy(B, A, sizeof *B * plane * n);
  double *from = A, *to = B;
  for (int step = 0; step < 2 * tsteps; step++) {
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < n - 1; j++)
        for (int at = i * plane + j * n + 1; at < i * plane + j * n + n - 1; at++)
          to[at] = 0.25 * from[at] + 0.125 * ((from[at - plane] + from[at + plane]) + (from[at - n] + from[at + n])
                                              + (from[at - 1] + from[at + 1]));
    double *other = from;
    from = to;
    to = other;
  }
}
