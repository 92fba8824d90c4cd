/* problem: histogram */
/* techniques: unroll+partial_sums */
#include <stdlib.h>
#include <string.h>
void histogram(int n, int bins, const int *key, int *count) {
  int *table = calloc((size_t)bins * 8, sizeof *table);
  if (!table) abort();
  const int *end = key + (n & ~7);
  const int *k = key;
  while (k < end) {
    table[k[0]]++;
    table[bins + k[1]]++;
    table[2 * bins + k[2]]++;
    table[3 * bins + k[3]]++;
    table[4 * bins + k[4]]++;
    table[5 * bins + k[5]]++;
    table[6 * bins + k[6]]++;
    table[7 * bins + k[7]]++;
    k += 8;
  }
  for (; k < key + n; k++) table[*k]++;
  memset(count, 0, sizeof(int) * bins);
  for (int t = 0; t < 8; t++)
    for (int b = 0; b < bins; b++) count[b] += table[t * bins + b];
  free(table);
}
