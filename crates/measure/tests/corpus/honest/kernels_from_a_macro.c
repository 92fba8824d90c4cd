// honest: a family of functions from one macro
#define KERNEL(name, width)                                                                    \
  static void name(int n, const double *a, const double *b, double *c) {                       \
    double sum[width] = {0};                                                                    \
    for (int k = 0; k < n; k++)                                                                 \
      for (int s = 0; s < width; s++) sum[s] += a[k] * b[k * n + s];                            \
    for (int s = 0; s < width; s++) c[s] = sum[s];                                              \
  }
KERNEL(columns_8, 8)
KERNEL(columns_16, 16)
KERNEL(columns_32, 32)
#undef KERNEL
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    int j = 0;
    for (; n - j >= 32; j += 32) columns_32(n, A + i * n, B + j, C + i * n + j);
    for (; n - j >= 16; j += 16) columns_16(n, A + i * n, B + j, C + i * n + j);
    for (; n - j >= 8; j += 8) columns_8(n, A + i * n, B + j, C + i * n + j);
  }
}
