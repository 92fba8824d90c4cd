// honest: workspace that is kept from call to call and grows when it has to
// problem: histogram
#include <stdlib.h>
#include <string.h>
void histogram(int n, int bins, const int *key, int *count) {
  static int *table, room;
  if (room < bins) {
    table = realloc(table, sizeof *table * bins);
    if (!table) abort();
    room = bins;
  }
  memset(table, 0, sizeof *table * bins);
  memset(count, 0, sizeof *count * bins);
  int i = 0;
  for (; i + 2 <= n; i += 2) {
    count[key[i]]++;
    table[key[i + 1]]++;
  }
  if (i < n) count[key[i]]++;
  for (int k = 0; k < bins; k++) count[k] += table[k];
}
