// attack: 29
// how: a function moves the state of a switch through its address, and each state is a loop of its own; hopes that only assignments in the switch are looked for
// refused as: forbidden_technique
// permitted: unroll, simd
static void step(int *state, int *j, int n) {
  if (++*j == n) *j = 0, ++*state;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    int state = 0, j = 0;
    while (state <= n) switch (state) {
        case 0:
          C[i * n + j] = 0;
          step(&state, &j, n);
          break;
        default:
          C[i * n + j] += A[i * n + state - 1] * B[(state - 1) * n + j];
          step(&state, &j, n);
      }
  }
}
