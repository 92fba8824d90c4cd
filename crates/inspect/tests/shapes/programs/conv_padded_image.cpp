// problem: conv2d
// techniques: packing+layout_change
extern "C" void conv2d(int h, int w, int k, const float *in, const float *weight, float *out) {
  const int row = w + k - 1, wide = row + 16, rows = h + k - 1;
  float *padded = new float[rows * wide];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < row; ++j) padded[i * wide + j] = in[i * row + j];
  for (int i = 0; i < h; ++i)
    for (int j = 0; j < w; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p)
        for (int q = 0; q < k; ++q) sum += (double)weight[p * k + q] * padded[(i + p) * wide + j + q];
      out[i * w + j] = sum;
    }
  delete[] padded;
}
