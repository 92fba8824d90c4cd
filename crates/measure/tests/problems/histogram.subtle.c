/* Two keys at a time: when they are equal, one is lost. */
void histogram(int n, int bins, const int *key, int *count)
{
    for (int k = 0; k < bins; k++)
        count[k] = 0;
    int i = 0;
    for (; i + 2 <= n; i += 2) {
        int first = count[key[i]] + 1, second = count[key[i + 1]] + 1;
        count[key[i]] = first;
        count[key[i + 1]] = second;
    }
    if (i < n)
        count[key[i]]++;
}
