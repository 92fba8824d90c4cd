/* Paths through the nodes below k first, then those through k as well. */
void polybench_floyd_warshall(int n, int *path)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                int through = path[i * n + k] + path[k * n + j];
                path[i * n + j] = path[i * n + j] < through ? path[i * n + j] : through;
            }
}
