/* The baseline: a row at a time, without branches. It is correct for every size; it must never change, or old numbers
   lose their meaning. */
#include <string.h>

void floyd_warshall(int n, const int *weight, int *length)
{
    memcpy(length, weight, sizeof *length * n * n);
    for (int i = 0; i < n; i++)
        length[i * n + i] = 0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            /* A way from k to itself shortens nothing. */
            if (i == k)
                continue;
            int *restrict x = &length[i * n];
            const int *restrict y = &length[k * n];
            int first = x[k];
            for (int j = 0; j < n; j++) {
                int through = first + y[j];
                x[j] = through < x[j] ? through : x[j];
            }
        }
}
