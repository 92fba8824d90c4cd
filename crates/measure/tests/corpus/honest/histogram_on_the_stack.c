// honest: tables on the stack whose length is known when it runs
// problem: histogram
#include <string.h>
void histogram(int n, int bins, const int *key, int *count) {
  int table[2][bins];
  memset(table, 0, sizeof table);
  for (int i = 0; i < n; i++) table[i & 1][key[i]]++;
  for (int k = 0; k < bins; k++) count[k] = table[0][k] + table[1][k];
}
