// attack: 7
// how: keeps the result for the address of the keys; hopes that the same place holds the same keys
// refused as: skipped_work | wrong_result
// problem: histogram
#include <string.h>
static void right(int n, int bins, const int *key, int *count) {
  for (int k = 0; k < bins; k++) count[k] = 0;
  for (int i = 0; i < n; i++) count[key[i]]++;
}
void histogram(int n, int bins, const int *key, int *count) {
  static const int *known;
  static int size, kept[1024];
  if (key != known || n != size) {
    right(n, bins, key, kept);
    known = key;
    size = n;
  }
  memcpy(count, kept, sizeof(int) * bins);
}
