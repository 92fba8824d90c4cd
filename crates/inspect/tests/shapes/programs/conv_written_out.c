/* problem: conv2d */
/* techniques: unroll */
static void three(int h, int w, const float *in, const float *f, float *out) {
  int row = w + 2;
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++) {
      const float *x = in + i * row + j;
      double s = 0;
      s += (double)f[0] * x[0];
      s += (double)f[1] * x[1];
      s += (double)f[2] * x[2];
      s += (double)f[3] * x[row];
      s += (double)f[4] * x[row + 1];
      s += (double)f[5] * x[row + 2];
      s += (double)f[6] * x[2 * row];
      s += (double)f[7] * x[2 * row + 1];
      s += (double)f[8] * x[2 * row + 2];
      out[i * w + j] = s;
    }
}
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  if (k == 3) {
    three(h, w, in, weight, out);
    return;
  }
  int row = w + k - 1;
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++) {
      double sum = 0;
      for (int p = 0; p < k; p++)
        for (int q = 0; q < k; q++) sum += (double)weight[p * k + q] * in[(i + p) * row + j + q];
      out[i * w + j] = sum;
    }
}
