/* problem: sort64 */
/* techniques: unroll */
#define CAS(a, b)                       \
  do {                                  \
    int p = x[a], q = x[b];             \
    x[a] = p < q ? p : q;               \
    x[b] = p < q ? q : p;               \
  } while (0)
static void eight(int *x) {
  CAS(0, 1); CAS(2, 3); CAS(4, 5); CAS(6, 7);
  CAS(0, 2); CAS(1, 3); CAS(4, 6); CAS(5, 7);
  CAS(1, 2); CAS(5, 6); CAS(0, 4); CAS(3, 7);
  CAS(1, 5); CAS(2, 6); CAS(1, 4); CAS(3, 6);
  CAS(2, 4); CAS(3, 5); CAS(3, 4);
}
void sort64(int batch, const int *in, int *out) {
  for (int b = 0; b < batch; b++) {
    int *x = out + b * 64, own[64];
    for (int i = 0; i < 64; i++) x[i] = in[b * 64 + i];
    for (int i = 0; i < 64; i += 8) eight(x + i);
    for (int size = 8; size < 64; size *= 2) {
      for (int base = 0; base < 64; base += 2 * size) {
        int l = base, r = base + size;
        for (int k = base; k < base + 2 * size; k++)
          own[k] = l < base + size && (r >= base + 2 * size || x[l] <= x[r]) ? x[l++] : x[r++];
      }
      for (int i = 0; i < 64; i++) x[i] = own[i];
    }
  }
}
