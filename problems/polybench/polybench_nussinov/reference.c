/* Ever longer parts of the sequence: one base is left alone, or both ends pair, or the part is cut in two. */
void polybench_nussinov(int n, const int *seq, int *table)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            table[i * n + j] = 0;
    for (int i = n - 1; i >= 0; i--)
        for (int j = i + 1; j < n; j++) {
            int most = table[i * n + j - 1];
            if (table[(i + 1) * n + j] > most)
                most = table[(i + 1) * n + j];
            /* Neighbours cannot pair. */
            int pair = table[(i + 1) * n + j - 1] + (i < j - 1 && seq[i] + seq[j] == 3);
            if (pair > most)
                most = pair;
            for (int k = i + 1; k < j; k++) {
                int cut = table[i * n + k] + table[(k + 1) * n + j];
                if (cut > most)
                    most = cut;
            }
            table[i * n + j] = most;
        }
}
