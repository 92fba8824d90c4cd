/* The baseline: four counts for each key, so that equal keys in a row do not wait for each other. It is correct for
   every size; it must never change, or old numbers lose their meaning. */
#include <stdlib.h>

void histogram(int n, int bins, const int *key, int *count)
{
    int *c0 = calloc((size_t)bins * 4, sizeof *c0);
    if (!c0)
        abort();
    int *c1 = c0 + bins, *c2 = c1 + bins, *c3 = c2 + bins;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        c0[key[i]]++;
        c1[key[i + 1]]++;
        c2[key[i + 2]]++;
        c3[key[i + 3]]++;
    }
    for (; i < n; i++)
        c0[key[i]]++;
    for (int k = 0; k < bins; k++)
        count[k] = c0[k] + c1[k] + c2[k] + c3[k];
    free(c0);
}
