/* problem: transpose */
/* techniques: loop_reorder */
static int least(int a, int b) { return a < b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
void transpose(int m, int n, const double *A, double *B) {
  for (int d = 0; d < m + n - 1; d++)
    for (int i = most(0, d - n + 1); i <= least(m - 1, d); i++) B[(d - i) * m + i] = A[i * n + d - i];
}
