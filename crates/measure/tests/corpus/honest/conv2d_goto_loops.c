// honest: five nested loops without a loop statement
// problem: conv2d
void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  int i = 0, j, p, q;
  float sum;
row:
  j = 0;
column:
  sum = 0, p = 0;
line:
  q = 0;
tap:
  sum += weight[p * k + q] * in[(i + p) * (w + k - 1) + j + q];
  if (++q < k) goto tap;
  if (++p < k) goto line;
  out[i * w + j] = sum;
  if (++j < w) goto column;
  if (++i < h) goto row;
}
