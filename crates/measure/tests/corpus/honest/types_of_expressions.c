// honest: typeof, automatic types and statement expressions
#define MAX(a, b) ({ __typeof__(a) x_ = (a); __auto_type y_ = (b); x_ > y_ ? x_ : y_; })
#define SWAP(a, b)            \
  do {                        \
    typeof(a) t_ = (a);       \
    (a) = (b);                \
    (b) = t_;                 \
  } while (0)
void dgemm(int n, const double *A, const double *B, double *C) {
  double one[512], other[512], *now = one, *next = other;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < MAX(n, 1); j++) now[j] = 0;
    for (int k = 0; k < n; k++) {
      __auto_type a = A[i * n + k];
      for (int j = 0; j < n; j++) next[j] = now[j] + a * B[k * n + j];
      SWAP(now, next);
    }
    for (int j = 0; j < n; j++) C[i * n + j] = now[j];
  }
}
