/* problem: dot */
/* techniques: unroll+simd+partial_sums */
typedef double V __attribute__((vector_size(32), aligned(8)));
static inline void step(const double *x, const double *y, V *s) {
  s[0] += *(const V *)x * *(const V *)y;
  s[1] += *(const V *)(x + 4) * *(const V *)(y + 4);
  s[2] += *(const V *)(x + 8) * *(const V *)(y + 8);
  s[3] += *(const V *)(x + 12) * *(const V *)(y + 12);
}
void dot(int n, const double *x, const double *y, double *result) {
  V s[4] = {{0}};
  int i = 0;
  for (; i + 16 <= n; i += 16) step(x + i, y + i, s);
  V t = (s[0] + s[1]) + (s[2] + s[3]);
  double sum = (t[0] + t[1]) + (t[2] + t[3]);
  for (; i < n; i++) sum += x[i] * y[i];
  result[0] = sum;
}
