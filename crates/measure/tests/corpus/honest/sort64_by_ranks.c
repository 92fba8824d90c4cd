// honest: each number goes where the count of smaller ones says
// problem: sort64
void sort64(int batch, const int *in, int *out) {
  for (int b = 0; b < batch; b++) {
    const int *x = &in[b * 64];
    for (int i = 0; i < 64; i++) {
      int rank = 0;
      for (int j = 0; j < i; j++) rank += x[j] <= x[i];
      for (int j = i + 1; j < 64; j++) rank += x[j] < x[i];
      out[b * 64 + rank] = x[i];
    }
  }
}
