/* The right loops in the wrong order: the node on the way comes last. */
void polybench_floyd_warshall(int n, int *path)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                int through = path[i * n + k] + path[k * n + j];
                if (through < path[i * n + j])
                    path[i * n + j] = through;
            }
}
