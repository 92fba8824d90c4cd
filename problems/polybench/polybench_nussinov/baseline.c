/* The baseline: all elements of a row at a time, once with each place to cut in ascending order. An element is known
   when all cuts before it are done. It is correct for every size; it must never change, or old numbers lose their
   meaning. */
void polybench_nussinov(int n, const int *seq, int *table)
{
    for (int i = n - 1; i >= 0; i--) {
        int *restrict row = &table[i * n];
        const int *restrict below = &table[(i + 1) * n];
        for (int j = 0; j <= i; j++)
            row[j] = 0;
        if (i == n - 1)
            continue;
        for (int j = i + 1; j < n; j++) {
            int pair = below[j - 1] + (i < j - 1 && seq[i] + seq[j] == 3);
            row[j] = below[j] > pair ? below[j] : pair;
        }
        for (int k = i + 1; k < n; k++) {
            const int *restrict rest = &table[(k + 1) * n];
            int here = row[k] > row[k - 1] ? row[k] : row[k - 1];
            row[k] = here;
            for (int j = k + 1; j < n; j++) {
                int cut = here + rest[j];
                row[j] = cut > row[j] ? cut : row[j];
            }
        }
    }
}
