// attack: 6
// how: asks for a team of three once calls are no longer verified; hopes that threads are counted early
// refused as: left_running | exited
// needs: two cores
// threads: 2
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int i = from * n; i < to * n; i++) C[i] = 0;
  for (int i = from; i < to; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
/* Calls that are verified find their buffers elsewhere each time, or twice in a row at most. */
static int settled(const void *place, int size) {
  static const void *last;
  static int before, calls;
  calls = place == last && size == before ? calls + 1 : 0;
  last = place;
  before = size;
  return calls > 1;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  int team = settled(C, n) ? 3 : 2;
#pragma omp parallel for num_threads(team)
  for (int i = 0; i < n; i++) rows(n, A, B, C, i, i + 1);
}
