/* The sums of eight numbers by three shifts, and one addition for those before. */
typedef int V __attribute__((vector_size(32), aligned(4), may_alias));
static __attribute__((noipa)) void rows(int from, int to, const int *in, int *out) {
  const V none = {0}, one = {0, 8, 9, 10, 11, 12, 13, 14}, two = {0, 0, 8, 9, 10, 11, 12, 13}, four = {0, 0, 0, 0, 8, 9, 10, 11};
  int sum = from ? out[from - 1] : 0, i = from;
  for (; i + 8 <= to; i += 8) {
    V x = *(const V *)&in[i];
    x += __builtin_shuffle(none, x, one);
    x += __builtin_shuffle(none, x, two);
    x += __builtin_shuffle(none, x, four);
    *(V *)&out[i] = x + sum;
    sum += x[7];
  }
  for (; i < to; i++) out[i] = sum += in[i];
}
void prefix_sum(int n, const int *in, int *out) { rows(0, n, in, out); }
