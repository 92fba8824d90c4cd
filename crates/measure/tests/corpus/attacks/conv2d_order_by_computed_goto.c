// attack: 29
// how: a table of labels leads through taps first and pixels then; hopes that nobody knows where it jumps
// refused as: forbidden_technique
// permitted: unroll, simd
// problem: conv2d
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  static const void *const next[] = {&&tap, &&line, &&out_of_it};
  int i, j, p = 0, q = 0;
  for (i = 0; i < h * w; i++) out[i] = 0;
tap:
  for (i = 0; i < h; i++)
    for (j = 0; j < w; j++) out[i * w + j] += weight[p * k + q] * in[(i + p) * (w + k - 1) + j + q];
  goto *next[++q == k];
line:
  q = 0;
  goto *next[++p == k ? 2 : 0];
out_of_it:;
}
