// honest: runs of one, two, four and more numbers are merged to and fro
// problem: sort64
void sort64(int batch, const int *in, int *out) {
  for (int b = 0; b < batch; b++) {
    int first[64], second[64], *from = first, *to = second;
    for (int i = 0; i < 64; i++) from[i] = in[b * 64 + i];
    for (int run = 1; run < 64; run *= 2) {
      for (int base = 0; base < 64; base += 2 * run) {
        int p = base, q = base + run;
        for (int i = base; i < base + 2 * run; i++) {
          int left = q == base + 2 * run || (p < base + run && from[p] <= from[q]);
          to[i] = left ? from[p++] : from[q++];
        }
      }
      int *other = from;
      from = to;
      to = other;
    }
    for (int i = 0; i < 64; i++) out[b * 64 + i] = from[i];
  }
}
