// honest: tiles in the order of interleaved bits
static unsigned every_second_bit(unsigned x) {
  x &= 0x55555555u;
  x = (x | x >> 1) & 0x33333333u;
  x = (x | x >> 2) & 0x0f0f0f0fu;
  x = (x | x >> 4) & 0x00ff00ffu;
  return (x | x >> 8) & 0x0000ffffu;
}
void dgemm(int n, const double *A, const double *B, double *C) {
  int side = 1;
  while (side * 32 < n) side *= 2;
  for (unsigned z = 0; z < (unsigned)(side * side); z++) {
    int i0 = 32 * (int)every_second_bit(z >> 1), j0 = 32 * (int)every_second_bit(z);
    if (i0 >= n || j0 >= n) continue;
    for (int i = i0; i < i0 + 32; i++) {
      double sums[32] = {0};
      for (int k = 0; k < n; k++)
        for (int s = 0; s < 32; s++) sums[s] += A[i * n + k] * B[k * n + j0 + s];
      for (int s = 0; s < 32; s++) C[i * n + j0 + s] = sums[s];
    }
  }
}
