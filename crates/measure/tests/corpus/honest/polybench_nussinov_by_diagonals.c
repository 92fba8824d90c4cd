// honest: part after part of equal length, and a mirror image of the table, so that both halves of a cut lie in rows
// problem: polybench_nussinov
#include <stdlib.h>
#include <string.h>
void polybench_nussinov(int n, const int *seq, int *table) {
  int *mirror = calloc((size_t)n * n, sizeof *mirror);
  if (!mirror) abort();
  memset(table, 0, sizeof *table * n * n);
  for (int length = 1; length < n; length++)
    for (int i = 0, j = length; j < n; i++, j++) {
      int most = length > 1 ? table[(i + 1) * n + j - 1] + (seq[i] + seq[j] == 3) : 0;
      for (int k = i; k < j; k++) {
        int cut = table[i * n + k] + mirror[j * n + k + 1];
        most = cut > most ? cut : most;
      }
      table[i * n + j] = mirror[j * n + i] = most;
    }
  free(mirror);
}
