/* One count for each key. */
void histogram(int n, int bins, const int *key, int *count)
{
    for (int k = 0; k < bins; k++)
        count[k] = 0;
    for (int i = 0; i < n; i++)
        count[key[i]]++;
}
