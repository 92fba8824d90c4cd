// honest: adds up sixteen neighbours as parts of one byte wide table before it widens them
// problem: prefix_sum
void prefix_sum(int n, const int *in, int *out) {
  signed char high[16];
  unsigned char low[16];
  int sum = 0, i = 0;
  for (; i + 16 <= n; i += 16) {
    /* Each number in two bytes and the rest, put together again. */
    for (int k = 0; k < 16; k++) {
      low[k] = (unsigned char)in[i + k];
      high[k] = (signed char)(in[i + k] >> 8);
    }
    for (int k = 0; k < 16; k++) {
      int rest = (int)((unsigned)in[i + k] - (unsigned)low[k] - ((unsigned)high[k] << 8));
      sum = (int)((unsigned)sum + low[k] + ((unsigned)high[k] << 8) + (unsigned)rest);
      out[i + k] = sum;
    }
  }
  for (; i < n; i++) out[i] = sum = (int)((unsigned)sum + (unsigned)in[i]);
}
