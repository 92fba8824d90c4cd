/* The right loops in the wrong order: the node on the way comes last. */
void floyd_warshall(int n, const int *weight, int *length)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            length[i * n + j] = i == j ? 0 : weight[i * n + j];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++) {
                int through = length[i * n + k] + length[k * n + j];
                if (through < length[i * n + j])
                    length[i * n + j] = through;
            }
}
