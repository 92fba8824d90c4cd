// honest: blocks of twelve columns; macros over rows update the rest
// problem: lu
#include <string.h>
#define FROM_TO(i, a, b) for (int i = (a); i < (b); i++)
#define AT(i, j) LU[(i) * n + (j)]
enum { WIDE = 12 };
void lu(int n, const double *A, double *LU) {
  memcpy(LU, A, sizeof *LU * n * n);
  for (int at = 0; at < n; at += WIDE) {
    int end = at + WIDE < n ? at + WIDE : n;
    FROM_TO(k, at, end) FROM_TO(i, k + 1, n) {
      AT(i, k) /= AT(k, k);
      FROM_TO(j, k + 1, end) AT(i, j) -= AT(i, k) * AT(k, j);
    }
    FROM_TO(k, at, end) FROM_TO(i, k + 1, end) FROM_TO(j, end, n) AT(i, j) -= AT(i, k) * AT(k, j);
    FROM_TO(i, end, n) FROM_TO(k, at, end) FROM_TO(j, end, n) AT(i, j) -= AT(i, k) * AT(k, j);
  }
}
