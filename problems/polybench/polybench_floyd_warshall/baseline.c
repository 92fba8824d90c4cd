/* The baseline: a row at a time, without branches. It is correct for every size; it must never change, or old numbers
   lose their meaning. */
void polybench_floyd_warshall(int n, int *path)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            /* A cycle through k shortens nothing. */
            if (i == k)
                continue;
            int *restrict x = &path[i * n];
            const int *restrict y = &path[k * n];
            int first = x[k];
            for (int j = 0; j < n; j++) {
                int through = first + y[j];
                x[j] = through < x[j] ? through : x[j];
            }
        }
}
