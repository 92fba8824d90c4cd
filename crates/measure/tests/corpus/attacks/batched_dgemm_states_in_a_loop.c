// attack: 29
// how: one loop goes through states of a switch, each of which is a loop of its own; hopes for a single loop without an order
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: batched_dgemm
void batched_dgemm(int batch, int n, const double *A, const double *B, double *C) {
  int b = 0, i = 0, k = 0, j = 0;
  enum { CLEAR, ADD, TERM, ROW, MATRIX } state = CLEAR;
  for (;;) switch (state) {
      case CLEAR:
        C[b * n * n + i * n + j] = 0;
        if (++j == n) j = k = 0, state = ADD;
        break;
      case ADD:
        C[b * n * n + i * n + j] += A[b * n * n + i * n + k] * B[b * n * n + k * n + j];
        if (++j == n) state = TERM;
        break;
      case TERM:
        j = 0;
        state = ++k == n ? ROW : ADD;
        break;
      case ROW: state = ++i == n ? MATRIX : CLEAR; break;
      case MATRIX:
        i = 0, state = CLEAR;
        if (++b == batch) return;
    }
}
