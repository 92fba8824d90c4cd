// honest: sums of blocks first, then a running sum inside of each, and the rest from the back
// problem: prefix_sum
enum { BLOCK = 1000 };
static int begins[450000 / BLOCK + 2];
void prefix_sum(int n, const int *in, int *out) {
  int blocks = n / BLOCK;
  begins[0] = 0;
  for (int b = 0; b < blocks; b++) {
    int sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += in[b * BLOCK + i];
    begins[b + 1] = begins[b] + sum;
  }
  for (int b = blocks; b >= 0; b--) {
    int sum = begins[b], end = b < blocks ? (b + 1) * BLOCK : n;
    for (int i = b * BLOCK; i < end; i++) out[i] = sum += in[i];
  }
}
