// attack: 26
// how: has every line warned of through many macros; hopes that messages without end fill a memory or a disk
// refused as: compile_limit
#define M0 x = 1 / 0;
#define M1 M0 M0 M0 M0
#define M2 M1 M1 M1 M1
#define M3 M2 M2 M2 M2
#define M4 M3 M3 M3 M3
#define M5 M4 M4 M4 M4
#define M6 M5 M5 M5 M5
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  if (n < 0) {
    int x;
    M6
    C[0] = x;
  }
}
