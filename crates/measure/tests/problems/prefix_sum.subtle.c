/* The last sum lacks the last number. */
void prefix_sum(int n, const int *in, int *out)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (i < n - 1)
            sum += in[i];
        out[i] = sum;
    }
}
