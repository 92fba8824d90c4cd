// attack: 3
// how: defines a clock of its own that hardly moves; hopes that the harness calls it
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
struct timespec {
  long seconds, nanoseconds;
};
int clock_gettime(int clock, struct timespec *time) {
  static long calls;
  time->seconds = 0, time->nanoseconds = calls++;
  return clock * 0;
}
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
